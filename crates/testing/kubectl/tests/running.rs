//! Sessions of kubectl with a whole cluster and with `pillion up`: what runs, runs alike.

use std::path::Path;

use anyhow::Context as _;
use pillion_kubectl::{Server, Up, both_print_the_same};

macro_rules! sessions {
    ($($name:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
            async fn $name() -> anyhow::Result<()> {
                let kubeconfig =
                    std::env::var_os("KUBECONFIG").context("no cluster: run this with `cargo xtask cluster run -- …`")?;
                let up = Up::start()?;
                let file = concat!(env!("CARGO_MANIFEST_DIR"), "/sessions/running/", stringify!($name), ".console");
                let embedded = Server { kubeconfig: up.kubeconfig() };
                both_print_the_same(Path::new(file), Server { kubeconfig: kubeconfig.into() }, embedded).await
            }
        )+
    };
}

sessions! {
    a_deployment_is_rolled_out,
    a_job_is_waited_for,
    a_namespace_goes_with_all_in_it,
}
