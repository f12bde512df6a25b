//! The embedded cluster: the scenarios that need no more than an API server, kube's controllers in virtual time, and its
//! watchers in bad weather.

// Helpers of tests are tests as well.
#![allow(clippy::unwrap_used)]

mod virtual_time;
mod watchers;

use pillion_scenarios::{TestCluster, scenario};

macro_rules! scenarios {
    ($($module:ident::$scenario:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $scenario() -> anyhow::Result<()> {
                let name = stringify!($module).replace('_', "-");
                TestCluster::embedded().await?.run(&name, scenario::$module::$scenario).await
            }
        )+
    };
}

scenarios! {
    custom_resources::the_api_server_takes_our_definition_of_sidecarset,
    service_accounts::a_token_ends_with_the_pod_that_it_is_bound_to,
    updates::concurrent_increments_all_count,
    webhooks::a_webhook_on_loopback_mutates_a_pod,
}
