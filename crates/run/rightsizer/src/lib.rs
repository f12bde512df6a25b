//! Rightsizing as programs: the recommender, which writes recommendations into VerticalPodAutoscalers, and the updater, which brings
//! running pods to them. Both watch, ask `pillion-rightsize` what to do, and do it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use pillion_rightsizer::{Cluster, Config, recommend};
//!
//! let server = pillion_apiserver::ApiServer::new(pillion_apiserver::Config::in_memory());
//! server.bootstrap().await?;
//! let (client, clock) = (kube::Client::new(server.router(), "default"), server.clock());
//!
//! let cluster = Cluster::new(client.clone());
//! let config = Config::new(client, Arc::new(move || clock.now()));
//! // There is no VerticalPodAutoscaler here, not even the definition: it waits quietly until somebody brings one.
//! let recommending = recommend(&cluster, &config, std::future::pending());
//! let _ = tokio::time::timeout(Duration::from_hours(1), recommending).await;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  VerticalPodAutoscalers, pods, controllers, LimitRanges ─▶ cluster (compact views), owners (pod ─▶ workload)
//!                                                              │
//!  metrics API, kubelets ─▶ samples ─▶ rightsize::Usage ─▶ recommender ─▶ status, checkpoints (only what has changed)
//!                                                              │
//!                  admission Lease ─▶ updater ─▶ rightsize::update::Pass ─▶ resize, eviction, event
//! ```
//!
//! # Invariants
//! - Nothing is decided here: what is recommended, which checkpoint is due and which pod is next comes from `pillion-rightsize`.
//! - A checkpoint is read before the first one is written in its place. An autoscaler whose checkpoints cannot be read is left alone.
//! - When nothing has moved, nothing is written.
//! - Pods are updated only while an admission controller is alive: its Lease is fresh.
//! - A request that hangs or fails delays no other object: the updater and the recommender run on `pillion_informer::Reconciler`.
//! - Time comes from [`Config::now`] and tokio's clock.
#![forbid(unsafe_code)]

pub mod admission_lease;
mod cluster;
mod config;
mod definition;
mod lease_name;
mod metrics;
mod owners;
mod peer;
mod recommender;
mod references;
mod requests;
mod resize;
mod resources;
mod updater;

pub use cluster::{AutoscalerView, Cluster, RangeView};
pub use config::{
    Config, HistorySource, Namespaces, Now, Observers, Prometheus, PrometheusLogin, UpdateRate, UsageSource,
};
pub use definition::defined;
pub use lease_name::LeaseName;
pub use metrics::Metrics;
pub use owners::Owners;
pub use peer::{Peer, PeerPart, Standing, until_alone, until_there};
pub use recommender::recommend;
pub use references::pod_reference;
pub use resize::resize;
pub use resources::{autoscalers, checkpoints};
pub use updater::update;
