//! What a controller needs of an API server: caches that a watch keeps up to date, and a loop that reconciles what changes in them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::convert::Infallible;
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::core::v1::Namespace;
//! use kube::{Api, ResourceExt as _, runtime::watcher};
//! use pillion_informer::{Cache, Controller, State};
//! use tokio::sync::mpsc;
//!
//! let server = pillion_apiserver::ApiServer::new(pillion_apiserver::Config::in_memory());
//! server.bootstrap().await?;
//! let client = kube::Client::new(server.router(), "default");
//!
//! let namespaces: Cache<Namespace> = Cache::new();
//! let watch = tokio::spawn(namespaces.clone().run(Api::all(client), watcher::Config::default()));
//! namespaces.synced().await;
//! assert!(namespaces.get("", "default").is_some());
//!
//! let (reconciled, mut names) = mpsc::unbounded_channel();
//! tokio::spawn(Controller::new(&namespaces).run(move |namespace: Arc<Namespace>| {
//!     let _ = reconciled.send(namespace.name_any());
//!     async { Ok::<_, Infallible>(None) }
//! }));
//! assert_eq!(names.recv().await.as_deref(), Some("default"));
//!
//! watch.abort();
//! namespaces.stopped().await;
//! assert_eq!(namespaces.state(), State::Stopped);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!                                                     ┌─▶ get, owned_by, in_group, …
//!  API server ─▶ watch (back-off) ─▶ View ─▶ Cache<V> ┼─▶ changes ─▶ Controller: queue ─▶ reconcile ─┬─▶ API server
//!                                               ▲     └─▶ state      ▲    (one at a time for each    │
//!                                               │                    └──── object; again after errors)
//!                                               └─────────────── written ◀───────────────────────────┘
//! ```
//!
//! # Invariants
//! - A kind is watched once, however many controllers read its cache.
//! - What a controller writes it puts into the cache itself ([`Cache::written`]); an older answer never replaces what the watch knows.
//! - A watch that ended, whatever the reason, is visible: [`Cache::state`] is then [`State::Stopped`]. One that fails and is tried
//!   again is visible as well: [`Cache::failure`].
//! - An object is never reconciled twice at the same time. An error or a panic delays that object only.
//! - Time is tokio's; nothing here reads a clock.
#![forbid(unsafe_code)]

mod cache;
mod contact;
mod controller;
mod deadline;
mod name;
mod objects;
mod queue;
mod reconciler;
mod supervise;
mod view;
mod watch;
mod watched;

pub use cache::{Cache, State};
pub use contact::Failure;
pub use controller::Controller;
pub use deadline::with_deadlines;
pub use name::NamespacedName;
pub use objects::Change;
pub use queue::Backoff;
pub use reconciler::{Observe, Outcome, Reconciler};
pub use supervise::keep_running;
pub use view::{View, controller_of};
pub use watch::watch;
pub use watched::{Kind, Watched, part};
