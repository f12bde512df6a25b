//! The tiers that need a real cluster.

use pillion_cluster::cli::ClusterCommand;
use pillion_cluster::{Cluster, Options, prerequisites};

use crate::command::{cargo, run};

/// Why there can be no cluster here, in one line.
pub(crate) fn missing() -> Option<String> {
    let missing = prerequisites(&Options::default()).err()?;
    Some(missing.to_string().lines().collect::<Vec<_>>().join("; "))
}

/// Brings clusters of its own up and down; and says whether the pinned Go module is still what Kubernetes' own makes it.
pub(crate) fn leaves_nothing_behind() -> anyhow::Result<()> {
    // Where ready-made binaries are used there need be no Go.
    if std::process::Command::new("go").arg("version").output().is_ok_and(|output| output.status.success()) {
        pillion_cluster::cli::run(ClusterCommand::GoMod { check: true })?;
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
