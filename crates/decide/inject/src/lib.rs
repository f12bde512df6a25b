//! Which SidecarSets match a pod, which revision of each it gets, and what the pod becomes.
//!
//! ```
//! use pillion_api::{pod::Pod, sidecarset};
//! use pillion_gates::Gates;
//! use pillion_inject::{Accounts, Catalog, Context, Namespace, Selection};
//! use pillion_note::{Draft, Draw};
//! use serde_json::json;
//!
//! let set = sidecarset::decode(json!({
//!     "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "mesh"},
//!     "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy", "image": "envoy:1.30"}]}
//! }))?;
//! let catalog = Catalog::new([set], &[])?;
//! let pod = Pod::new(json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]}}))?;
//!
//! let mut draft = Draft::new(&pod);
//! let (draw, now) = (Draw::default(), Some("2026-01-01T00:00:00Z".parse()?));
//! let (selection, accounts) = (Selection::of(&pod, &Namespace::named("default"), &catalog), Accounts::default());
//! let context = Context { selection: &selection, accounts: &accounts, draw: &draw, gates: Gates::default(), now };
//! pillion_inject::inject(&mut draft, &context)?;
//! assert_eq!(draft.to_value()["spec"]["containers"][1]["name"], "proxy");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  SidecarSets, ControllerRevisions ──▶ Catalog (as text, indexed; compiled when a pod matches)
//!                                          │
//!  Draft, Namespace ──▶ selection ──▶ revision ──▶ metadata, build, structure ──▶ (other steps) ──▶ resources
//!                       who matches   which body   containers, volumes, …                         resourcesPolicy
//! ```
//!
//! # Invariants
//! - Pure: the same draft, catalog, draw and `now` give the same result.
//! - Injecting into a pod that was injected changes nothing: injecting twice is injecting once.
//! - The cost of one pod does not grow with the number of sets that cannot match it.
#![forbid(unsafe_code)]

mod accounts;
mod body;
mod branches;
mod build;
mod catalog;
mod compiled;
mod hot_upgrade;
mod index;
mod injected;
mod metadata;
mod namespace;
mod pin;
mod pod_fields;
mod policy;
mod recently_used;
mod record;
mod resources;
mod revision;
mod revisions;
mod running;
mod selection;
mod selectors;
mod share;
mod structure;

pub use accounts::Accounts;
pub use body::{CompileError, CompileReason};
pub use catalog::{Catalog, Matching, Summary};
pub use injected::{Injected, SetMark};
pub use metadata::patch_pod_metadata;
pub use namespace::Namespace;
pub use policy::PolicyError;
pub use resources::size;
pub use revision::Quota;
pub use revisions::Revisions;
pub use running::{has_policy, injected_before};
pub use selection::{MatchReason, Selection, Verdict, explain};
pub use structure::{Context, inject};
