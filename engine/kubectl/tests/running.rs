//! Sessions of kubectl with a whole cluster and with `pillion up`: what runs, runs alike.

use std::path::Path;

use anyhow::Context as _;
use pillion_kubectl::{Server, Up, both_print_the_same, no_session_is_forgotten};

const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sessions/running");

macro_rules! sessions {
    ($($name:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn $name() -> anyhow::Result<()> {
                a_cluster_and_pillion_up_make_kubectl_print_the_same(stringify!($name)).await
            }
        )+

        #[test]
        fn every_session_is_held() -> anyhow::Result<()> {
            no_session_is_forgotten(Path::new(SESSIONS), &[$(stringify!($name)),+])
        }
    };
}

sessions! {
    a_deployment_is_rolled_out,
    a_job_is_waited_for,
    a_namespace_goes_with_all_in_it,
    containers_are_attached_to,
    containers_are_entered,
    ports_are_forwarded,
    sidecars_end_with_their_job,
}

async fn a_cluster_and_pillion_up_make_kubectl_print_the_same(name: &str) -> anyhow::Result<()> {
    let kubeconfig =
        std::env::var_os("KUBECONFIG").context("no cluster: run this with `cargo xtask cluster run -- …`")?;
    let up = Up::start()?;
    let file = Path::new(SESSIONS).join(format!("{name}.console"));
    let embedded = Server { kubeconfig: up.kubeconfig() };
    both_print_the_same(&file, Server { kubeconfig: kubeconfig.into() }, embedded).await
}
