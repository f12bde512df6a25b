//! `cargo xtask fuzz`: the parsers against anything.

use std::process::{Command, ExitCode};

use anyhow::ensure;
use clap::Args;

use crate::command::{root, run};

const TARGETS: &[&str] =
    &["quantity", "expression", "sidecarset", "decode", "protobuf", "strategic", "apply", "selector", "request"];

/// Runs the fuzzers one after the other.
#[derive(Args)]
pub(crate) struct Fuzz {
    /// Only these targets.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// How long each of them runs.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Writes new inputs into the committed corpus, instead of a copy that is thrown away.
    #[arg(long)]
    keep: bool,
}

impl Fuzz {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        for target in &self.targets {
            ensure!(
                TARGETS.contains(&target.as_str()),
                "there is no target {target:?}; the targets are {}",
                TARGETS.join(", ")
            );
        }
        ensure!(
            cargo_nightly().args(["fuzz", "--version"]).output().is_ok_and(|output| output.status.success()),
            "cargo-fuzz is missing: cargo install cargo-fuzz (it also needs a nightly toolchain: rustup toolchain install nightly)"
        );
        let targets =
            TARGETS.iter().copied().filter(|name| self.targets.is_empty() || self.targets.iter().any(|t| t == name));
        for target in targets {
            let mut command = cargo_nightly();
            command.args(["fuzz", "run", target]);
            if !self.keep {
                // The first folder gets the new inputs, the others are only read.
                let scratch = root().join("fuzz/target/corpus").join(target);
                std::fs::create_dir_all(&scratch)?;
                command.arg(scratch).arg(root().join("fuzz/corpus").join(target));
            }
            command.arg("--").arg(format!("-max_total_time={}", self.seconds));
            run(command)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn cargo_nightly() -> Command {
    let mut command = Command::new("cargo");
    // The compiler that runs this program would win over the one that is asked for.
    command.current_dir(root()).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC").arg("+nightly");
    command
}
