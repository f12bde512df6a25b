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

/// The embedded node limits no memory: nothing is OOM killed there.
#[tokio::test]
async fn an_oom_killed_native_sidecar_gets_more_memory() -> anyhow::Result<()> {
    TestCluster::real()
        .await?
        .run("rightsizing", scenario::rightsizing::an_oom_killed_native_sidecar_gets_more_memory)
        .await
}
