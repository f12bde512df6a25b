//! The tiers that need a real cluster.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::command::{all, cargo, cluster_program, run, tests};
use crate::generate;

/// The tests of these tiers, by name. `test = false` in their manifests keeps them out of `cargo test`; a name is of one crate only, so
/// that they are compiled with the features, and with the dependencies, of the whole workspace.
pub(crate) const TESTS: [&str; 8] =
    [LEAVES_NOTHING_BEHIND, "record", "generated", "sessions", "real", "quantity", "running", "install"];
const LEAVES_NOTHING_BEHIND: &str = "leaves_nothing_behind";

/// Tests that run in a command with a cluster: `pillion-cluster run -- cargo xtask on-cluster WHICH`.
#[derive(Args)]
pub(crate) struct OnCluster {
    which: Which,
}

/// What the cluster consists of.
#[derive(Clone, Copy, ValueEnum)]
enum Which {
    /// Nothing but the requests of the tests writes there.
    ControlPlane,
    Whole,
}

impl OnCluster {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.which {
            Which::ControlPlane => compare_api_servers()?,
            Which::Whole => run_on_whole_cluster()?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns why a cluster cannot run here, in one line.
pub(crate) fn missing() -> Option<String> {
    let output = cluster_program(["check"]).output().ok()?;
    let missing = String::from_utf8_lossy(&output.stderr);
    (!output.status.success()).then(|| missing.trim().trim_start_matches("cluster: ").replace('\n', "; "))
}

/// Starts and stops clusters. Also compares the pinned Go module, and the table of types that is made with it, with Kubernetes' own.
pub(crate) fn leaves_nothing_behind() -> anyhow::Result<()> {
    let mut outcomes = Vec::new();
    if generate::has_go() {
        outcomes.push(run(cluster_program(["go-mod", "--check"])));
        outcomes.push(generate::check_schemas());
    }
    outcomes.push(test(&[LEAVES_NOTHING_BEHIND], &["--nocapture"]));
    all(outcomes)
}

/// Compares the embedded API server with a real one, and runs the scenarios on a whole cluster.
pub(crate) fn scenarios() -> anyhow::Result<()> {
    let with_cluster = |options: &[&str], which: &str| {
        let mut command = cluster_program(["run"]);
        command.args(options).arg("--").arg(std::env::current_exe()?).args(["on-cluster", which]);
        run(command)
    };
    all([with_cluster(&["--control-plane-only"], "control-plane"), with_cluster(&[], "whole")])
}

fn compare_api_servers() -> anyhow::Result<()> {
    all([test(&["record", "generated"], &["--nocapture"]), test(&["sessions"], &[])])
}

fn run_on_whole_cluster() -> anyhow::Result<()> {
    // `running` and `install` start it.
    run(cargo(["build", "--package", "pillion"]))?;
    run(cluster_program(["image"]))?;
    all([
        // They mostly wait for the cluster.
        test(&["real", "quantity"], &["--test-threads", "8"]),
        test(&["running"], &[]),
        // A cluster has one installation, and the program in its image is the one that was just built.
        test(&["install"], &["--test-threads", "1"]),
    ])
}

/// Runs tests by the names of their targets, all of them even if one fails.
fn test(names: &[&str], arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = tests(["--no-fail-fast"]);
    command.args(names.iter().flat_map(|name| ["--test", name])).arg("--").args(arguments);
    command.env("PILLION", std::env::current_exe()?.with_file_name("pillion"));
    run(command)
}
