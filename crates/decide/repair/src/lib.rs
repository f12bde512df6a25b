//! Pods that should have sidecars and have none: which they are, and which of them are evicted next.
//!
//! A webhook that is down must not stop the cluster, so pods that are created meanwhile start without their sidecars. They are found here
//! afterwards.
//!
//! ```
//! use pillion_api::{pod::Pod, sidecarset};
//! use pillion_inject::{Catalog, Namespace};
//! use pillion_repair::missed_by;
//! use pillion_rollout::{PodView, Texts};
//! use serde_json::json;
//!
//! let set = sidecarset::decode(json!({
//!     "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
//!     "metadata": {"name": "mesh", "creationTimestamp": "2026-01-01T00:00:00Z"},
//!     "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy", "image": "envoy:1.30"}]}
//! }))?;
//! let catalog = Catalog::new([set], &[])?;
//! let pod = Pod::new(json!({
//!     "metadata": {"name": "web-0", "labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:05Z"},
//!     "spec": {"containers": [{"name": "app"}]}
//! }))?;
//! let pod = PodView::new(&pod, &mut Texts::default());
//! let missed = missed_by(&pod, &Namespace::named("default"), &catalog);
//! assert_eq!(&*missed[0].name, "mesh");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  PodView, Namespace, Catalog ─▶ missed_by ─▶ the sets whose sidecars a pod lacks
//!                                                 │
//!  missed pods of a set, now ─▶ Evictions::next ◀─┘ ─▶ which of them to evict, and when to look again
//! ```
//!
//! # Invariants
//! - What a pod records about its injection counts only together with the containers themselves.
//! - A pod that opted out, has ended, is being deleted, or is older than the set (unless `includeOlder`) is not missed.
//! - Only pods that a controller replaces are evicted, not those of Jobs, one after the other at an even rate of `maxPerMinute`, and none in
//!   the place of a pod whose eviction had no effect. A new pod of the controller that has the sidecars is an effect.
#![forbid(unsafe_code)]

mod evictions;
mod missed;

pub use evictions::{Candidate, Evictions, Next, is_evictable};
pub use missed::missed_by;
