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

// Of the one list, what has been seen to give the same story on a real cluster; the rest is still to be recorded there.
on_the_real_cluster! {
    configuration::a_pod_waits_for_its_volume,
    custom_resources::the_api_server_takes_our_definition_of_sidecarset,
    deletion::a_deleted_pod_is_replaced,
    deployments::a_paused_deployment_waits,
    namespaces::a_namespace_takes_everything_with_it,
    native_sidecars::a_native_sidecar_gets_a_new_image_and_restarts_alone,
    native_sidecars::a_native_sidecar_is_resized_in_place,
    rollouts::a_new_template_is_rolled_out_step_by_step,
    scheduling::a_pod_that_wants_another_node_waits,
    scheduling::a_pod_that_wants_too_much_waits,
    service_accounts::a_pod_labels_itself_with_its_own_token,
    service_accounts::a_token_ends_with_the_pod_that_it_is_bound_to,
    terminal_phase::a_terminal_phase_alone_is_taken_back,
    terminal_phase::a_terminal_phase_with_an_annotation_stops_the_sidecar,
    updates::concurrent_increments_all_count,
    usage::the_kubelet_reports_the_usage_of_every_container,
    webhooks::a_webhook_in_a_pod_mutates_a_pod,
    webhooks::a_webhook_on_loopback_mutates_a_pod,
}
