//! `cargo xtask bench`: the benchmarks, and the ratios between them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use serde_json::Value;

use crate::command::{cargo, output, run};
use crate::{agent, build, wrap};

/// What is compared with what: the larger work, the smaller work, and the ratio that the design allows.
const RATIOS: &[(&str, &str, &str)] = &[
    ("admit/50000 sets", "admit/100 sets", "at most 1.2"),
    ("rollout/plan/100000", "rollout/plan/10000", "at most 20"),
    ("rightsize/pass/100000", "rightsize/pass/10000", "at most 11"),
    ("patch/20000 fields", "patch/2000 fields", "at most 15"),
    ("preview/10000 workloads", "preview/1000 workloads", "at most 11"),
];

/// Runs the benchmarks.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    beside: Option<Beside>,
    /// Only benchmarks whose name contains this.
    filter: Option<String>,
}

/// What is measured beside another program.
#[derive(Subcommand)]
enum Beside {
    /// The embedded API server beside kube-apiserver with etcd; `-- --help` lists what can be said of the load.
    Apiserver {
        /// For pillion-engine-load.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// What one admission over HTTPS costs the manager, beside a server that only decodes.
    Webhook {
        /// For pillion-load.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// What attacks on the webhooks cost the manager and its good clients.
    Attack {
        /// For pillion-load.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// What it costs the manager to hold 50,000 SidecarSets, their revisions and 100,000 pods.
    Manager {
        /// For pillion-load.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// What a pass of the recommender costs, over 10,000 and 100,000 containers: processor time, memory and writes.
    Rightsize {
        /// For pillion-load.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// A rollout of a SidecarSet over 100,000 simulated pods beside one over 10,000: processor time, memory and writes for each pod, and the
    /// decision pass alone.
    Rollout {
        /// For pillion-load.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// The size of `pillion-agent`, and what ten probes cost each pod: memory, processor time and writes.
    Agent {
        /// How long it is looked at.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// Another agent with the same configuration, such as the Go agent of the proposal, to be looked at in the same run.
        #[arg(long, value_name = "PROGRAM")]
        peer: Option<PathBuf>,
    },
    /// The processor time of the first build, beside an optimised one, and the sizes of the programs.
    Build,
    /// The size of `pillion-wrap`, and the memory that it takes in each container.
    Wrap,
    /// 100,000 simulated pods in one process: memory, time until all run, and a rollout in virtual time.
    Simulate {
        /// For pillion-engine-load.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

impl Bench {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(Beside::Wrap) = self.beside {
            wrap::bench()?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(Beside::Build) = self.beside {
            build::bench()?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(Beside::Agent { seconds, peer }) = &self.beside {
            agent::bench(*seconds, peer.as_deref())?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(beside) = self.beside {
            let is_rollout = matches!(beside, Beside::Rollout { .. });
            let package = match beside {
                Beside::Apiserver { .. } | Beside::Simulate { .. } => "pillion-engine-load",
                _ => "pillion-load",
            };
            let mut command = cargo(["run", "--release", "--quiet", "--package", package, "--"]);
            match beside {
                Beside::Apiserver { arguments } => command.args(arguments),
                Beside::Webhook { arguments } => command.arg("webhook").args(arguments),
                Beside::Attack { arguments } => command.arg("attack").args(arguments),
                Beside::Manager { arguments } => command.arg("manager").args(arguments),
                Beside::Rightsize { arguments } => command.arg("rightsize").args(arguments),
                Beside::Rollout { arguments } => command.arg("rollout").args(arguments),
                Beside::Agent { .. } | Beside::Build | Beside::Wrap => &mut command,
                Beside::Simulate { arguments } => command.arg("simulate").args(arguments),
            };
            run(command)?;
            if is_rollout {
                measure(&["--bench", "plan"], Some("rollout/plan"))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        measure(&["--benches"], self.filter.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs benchmarks of criterion, and prints the means and their ratios.
fn measure(targets: &[&str], filter: Option<&str>) -> anyhow::Result<()> {
    let mut command = cargo(["bench", "--package", "pillion-benches"]);
    command.args(targets).arg("--").args(filter);
    run(command)?;
    let target: Value = serde_json::from_str(&output(cargo(["metadata", "--no-deps", "--format-version", "1"]))?)?;
    let folder =
        Path::new(target["target_directory"].as_str().context("cargo has a target directory")?).join("criterion");
    let mut means = means(&folder)?;
    // What earlier runs have measured is kept there as well.
    means.retain(|name, _| filter.is_none_or(|filter| name.contains(filter)));
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["benchmark", "mean"]);
    for (name, nanoseconds) in &means {
        table.add_row([name.clone(), duration(*nanoseconds)]);
    }
    println!("\n{table}\n");
    for (larger, smaller, goal) in RATIOS {
        if let (Some(larger_mean), Some(smaller_mean)) = (means.get(*larger), means.get(*smaller)) {
            println!("{larger} / {smaller}: {:.2} (goal {goal})", larger_mean / smaller_mean);
        }
    }
    Ok(())
}

/// The mean of every benchmark that criterion has kept, in nanoseconds.
fn means(folder: &Path) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut means = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.file_name().is_some_and(|name| name == "new") {
                let read = |file: &str| anyhow::Ok(serde_json::from_slice::<Value>(&std::fs::read(path.join(file))?)?);
                let name = read("benchmark.json")?["full_id"].as_str().unwrap_or_default().to_owned();
                let mean = read("estimates.json")?["mean"]["point_estimate"].as_f64().unwrap_or_default();
                means.insert(name, mean);
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    Ok(means)
}

fn duration(nanoseconds: f64) -> String {
    if nanoseconds < 1_000.0 {
        format!("{nanoseconds:.0} ns")
    } else if nanoseconds < 1_000_000.0 {
        format!("{:.2} µs", nanoseconds / 1_000.0)
    } else {
        format!("{:.2} ms", nanoseconds / 1_000_000.0)
    }
}
