//! What differs: a running pod from what it would get today, and a cluster before and after SidecarSets are applied.
//!
//! ```
//! use pillion_admission::{Offline, Snapshot};
//! use pillion_api::sidecarset;
//! use pillion_inject::Catalog;
//! use pillion_preview::{Input, Workload, preview};
//! use serde_json::json;
//!
//! let mut set = sidecarset::decode(json!({
//!     "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "mesh"},
//!     "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{
//!         "name": "proxy", "image": "envoy:1.30", "resources": {"requests": {"cpu": "100m"}}}]}
//! }))?;
//! sidecarset::prepare(&mut set);
//! let now = Offline::default();
//! let then = Offline { snapshot: Snapshot { catalog: Catalog::new([set], &[])?, ..Snapshot::default() }, ..now.clone() };
//! let workloads = [Workload::of(json!({
//!     "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
//!     "spec": {"replicas": 3, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]}}}
//! })).unwrap()];
//!
//! let preview = preview(&Input { now: &now, then: &then, applied: &["mesh".into()].into(), workloads: &workloads, pods: &[] });
//! assert_eq!(preview.workloads[0].containers[0].container, "proxy");
//! assert_eq!(preview.namespaces[0].requests.then["cpu"].to_string(), "300m");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  running pod ──before_injection──▶ the pod as it came ──Offline (admit)──▶ the pod of today ──▶ Drift
//!       └──────────────────────────────────────────────────────────────────────────▲
//!  workloads ──Offline now, Offline then (admit)──▶ two pods for each template ──difference, totals──▶ Preview
//!  running pods, by their records ──▶ updated in place, or not until they are recreated ────────────────▲
//! ```
//!
//! # Invariants
//! - Pure: the same input gives the same answer. Nothing here can write to a cluster.
//! - What a pod becomes is decided by `pillion_admission::admit` alone; this crate only compares.
//! - A workload that neither an applied SidecarSet nor the base of an applied canary matches is admitted once, and never differs.
#![forbid(unsafe_code)]

mod difference;
mod drift;
mod original;
mod preview;
mod running;
mod totals;
mod workload;

pub use difference::{Difference, differences};
pub use drift::{Change, ContainerDrift, Drift, DriftState, SetDrift, drift};
pub use original::before_injection;
pub use preview::{
    ContainerChange, Input, NamespaceTotals, Preview, Previewer, Refusal, SetChange, WorkloadChange, preview,
};
pub use running::{PodUpdate, PodUpdates, RunningPod};
pub use totals::{Compared, Resources};
pub use workload::Workload;
