//! The scenarios on the real cluster.

use pillion_scenarios::{TestCluster, scenario};

macro_rules! on_the_real_cluster {
    ($($module:ident::$scenario:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $scenario() -> anyhow::Result<()> {
                let name = stringify!($module).replace('_', "-");
                TestCluster::real().await?.run(&name, scenario::$module::$scenario).await
            }
        )+
    };
}

pillion_scenarios::scenarios!(on_the_real_cluster);

/// The embedded cluster has tests of the same commands beside them.
#[tokio::test]
async fn the_command_line_follows_and_changes_a_rollout() -> anyhow::Result<()> {
    let scenario = scenario::sidecar_rollouts::the_command_line_follows_and_changes_a_rollout;
    TestCluster::real().await?.run("rollout-commands", scenario).await
}

/// The kubelet of the embedded node does not listen.
#[tokio::test]
async fn a_native_sidecar_is_sized_by_what_its_kubelet_reports() -> anyhow::Result<()> {
    let scenario = scenario::rightsizing::a_native_sidecar_is_sized_by_what_its_kubelet_reports;
    TestCluster::real().await?.run("rightsizing", scenario).await
}

/// With the programs that users run; the command line has a test of the same beside it, on the embedded API server.
#[tokio::test]
async fn a_patch_that_is_applied_keeps_the_order_of_containers() -> anyhow::Result<()> {
    let scenario = scenario::rightsizing::a_patch_that_is_applied_keeps_the_order_of_containers;
    TestCluster::real().await?.run("recommend-patch", scenario).await
}
