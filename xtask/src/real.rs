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

/// Compares the embedded API server with a real one, and runs the scenarios on a whole cluster.
pub(crate) fn scenarios() -> anyhow::Result<()> {
    let control_plane = Cluster::up(&Options { control_plane_only: true, ..Options::default() })?;
    let outcome = compare_api_servers(&control_plane);
    control_plane.down()?;
    outcome?;
    let cluster = Cluster::up(&Options::default())?;
    let outcome = on(&cluster);
    cluster.down()?;
    outcome
}

/// On a control plane alone: nothing but the requests writes there.
fn compare_api_servers(control_plane: &Cluster) -> anyhow::Result<()> {
    let mut command = cargo(["test", "--package", "pillion-differential", "--features", "real"]);
    command.args(["--test", "real", "--test", "generated", "--", "--nocapture"]);
    command.envs(control_plane.environment());
    run(command)?;
    let mut command = cargo(["test", "--package", "pillion-kubectl", "--features", "real", "--test", "real"]);
    command.envs(control_plane.environment());
    run(command)
}

fn on(cluster: &Cluster) -> anyhow::Result<()> {
    let mut images = std::process::Command::new(std::env::current_exe()?);
    images.arg("image");
    run(images)?;
    let mut command = cargo(["test", "--package", "pillion-scenarios", "--features", "real"]);
    // They mostly wait for the cluster.
    command.args(["--test", "real", "--test", "quantity", "--", "--test-threads", "8"]).envs(cluster.environment());
    run(command)?;
    run(cargo(["build", "--package", "pillion"]))?;
    let mut command = cargo(["test", "--package", "pillion-kubectl", "--features", "real", "--test", "running"]);
    command.envs(cluster.environment()).env("PILLION", std::env::current_exe()?.with_file_name("pillion"));
    run(command)
}
