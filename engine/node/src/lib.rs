//! A node: takes the pods that are bound to it through their lives.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::{Api, Client};
//! use pillion_apiserver::ApiServer;
//! use pillion_node::{Capacity, Config, Node, SimulatedRuntime};
//!
//! let server = ApiServer::new(pillion_apiserver::Config::in_memory());
//! server.bootstrap().await?;
//! let (client, clock) = (Client::new(server.router(), "default"), server.clock());
//! let config = Config {
//!     name: "one".into(),
//!     client: client.clone(),
//!     clock,
//!     recorder: pillion_events::Recorder::new(client.clone(), move || clock.now(), "kubelet"),
//!     capacity: Capacity { cpu: "4".parse()?, memory: "8Gi".parse()?, ephemeral_storage: "64Gi".parse()?, pods: 110 },
//!     labels: Default::default(),
//!     address: "192.168.0.1".parse()?,
//!     api_server: None,
//!     gates: Default::default(),
//! };
//! let node = Arc::new(Node::new(config, SimulatedRuntime::new(clock)));
//! server.register_node("one", node.kubelet());
//! tokio::spawn({ let node = Arc::clone(&node); async move { node.run().await } });
//!
//! # let mut account = k8s_openapi::api::core::v1::ServiceAccount::default();
//! # account.metadata.name = Some("default".into());
//! # Api::default_namespaced(client.clone()).create(&Default::default(), &account).await?;
//! let pods: Api<Pod> = Api::default_namespaced(client);
//! let pod = serde_json::from_value(serde_json::json!({
//!     "metadata": {"name": "hello"},
//!     "spec": {"nodeName": "one", "restartPolicy": "Never", "containers": [{"name": "main", "image": "hello"}]}
//! }))?;
//! pods.create(&Default::default(), &pod).await?;
//! let done = |pod: Option<&Pod>| pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()) == Some("Succeeded");
//! kube::runtime::wait::await_condition(pods, "hello", done).await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!                     ┌──────────────────────── worker ─────────────────────────┐
//!  watch of pods ────▶│ facts ─▶ lifecycle::plan ─▶ actions, status, events     │──▶ status writes, deletions
//!  exits, probes ────▶│   ▲                             │                       │
//!  hooks, starts      │   └───────── outcomes ──────────┘ tasks                 │
//!                     └───────────────────────┬─────────────────────────────────┘
//!                                             ▼
//!                                          Runtime: processes, or simulated
//! ```
//!
//! # Invariants
//! - One loop changes what is known of a pod. Whatever takes time runs in a task, and its outcome is news to the loop.
//! - The node decides nothing that `pillion-lifecycle` can decide; it executes each action once and reports what came of it.
//! - A status is written only when it differs, one write per pod at a time, and a terminal phase is never taken back.
//! - A pod that nothing happens to costs no time: there are no timers per pod but those that its plan or its probes ask for.

mod admission;
mod config;
mod container;
mod environment;
mod events;
mod facts;
mod hooks;
mod images;
mod kubelet;
mod lease;
mod logs;
mod marked;
mod news;
mod node;
mod pods;
mod ports;
mod probe;
mod process;
mod refresh;
mod registration;
mod resize;
mod runtime;
mod samples;
mod shutdown;
mod simulated;
mod sources;
mod state;
mod status;
mod streaming;
mod target;
mod usage;
mod volumes;
mod watch;
mod worker;

#[cfg(test)]
mod tests;

pub use config::{Capacity, Config};
pub use images::{Image, ImageMap, ImageMapError, Pull};
pub use node::Node;
pub use process::ProcessRuntime;
pub use runtime::{
    ContainerId, ContainerSpec, ExecError, ExecOutput, Exit, Limits, LogOptions, Mount, Refusal, Runtime, Sandbox,
    Signal, Started, Usage, Volume, VolumeContent, VolumeFile,
};
pub use simulated::SimulatedRuntime;
