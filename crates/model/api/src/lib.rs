//! The words of Pillion's API: SidecarSet and what it leaves on pods, VerticalPodAutoscaler and its checkpoints,
//! the definition of PodProbeMarker.
//!
//! Types, defaults, validation, conversion between versions, revisions and hashes; every label and annotation that
//! Pillion reads or writes is a constant in [`names`].
//!
//! ```
//! use pillion_api::sidecarset::{self, SidecarSet};
//!
//! let set: SidecarSet = sidecarset::decode(serde_json::json!({
//!     "apiVersion": "apps.kruise.io/v1beta1",
//!     "kind": "SidecarSet",
//!     "metadata": {"name": "mesh"},
//!     "spec": {"selector": {"matchLabels": {"app": "web"}},
//!              "containers": [{"name": "proxy", "image": "envoy:1.30"}]}
//! }))?;
//! assert_eq!(set.spec.containers[0].name(), "proxy");
//! # Ok::<(), pillion_api::sidecarset::DecodeError>(())
//! ```
//!
//! ```text
//!  JSON of either version ──convert──▶ v1beta1 JSON ──decode──▶ SidecarSet ──defaults──▶ SidecarSet ──validation──▶ field errors
//!                                                                                            │
//!                                                                                            ├──hash──────▶ the two hashes
//!                                                                                            └──revision──▶ ControllerRevision
//! ```
//!
//! # Invariants
//! - Pure: no clock, no IO, no randomness.
//! - A container or a pod is the JSON that came. Fields that this crate does not know survive at every level.
//! - Hashes and revision data are byte compatible with OpenKruise; fields of our own enter them only when set.
#![forbid(unsafe_code)]

pub use pillion_rules::field;
pub mod digest;
mod field_path;
pub mod names;
mod of_kubernetes;
mod one_of;
pub mod pod;
pub mod probe_marker;
pub mod record;
#[cfg(feature = "schemas")]
mod schema;
pub mod sidecarset;
pub mod vpa;
pub mod workload;
