//! The tiers that need a real cluster.

use pillion_cluster::cli::ClusterCommand;
use pillion_cluster::{Cluster, Options, prerequisites};

use crate::command::{all, cargo, run};
use crate::generate;

/// The tests of these tiers, by name. `test = false` in their manifests keeps them out of `cargo test`; a name is of one crate only, so
/// that they are compiled with the features, and with the dependencies, of the whole workspace.
pub(crate) const TESTS: [&str; 8] =
    [LEAVES_NOTHING_BEHIND, "record", "generated", "sessions", "real", "quantity", "running", "install"];
const LEAVES_NOTHING_BEHIND: &str = "leaves_nothing_behind";

/// Why there can be no cluster here, in one line.
pub(crate) fn missing() -> Option<String> {
    let missing = prerequisites(&Options::default()).err()?;
    Some(missing.to_string().lines().collect::<Vec<_>>().join("; "))
}

/// Brings clusters of its own up and down; and says whether the pinned Go module, and the table of types that is made with it, are still
/// what Kubernetes' own makes them.
pub(crate) fn leaves_nothing_behind() -> anyhow::Result<()> {
    let mut outcomes = Vec::new();
    if generate::has_go() {
        outcomes.push(pillion_cluster::cli::run(ClusterCommand::GoMod { check: true }).map(drop));
        outcomes.push(generate::check_schemas());
    }
    outcomes.push(test(None, &[LEAVES_NOTHING_BEHIND], &["--nocapture"]));
    all(outcomes)
}

/// Compares the embedded API server with a real one, and runs the scenarios on a whole cluster.
pub(crate) fn scenarios() -> anyhow::Result<()> {
    all([
        on(&Options { control_plane_only: true, ..Options::default() }, compare_api_servers),
        on(&Options::default(), run_on_whole_cluster),
    ])
}

/// Brings a cluster up for some work, and takes it down whatever comes of it.
fn on(options: &Options, work: fn(&Cluster) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let cluster = Cluster::up(options)?;
    let outcome = work(&cluster);
    all([outcome, cluster.down()])
}

/// On a control plane alone: nothing but the requests writes there.
fn compare_api_servers(control_plane: &Cluster) -> anyhow::Result<()> {
    all([
        test(Some(control_plane), &["record", "generated"], &["--nocapture"]),
        test(Some(control_plane), &["sessions"], &[]),
    ])
}

fn run_on_whole_cluster(cluster: &Cluster) -> anyhow::Result<()> {
    // The program that `running` starts is among them.
    let mut images = std::process::Command::new(std::env::current_exe()?);
    images.arg("image");
    run(images)?;
    all([
        // They mostly wait for the cluster.
        test(Some(cluster), &["real", "quantity"], &["--test-threads", "8"]),
        test(Some(cluster), &["running"], &[]),
        // A cluster has one installation, and the program in its image is the one that was just built.
        test(Some(cluster), &["install"], &["--test-threads", "1"]),
    ])
}

/// Runs tests by the names of their targets, all of them even if one fails.
fn test(cluster: Option<&Cluster>, names: &[&str], arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = cargo(["test", "--workspace", "--no-fail-fast"]);
    command.args(names.iter().flat_map(|name| ["--test", name])).arg("--").args(arguments);
    command.envs(cluster.into_iter().flat_map(Cluster::environment));
    command.env("PILLION", std::env::current_exe()?.with_file_name("pillion"));
    run(command)
}
