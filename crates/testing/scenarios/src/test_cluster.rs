//! A cluster to run scenarios on.

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, Config};
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use pillion_store::{Options, Store};

use crate::diagnostics;
use crate::namespace::Namespace;

/// When time begins in an embedded cluster: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600;

/// A cluster to run scenarios on.
#[derive(Clone)]
pub struct TestCluster {
    client: Client,
    server: Option<ApiServer>,
}

impl TestCluster {
    /// The real cluster of `KUBECONFIG`, which `cargo xtask cluster run` sets.
    pub async fn real() -> anyhow::Result<TestCluster> {
        install_crypto_provider();
        let config = Config::infer().await.context("no cluster: run this with `cargo xtask cluster run -- …`")?;
        Ok(TestCluster { client: Client::try_from(config)?, server: None })
    }

    /// A cluster of its own in this process: an API server in memory, without controllers and nodes. Its time begins with the year 2026
    /// and moves with tokio's clock, and its uids and generated names are the same in every run.
    pub async fn embedded() -> anyhow::Result<TestCluster> {
        TestCluster::embedded_with(Options::default()).await
    }

    /// An embedded cluster whose watches can look back as far as `history` says.
    pub async fn embedded_with(history: Options) -> anyhow::Result<TestCluster> {
        let server = ApiServer::new(pillion_apiserver::Config {
            store: Store::memory(history),
            clock: Clock::virtual_from(Timestamp::from_second(BEGINNING)?),
            seed: Some(0),
            ..pillion_apiserver::Config::in_memory()
        });
        server.bootstrap().await?;
        Ok(TestCluster { client: Client::new(server.router(), "default"), server: Some(server) })
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The API server, if it is in this process.
    pub fn server(&self) -> Option<&ApiServer> {
        self.server.as_ref()
    }

    /// Runs a scenario in a namespace of its own, and prints what is in there if it fails.
    pub async fn run(
        &self,
        name: &str,
        scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let namespaces: Api<KubeNamespace> = Api::all(self.client());
        let mut new = KubeNamespace::default();
        new.metadata.generate_name = Some(format!("{name}-"));
        let created = namespaces.create(&PostParams::default(), &new).await.context("cannot make a namespace")?;
        let namespace = Namespace::new(self.clone(), created.metadata.name.unwrap_or_default());
        namespace.ensure_service_account().await?;
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
