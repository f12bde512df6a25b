//! `pillion-agent`: runs in a pod where no node daemon can, probes the service, publishes what it finds, and updates files and
//! configuration without a restart. Third parties add plugins out of process, or by the trait [`Plugin`] in a binary of their own:
//!
//! ```no_run
//! use pillion_agent::{Command, Registry, parse, run};
//! # use pillion_agent::{BoxFuture, Host, Plugin};
//! # struct Mine;
//! # impl Plugin for Mine {
//! #     fn name(&self) -> &str { "mine" }
//! #     fn init(&mut self, _: &serde_json::Value, _: Host) -> Result<(), String> { Ok(()) }
//! #     fn start(&self) -> BoxFuture<'_, Result<(), String>> { Box::pin(std::future::pending()) }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), String> {
//! let mut registry = Registry::new();
//! registry.insert("mine".into(), || Box::new(Mine));
//! if let Command::Run(arguments) = parse(std::env::args().skip(1))? {
//!     run(arguments, registry).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  config.yaml, file or ConfigMap ─▶ assist::Config ─▶ manager ─▶ supervise ─┬─▶ http_probe ─▶ prober ─┐
//!                                                         ▲                  ├─▶ pod_probe             ├─▶ publisher (assist::Ledger) ─▶ API server
//!  GET /status, /metrics ─▶ server ───────────────────────┘                  ├─▶ hot_update ───────────┤
//!  POST /hot-update ───────────┴─────────────────────────────────────────────┘   external (stdio, socket)
//! ```
//!
//! # Invariants
//! - What is decided is decided by `pillion_assist`; this crate executes.
//! - One task writes, and only what differs from what the API server has acknowledged.
//! - A plugin runs in a task of its own: its failure, also a panic, ends and restarts nothing else.
//! - A configuration that is wrong changes nothing.
//! - Updates are written below one directory only, by descriptors and without following links; the file is wholly old or wholly new
//!   whenever the agent is killed.
//! - Only processes in the agent's own process namespace are signalled, by pidfd.

mod agent;
mod api;
mod arguments;
mod external;
mod fault;
mod files;
mod form;
mod hot_update;
mod http;
mod http_probe;
mod in_cluster;
mod log;
mod manager;
mod plugin;
mod pod;
mod pod_probe;
mod prober;
mod program;
mod publisher;
mod server;
mod supervise;

pub use agent::run;
pub use api::{Api, BoxFuture, ReadError, Request, Response};
pub use arguments::{Arguments, Command, Source, parse};
pub use in_cluster::InCluster;
pub use manager::{Manager, Registry, Status, World};
pub use plugin::{Host, Plugin, PluginStatus, Store};
pub use pod::Pod;
pub use prober::{Network, Prober, Secrets};
pub use program::program;
pub use publisher::{Clock, Publisher};
