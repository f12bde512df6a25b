//! Which SidecarSets match a pod, which revision of each it gets, and what the pod becomes.
//!
//! ```
//! use pillion_api::{pod::Pod, sidecarset};
//! use pillion_inject::{Catalog, Draw, Namespace};
//! use serde_json::json;
//!
//! let set = sidecarset::decode(json!({
//!     "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "mesh"},
//!     "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy", "image": "envoy:1.30"}]}
//! }))?;
//! let catalog = Catalog::new([set], &[])?;
//! let pod = Pod::new(json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]}}))?;
//!
//! let injection = pillion_inject::plan(&pod, &Namespace::named("default"), &catalog, &Draw::default(), Some("2026-01-01T00:00:00Z".parse()?))?;
//! assert_eq!(injection.containers[0].name(), "proxy");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  SidecarSets, ControllerRevisions ──▶ Catalog (compiled, indexed)
//!                                          │
//!  Pod, Namespace ──▶ selection ──▶ revision ──▶ metadata, build, place ──▶ Injection ──▶ size ──▶ JSON patch
//!                     who matches   which body   containers, volumes, …      (a plan)    resources
//! ```
//!
//! # Invariants
//! - Pure: the same pod, catalog, draw and `now` give the same plan.
//! - Planning for the pod that a plan has made gives an empty plan: injecting twice is injecting once.
//! - The patch touches only what was decided here; whatever else the pod carries stays as it came.
//! - The cost of one pod does not grow with the number of sets that cannot match it.
#![forbid(unsafe_code)]

mod build;
mod catalog;
mod hot_upgrade;
mod index;
mod metadata;
mod note;
mod plan;
mod record;
mod resources;
mod revision;
mod selection;
mod share;

pub use catalog::{Catalog, CompileError};
pub use note::{Denied, Note, Severity};
pub use plan::{Injection, Place, Placed, plan};
pub use revision::Draw;
pub use selection::{Namespace, Verdict, explain};
