//! The embedded cluster: the scenarios with containers as processes, kube's controllers in virtual time, and its
//! watchers in bad weather.

// Helpers of tests are tests as well.
#![allow(clippy::unwrap_used)]

mod simulated;
mod virtual_time;
mod watchers;

use pillion_scenarios::{TestCluster, scenario};

macro_rules! on_processes {
    ($($module:ident::$scenario:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $scenario() -> anyhow::Result<()> {
                let name = stringify!($module).replace('_', "-");
                let program = env!("CARGO_BIN_EXE_pillion-scenarios");
                TestCluster::processes(program.as_ref()).await?.run(&name, scenario::$module::$scenario).await
            }
        )+
    };
}

pillion_scenarios::scenarios!(on_processes);
