//! The one-machine Kubernetes: API server, controllers and node, with one clock.
//!
//! ```text
//!                   ┌── workloads ──┐
//!  kubectl ─▶ TLS ─▶│   apiserver   │◀─▶ store ─▶ memory, or a folder
//!  Client ─────────▶│ (one Router)  │
//!                   └──── node ─────┘──▶ processes, or a simulation
//!        one Clock for all of them
//! ```
//!
//! # Invariants
//! - Controllers and node reach the API server as everybody does: through its router.
//! - Nothing outlives an [`Embedded`]: its tasks end when it is dropped, and its processes end with the program, however that ends.
//! - Simulated, in memory and without a port, it lives in tokio's time alone.
//!
#![doc = include_str!("../../README.md")]
#![warn(missing_docs)]

mod config;
mod keys;
mod machine;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use pillion_apiserver::{ApiServer, Credentials};
use pillion_events::Recorder;
use pillion_node::{Node, ProcessRuntime, Runtime, SimulatedRuntime};
use pillion_process::Host;
use pillion_store::{Options, Store};
use tokio::task::JoinSet;

pub use config::{Config, Containers, StartError};
pub use pillion_clock::Clock;
pub use pillion_kinds::{resource, table};
pub use pillion_node::{Image, ImageMap};
pub use pillion_process::supervise_if_asked;

/// The name of the only node.
pub const NODE: &str = "pillion";

/// A cluster in this process.
pub struct Embedded {
    clock: Clock,
    server: ApiServer,
    client: Client,
    node: AnyNode,
    port: Option<Port>,
    /// Controllers that have not begun yet.
    controllers: Mutex<Option<pillion_workloads::Config>>,
    /// Ends what runs in it when it is dropped.
    tasks: Mutex<JoinSet<()>>,
}

/// Where others reach the API server.
struct Port {
    address: SocketAddr,
    credentials: Credentials,
}

enum AnyNode {
    Processes(Arc<Node<ProcessRuntime>>),
    Simulated(Arc<Node<SimulatedRuntime>>),
}

impl Embedded {
    /// Starts a cluster. When this returns, the API server answers, and the controllers and the node are on their way.
    pub async fn start(config: Config) -> Result<Embedded, StartError> {
        let cluster = Embedded::start_without_controllers(config).await?;
        cluster.start_controllers();
        Ok(cluster)
    }

    /// As [`Embedded::start`], but nothing makes pods of the workloads that are kept before [`Embedded::start_controllers`]: whoever
    /// registers webhooks for pods does it in between.
    pub async fn start_without_controllers(config: Config) -> Result<Embedded, StartError> {
        let mut tasks = JoinSet::new();
        let server = server(&config)?;
        server.bootstrap().await.map_err(StartError::Bootstrap)?;
        let client = Client::new(server.router(), "default");
        let port = match config.listen {
            Some(address) => Some(listen(&server, address, &mut tasks)?),
            None => None,
        };
        let simulated = matches!(config.containers, Containers::Simulated { .. });
        let controllers = pillion_workloads::Config {
            quiet: simulated,
            certificate_authority: port.as_ref().map(|port| port.credentials.authority.clone()),
            ..pillion_workloads::Config::new(client.clone(), config.clock)
        };
        let clock = config.clock;
        let recorder = Recorder::new(client.clone(), move || clock.now(), "kubelet");
        let node_config = pillion_node::Config {
            name: NODE.to_owned(),
            client: client.clone(),
            clock: config.clock,
            recorder: if simulated { recorder.quiet() } else { recorder },
            capacity: if simulated { machine::boundless() } else { machine::capacity(&config.folder) },
            labels: BTreeMap::new(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            api_server: port.as_ref().map(|port| port.address),
            gates: config.gates,
        };
        let node = match config.containers {
            Containers::Simulated { images } => {
                let runtime = SimulatedRuntime::new(config.clock).with_images(images);
                AnyNode::Simulated(begin(node_config, runtime, &server, &mut tasks))
            }
            Containers::Processes { images, supervisor } => {
                let folder = config.folder.join("pods");
                let host = match supervisor {
                    Some(program) => Host::with_supervisor(folder, program),
                    None => Host::new(folder),
                };
                let host = host.map_err(StartError::Host)?;
                AnyNode::Processes(begin(node_config, ProcessRuntime::new(host, images), &server, &mut tasks))
            }
        };
        let (controllers, tasks) = (Mutex::new(Some(controllers)), Mutex::new(tasks));
        Ok(Embedded { clock, server, client, node, port, controllers, tasks })
    }

    /// Starts the controllers, if they do not run yet.
    pub fn start_controllers(&self) {
        let controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(controllers) = controllers {
            self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(pillion_workloads::run(controllers));
        }
    }

    /// The clock of the cluster.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The API server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Where the API server listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(|port| port.address)
    }

    /// Writes what kubectl needs to reach the API server. Only the owner can read it.
    pub fn write_kubeconfig(&self, path: &Path) -> Result<(), StartError> {
        let Some(port) = &self.port else { return Ok(()) };
        port.credentials.write_kubeconfig(path, port.address).map_err(StartError::Credentials)
    }

    /// Ends every container: each has its pod's grace period, and none has longer than `within`. Objects stay as they are.
    pub async fn stop(&self, within: Duration) {
        match &self.node {
            AnyNode::Processes(node) => node.shutdown(within).await,
            AnyNode::Simulated(node) => node.shutdown(within).await,
        }
    }
}

fn server(config: &Config) -> Result<ApiServer, StartError> {
    let store = match &config.keep {
        Some(folder) => Store::open(folder, Options::default()).map_err(StartError::Store)?,
        None => Store::memory(Options::default()),
    };
    let tokens = match &config.keep {
        Some(folder) => Some(keys::token_signer(folder)?),
        None => pillion_apiserver::Config::in_memory().tokens,
    };
    let config =
        pillion_apiserver::Config { store, clock: config.clock, tokens, seed: config.seed, gates: config.gates };
    Ok(ApiServer::new(config))
}

fn listen(server: &ApiServer, address: SocketAddr, tasks: &mut JoinSet<()>) -> Result<Port, StartError> {
    let listener = TcpListener::bind(address).map_err(|source| StartError::Listen { address, source })?;
    let address = listener.local_addr().map_err(|source| StartError::Listen { address, source })?;
    let credentials = Credentials::generate(address).map_err(StartError::Credentials)?;
    let (serving, shown) = (server.clone(), credentials.clone());
    tasks.spawn(async move {
        if let Err(error) = serving.serve(listener, &shown).await {
            tracing::error!(%error, "the API server's port is closed");
        }
    });
    Ok(Port { address, credentials })
}

fn begin<R: Runtime>(
    config: pillion_node::Config,
    runtime: R,
    server: &ApiServer,
    tasks: &mut JoinSet<()>,
) -> Arc<Node<R>> {
    let node = Arc::new(Node::new(config, runtime));
    server.register_node(NODE, node.kubelet());
    server.register_metrics(node.metrics());
    let running = Arc::clone(&node);
    tasks.spawn(async move { running.run().await });
    node
}
