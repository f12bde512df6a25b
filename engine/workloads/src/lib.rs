//! The controllers that a pod needs: workloads, garbage collection, namespaces, and the scheduler of one node.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::apps::v1::ReplicaSet;
//! use kube::api::{Api, PostParams};
//! use pillion_apiserver::{ApiServer, Config};
//! use serde_json::json;
//!
//! let server = ApiServer::new(Config::in_memory());
//! server.bootstrap().await?;
//! let client = kube::Client::new(server.router(), "default");
//! tokio::spawn(pillion_workloads::run(pillion_workloads::Config::new(client.clone(), server.clock())));
//!
//! let sets: Api<ReplicaSet> = Api::default_namespaced(client);
//! let set = serde_json::from_value(json!({
//!     "metadata": {"name": "web"},
//!     "spec": {
//!         "replicas": 2,
//!         "selector": {"matchLabels": {"app": "web"}},
//!         "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web"}]}},
//!     },
//! }))?;
//! sets.create(&PostParams::default(), &set).await?;
//! tokio::time::sleep(std::time::Duration::from_secs(1)).await;
//! assert_eq!(sets.get("web").await?.status.unwrap_or_default().replicas, 2);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!                   ┌─▶ Cache<PodView> ────┐                         ┌─▶ writes ─▶ API server
//!  API server watch ┼─▶ Cache<ReplicaSet> ─┼─▶ plan(snapshot, now) ──┼─▶ events
//!                   └─▶ Cache<…> ──────────┘   every few ms at most, └─▶ the caches, at once
//!                                              for each object
//! ```
//!
//! # Invariants
//! - Decisions are pure functions, named `plan`: a snapshot and `now` in, a plan out. What runs a plan decides nothing.
//! - Each kind is watched once. What a controller writes it puts into the cache itself, so that it never acts on a past that it has changed.
//! - No work grows with all pods of the cluster: pods are found by their owner.
//! - A controller or a watch that panics is logged and restarted; the others go on.

mod claim;
mod config;
mod context;
mod controllers;
mod cron_job;
mod cron_job_view;
mod daemon_set;
mod deployment;
mod disruption;
mod error;
mod events_expiry;
mod garbage;
mod hash;
mod history;
mod job;
mod job_view;
mod kinds;
mod namespace;
mod node_lifecycle;
mod pod;
mod pod_control;
mod replica_set;
mod scaled;
mod scheduler;
mod service_account;
mod stateful_set;
#[cfg(test)]
mod test_cluster;
#[cfg(test)]
mod test_kubelet;
mod triggers;
mod ttl_after_finished;
mod write;

pub use config::Config;
pub use controllers::run;
