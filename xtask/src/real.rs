//! The tiers that need a real cluster.

use pillion_cluster::cli::ClusterCommand;
use pillion_cluster::{Cluster, Options, prerequisites};

use crate::command::{cargo, run};
use crate::generate;

/// Why there can be no cluster here, in one line.
pub(crate) fn missing() -> Option<String> {
    let missing = prerequisites(&Options::default()).err()?;
    Some(missing.to_string().lines().collect::<Vec<_>>().join("; "))
}

/// Brings clusters of its own up and down; and says whether the pinned Go module, and the table of types that is made with it, are still
/// what Kubernetes' own makes them.
pub(crate) fn leaves_nothing_behind() -> anyhow::Result<()> {
    if generate::has_go() {
        pillion_cluster::cli::run(ClusterCommand::GoMod { check: true })?;
        generate::check_schemas()?;
    }
    let mut command =
        cargo(["test", "--package", "pillion-cluster", "--features", "real", "--test", "leaves_nothing_behind"]);
    command.args(["--", "--nocapture"]);
    run(command)
}

/// Runs the scenarios on one cluster.
pub(crate) fn scenarios() -> anyhow::Result<()> {
    let cluster = Cluster::up(&Options::default())?;
    let outcome = on(&cluster);
    cluster.down()?;
    outcome
}

fn on(cluster: &Cluster) -> anyhow::Result<()> {
    let mut images = std::process::Command::new(std::env::current_exe()?);
    images.arg("image");
    run(images)?;
    let mut command = cargo(["test", "--package", "pillion-scenarios", "--features", "real", "--tests"]);
    command.envs(cluster.environment());
    run(command)
}
