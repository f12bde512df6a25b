//! The scenarios on the real cluster.

use pillion_scenarios::{TestCluster, scenario};

macro_rules! scenarios {
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

scenarios! {
    custom_resources::the_api_server_takes_our_definition_of_sidecarset,
    jobs::a_job_with_a_native_sidecar_completes,
    native_sidecars::a_native_sidecar_is_resized_in_place,
    native_sidecars::a_native_sidecar_gets_a_new_image_and_restarts_alone,
    usage::the_kubelet_reports_the_usage_of_every_container,
    service_accounts::a_pod_labels_itself_with_its_own_token,
    service_accounts::a_token_ends_with_the_pod_that_it_is_bound_to,
    updates::concurrent_increments_all_count,
    webhooks::a_webhook_on_loopback_mutates_a_pod,
    webhooks::a_webhook_in_a_pod_mutates_a_pod,
    terminal_phase::a_terminal_phase_with_an_annotation_stops_the_sidecar,
    terminal_phase::a_terminal_phase_alone_is_taken_back,
}
