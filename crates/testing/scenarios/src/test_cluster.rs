//! A cluster to run scenarios on.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Node, ServiceAccount};
use kube::api::{Api, DeleteParams, PostParams};
use kube::config::AuthInfo;
use kube::{Client, Config};
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use pillion_cluster::image::{PAUSE, SCENARIOS, SHELL, SHELL_TWO};
use pillion_embedded::{Containers, Embedded, NODE};
use pillion_gates::Gates;
use pillion_node::ImageMap;
use pillion_store::{Options, Store};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::diagnostics;
use crate::namespace::Namespace;
use crate::wait;

/// When time begins in an embedded cluster: 2026-01-01T00:00:00Z.
const BEGINNING: i64 = 1_767_225_600;

/// A cluster to run scenarios on.
#[derive(Clone)]
pub struct TestCluster {
    client: Client,
    engine: Engine,
    /// Held by a scenario that changes what the whole cluster has.
    alone: Arc<Mutex<()>>,
}

/// Tests share the real cluster, each from a [`TestCluster`] of its own.
static ALONE_ON_THE_REAL_ONE: LazyLock<Arc<Mutex<()>>> = LazyLock::new(Arc::default);

/// What answers.
#[derive(Clone)]
enum Engine {
    Real,
    Server(ApiServer),
    /// With the folder that its pods are kept in.
    Whole(Arc<(Embedded, Option<TempDir>)>),
}

impl TestCluster {
    /// Waits until no other scenario changes what the whole cluster has: the definition of SidecarSet, or the registration of webhooks.
    pub(crate) async fn alone(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.alone).lock_owned().await
    }

    /// The real cluster of `KUBECONFIG`, which `cargo xtask cluster run` sets.
    pub async fn real() -> anyhow::Result<TestCluster> {
        install_crypto_provider();
        install_log();
        let mut config = Config::infer().await.context("no cluster: run this with `cargo xtask cluster run -- …`")?;
        // A refusal is an answer: nothing is asked again behind a scenario's back.
        config.default_retry = false;
        Ok(TestCluster {
            client: Client::try_from(config)?,
            engine: Engine::Real,
            alone: Arc::clone(&ALONE_ON_THE_REAL_ONE),
        })
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
        Ok(TestCluster {
            client: Client::new(server.router(), "default"),
            engine: Engine::Server(server),
            alone: Arc::default(),
        })
    }

    /// The same with controllers and a node, whose containers do nothing but take time.
    pub async fn simulated() -> anyhow::Result<TestCluster> {
        let config = pillion_embedded::Config::simulated(Timestamp::from_second(BEGINNING)?);
        TestCluster::whole(config, None).await
    }

    /// A cluster of its own in this process whose containers are processes of this machine. `program` is this package's binary:
    /// pods run it, and it supervises them.
    pub async fn processes(program: &Path) -> anyhow::Result<TestCluster> {
        install_crypto_provider();
        let folder = tempfile::tempdir()?;
        let images = json!({
            SHELL: {"command": ["/bin/sh"]}, SHELL_TWO: {"command": ["/bin/sh"]}, SCENARIOS: {"command": [program]},
            // As the image does, whatever arguments a container has for another one.
            PAUSE: {"command": ["/bin/sh", "-c", "exec /bin/sleep infinity"]},
        });
        let config = pillion_embedded::Config {
            folder: folder.path().to_owned(),
            keep: None,
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            containers: Containers::Processes {
                images: ImageMap::parse(&images.to_string())?,
                supervisor: Some(program.to_owned()),
            },
            clock: Clock::system(),
            seed: None,
            gates: Gates::default().with(&"SidecarField=true".parse()?),
        };
        TestCluster::whole(config, Some(folder)).await
    }

    async fn whole(config: pillion_embedded::Config, folder: Option<TempDir>) -> anyhow::Result<TestCluster> {
        let embedded = Embedded::start(config).await?;
        let client = embedded.client();
        let is_open = |node: &Node| {
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let is_ready =
                conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
            is_ready && node.spec.as_ref().is_some_and(|spec| spec.taints.is_none())
        };
        wait::for_object(Api::<Node>::all(client.clone()), NODE, "ready", is_open).await?;
        Ok(TestCluster { client, engine: Engine::Whole(Arc::new((embedded, folder))), alone: Arc::default() })
    }

    /// How an account reaches the API server and kubelets over the network.
    ///
    /// # Errors
    /// The API server is in this process.
    pub(crate) async fn config_of(&self, namespace: &str, account: &str) -> anyhow::Result<Config> {
        let Engine::Real = self.engine else { bail!("an embedded cluster is not reached over the network") };
        let asked: TokenRequest =
            serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 3600}}))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let issued = accounts.create_token_request(account, &PostParams::default(), &asked).await?;
        let token = issued.status.context("a token was issued")?.token;
        let mut config = Config::infer().await?;
        config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
        Ok(config)
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The API server, if it is in this process.
    pub fn server(&self) -> Option<&ApiServer> {
        match &self.engine {
            Engine::Real => None,
            Engine::Server(server) => Some(server),
            Engine::Whole(whole) => Some(whole.0.server()),
        }
    }

    /// Whether somebody acts on what is asked for.
    pub(crate) fn has_controllers(&self) -> bool {
        !matches!(self.engine, Engine::Server(_))
    }

    /// Whether pods get the certificate of the API server: only one that listens on a port has one.
    pub(crate) fn has_certificate(&self) -> bool {
        match &self.engine {
            Engine::Real => true,
            Engine::Server(_) => false,
            Engine::Whole(whole) => whole.1.is_some(),
        }
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
        namespace.is_ready_for_pods().await?;
        let outcome = scenario(&namespace).await;
        if outcome.is_err() {
            diagnostics::print(&namespace).await;
        }
        namespaces.delete(namespace.name(), &DeleteParams::background()).await?;
        outcome.with_context(|| format!("scenario {name}"))
    }
}

/// What managers in this process log is printed with a test that fails.
fn install_log() {
    let log = tracing_subscriber::fmt().with_env_filter("info").with_ansi(false).with_test_writer();
    // An error means that another test has installed it.
    let _ = log.try_init();
}

/// rustls needs to know once which cryptography provider a program uses.
pub(crate) fn install_crypto_provider() {
    // An error means that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
