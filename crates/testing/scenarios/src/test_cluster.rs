//! A cluster to run scenarios on.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Config};

use crate::diagnostics;
use crate::namespace::Namespace;

/// A cluster to run scenarios on.
#[derive(Clone)]
pub struct TestCluster {
    client: Client,
}

impl TestCluster {
    /// The real cluster of `KUBECONFIG`, which `cargo xtask cluster run` sets.
    pub async fn real() -> anyhow::Result<TestCluster> {
        install_crypto_provider();
        let config = Config::infer().await.context("no cluster: run this with `cargo xtask cluster run -- …`")?;
        Ok(TestCluster { client: Client::try_from(config)? })
    }

    /// Runs a scenario in a namespace of its own, and prints what is in there if it fails.
    pub async fn run(
        &self,
        name: &str,
        scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let namespaces: Api<KubeNamespace> = Api::all(self.client.clone());
        let mut new = KubeNamespace::default();
        new.metadata.generate_name = Some(format!("{name}-"));
        let created = namespaces.create(&PostParams::default(), &new).await.context("cannot make a namespace")?;
        let namespace = Namespace::new(self.client.clone(), created.metadata.name.unwrap_or_default());
        namespace.wait_for_service_account().await?;
        let outcome = scenario(&namespace).await;
        if outcome.is_err() {
            diagnostics::print(&namespace).await;
        }
        namespaces.delete(namespace.name(), &DeleteParams::background()).await?;
        outcome.with_context(|| format!("scenario {name}"))
    }
}

/// rustls wants to be told once which cryptography a program uses.
pub(crate) fn install_crypto_provider() {
    // An error means that it was told before, which is as good.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
