//! The one order in which decisions over a new pod are made: what the webhook and `pillion inject` both call.
//!
//! ```
//! use pillion_admission::{Snapshot, admit};
//! use pillion_api::{pod::Pod, sidecarset};
//! use pillion_inject::{Catalog, Draw};
//! use serde_json::json;
//!
//! let set = sidecarset::decode(json!({
//!     "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "mesh"},
//!     "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{
//!         "name": "proxy", "image": "envoy:1.30",
//!         "resourcesPolicy": {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}}}}]}
//! }))?;
//! let snapshot = Snapshot { catalog: Catalog::new([set], &[])?, ..Snapshot::default() };
//! let pod = json!({"metadata": {"labels": {"app": "web"}},
//!                  "spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": "2"}}}]}});
//!
//! let admitted = admit(&Pod::new(pod.clone())?, &snapshot, &Draw::default(), "2026-01-01T00:00:00Z".parse()?)?;
//! let mut injected = pod;
//! json_patch::patch(&mut injected, &admitted.patch)?;
//! assert_eq!(injected["spec"]["containers"][1]["resources"]["limits"]["cpu"], "1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  Pod ──▶ structure (inject::plan) ──▶ resources of the injected sidecars (Injection::size) ──▶ patch + notes
//!
//!  offline:  manifest ──▶ what the API server does first (api_server) ──▶ the same admit ──▶ patched manifest
//! ```
//!
//! # Invariants
//! - Pure: the same pod, snapshot, draw and `now` give the same answer.
//! - Admitting the pod that admission has made changes nothing.
//! - A pod is refused only for what could not be known before it came.
#![forbid(unsafe_code)]

mod api_server;
mod offline;

use std::collections::BTreeMap;

use jiff::Timestamp;
use json_patch::Patch;
use pillion_api::pod::Pod;
use pillion_inject::{Catalog, Denied, Draw, Namespace, Note, Severity};

pub use offline::{Injected, Offline, OfflineError, Why};

/// The cluster as admission sees it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The SidecarSets.
    pub catalog: Catalog,
    /// The namespaces that are known, by name.
    pub namespaces: BTreeMap<String, Namespace>,
}

impl Snapshot {
    /// A namespace; one that is not known has no labels but its name.
    pub fn namespace(&self, name: &str) -> Namespace {
        self.namespaces.get(name).cloned().unwrap_or_else(|| Namespace::named(name))
    }
}

/// What a new pod becomes.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The changes; empty when there are none.
    pub patch: Patch,
    /// What was decided and why.
    pub notes: Vec<Note>,
}

impl Admitted {
    /// What whoever creates the pod should see.
    pub fn warnings(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| note.severity == Severity::Warning)
    }
}

/// Decides over a new pod.
///
/// # Errors
/// The pod is refused, for a reason that names the SidecarSet.
pub fn admit(pod: &Pod, snapshot: &Snapshot, draw: &Draw, now: Timestamp) -> Result<Admitted, Denied> {
    let namespace = snapshot.namespace(pod.namespace());
    let mut injection = pillion_inject::plan(pod, &namespace, &snapshot.catalog, draw, now)?;
    injection.size(pod)?;
    Ok(Admitted { patch: injection.patch(pod), notes: injection.notes })
}
