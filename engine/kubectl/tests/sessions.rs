//! Sessions of kubectl with a real API server and with the embedded one.

use std::path::Path;

use anyhow::Context as _;
use pillion_kubectl::{Embedded, Server, both_print_the_same, no_session_is_forgotten};

const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sessions");

macro_rules! sessions {
    ($($name:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn $name() -> anyhow::Result<()> {
                both_servers_make_kubectl_print_the_same(stringify!($name)).await
            }
        )+

        #[test]
        fn every_session_is_held() -> anyhow::Result<()> {
            no_session_is_forgotten(Path::new(SESSIONS), &[$(stringify!($name)),+])
        }
    };
}

sessions! {
    access_is_reviewed,
    changes_are_watched,
    conditions_are_waited_for,
    custom_resources_are_objects_too,
    differences_are_shown,
    kinds_are_explained,
    labels_and_annotations_are_set,
    manifests_are_applied,
    manifests_are_applied_by_the_server,
    nodes_are_kept,
    objects_are_created,
    objects_are_deleted,
    objects_are_described,
    objects_are_edited_and_replaced,
    objects_are_got,
    objects_are_patched,
    pods_without_a_node_cannot_be_entered,
    rollouts_are_followed,
    sidecarsets_are_served,
    what_is_served_is_listed,
    workloads_are_scaled,
    wrong_input_has_a_clear_answer,
}

async fn both_servers_make_kubectl_print_the_same(name: &str) -> anyhow::Result<()> {
    let kubeconfig = std::env::var_os("KUBECONFIG")
        .context("no cluster: run this with `cargo xtask cluster run --control-plane-only -- …`")?;
    let server = Embedded::start().await?;
    let file = Path::new(SESSIONS).join(format!("{name}.console"));
    let embedded = Server { kubeconfig: server.kubeconfig() };
    both_print_the_same(&file, Server { kubeconfig: kubeconfig.into() }, embedded).await
}
