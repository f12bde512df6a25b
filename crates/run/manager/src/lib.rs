//! The manager: the webhooks through which sidecars get into pods, and what keeps those webhooks called.
//!
//! The API server is reached through a [`kube::Client`] and nothing else, so the same manager serves a real cluster and one in this
//! process.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use pillion_apiserver::ApiServer;
//! use pillion_manager::{Config, Manager, WebhookAddress};
//!
//! let server = ApiServer::new(pillion_apiserver::Config::in_memory());
//! server.bootstrap().await?;
//! let (client, clock) = (kube::Client::new(server.router(), "default"), server.clock());
//! let url = "https://pillion.invalid".to_owned();
//!
//! let manager = Manager::new(Config::new(client, Arc::new(move || clock.now()), WebhookAddress::Url(url.clone())));
//! server.register_webhook(&url, manager.webhooks());
//! manager.start().await?;
//! manager.register().await?;
//! // From here on SidecarSets are defaulted and checked, and pods are injected.
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  informer caches: SidecarSets, Namespaces, ControllerRevisions ─▶ caches::Objects ─▶ View, swapped as a whole
//!                   (as text)                (digests; pinned ones whole)               │
//!  kube-apiserver ─▶ webhooks (bound, decode) ─▶ pod, sidecarset (pure) ◀────────────────┘
//!                                                   └─▶ review::Answer ─▶ patch, warnings, refusal
//!
//!  certificates: authority in a Secret (shared) ─▶ certificate of this replica ─▶ serve (TLS)
//!                           └─▶ bundle ─┐
//!  leader (a Lease for each part) ──────┴─▶ registration (configurations, conversion), kept as it should be
//!         ├─▶ rollout: pods, sets, revisions ─▶ rollout::plan ─▶ revisions, status, images of pods, places
//!         ├─▶ repair: pods, View ─▶ missed pods ─▶ status, events, evictions
//!         ├─▶ lifecycle: pods whose work is done ─▶ their terminal phase, where nobody else stops their sidecars
//!         ├─▶ rightsizing: recommender, updater (pillion-rightsizer)
//!         └─▶ agents: ConfigMaps with our labels, pods with agents, PodProbeMarkers ─▶ mirrors, parameters of policies, probes and marks on pods, results without those of pods that are gone
//!
//!  health: /healthz, /readyz (caches, watches), /metrics
//! ```
//!
//! # Invariants
//! - A decision sees one `View` from beginning to end and holds no lock.
//! - What is held of an object is what decisions need. A SidecarSet is text until a pod matches it; a ControllerRevision is a digest unless
//!   a set pins it, and then it has been read before the set is in a view.
//! - A pod that follows a SidecarSet or its Namespace is decided with it: what a webhook of this process let through, and a Namespace
//!   that is not known yet, is waited for, a second at most.
//! - A certificate is served only after its authority has been in the registered bundles for a while.
//! - The manager fails open: while it is down, pods start without sidecars, except those of a SidecarSet with `failurePolicy: Fail`, and
//!   SidecarSets cannot be changed.
//! - Each step of a pod is one write under the version that was read. No more pods have a place of a partition than there are places, however
//!   many replicas admit pods.
//! - The controllers of rollouts, places, repair, lifecycle, followers, agents and rightsizing are each a `Reconciler`: each object has a key, waits
//!   once, and is retried after its own back-off. Every request has a deadline, watches excepted.
//! - Pods are watched once per process.
//! - Only the replica that leads a part writes for it. A watch that ends, ends the manager.
//! - Objects that an OpenKruise serves are left alone: nothing is registered, served or written before it has stopped. One that comes later is
//!   found within seconds, and what it serves is left to it from then on.
//! - Time comes from [`Config::now`] and tokio's clock.
#![forbid(unsafe_code)]

mod caches;
mod certificates;
mod config;
mod controller_name;
mod controllers;
mod error;
mod kruise;
mod leader;
mod lock;
mod manager;
mod metrics;
mod peer;
mod places;
mod registration;
mod serving;
mod sidecar_field;
mod state;
mod webhooks;

pub use config::{
    Certificates, Config, Leasing, NAMESPACE, Now, WebhookAddress, conversion_service, excluded_namespaces,
};
pub use controller_name::{ControllerName, UnknownController};
pub use error::Error;
pub use kruise::{KRUISE_LEASE, KRUISE_MUTATING, KRUISE_VALIDATING, Kruise, Standing};
pub use manager::Manager;
pub use metrics::{CountRequests, Metrics};
pub use peer::{Peer, UnknownPeer};
pub use pillion_lease::held_within;
pub use sidecar_field::sidecar_field_is_served;
