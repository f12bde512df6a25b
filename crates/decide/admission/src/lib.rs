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
//! let admitted = admit(&Pod::new(pod.clone())?, &snapshot, &Draw::default(), Some("2026-01-01T00:00:00Z".parse()?))?;
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

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use json_patch::Patch;
use pillion_api::pod::Pod;
use pillion_inject::{Catalog, Denied, Draw, Namespace, Note};

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
    pub fn namespace(&self, name: &str) -> Cow<'_, Namespace> {
        self.namespaces.get(name).map_or_else(|| Cow::Owned(Namespace::named(name)), Cow::Borrowed)
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

/// Decides over a new pod. `now` is the time of admission; the template of a workload has none.
///
/// # Errors
/// The pod is refused, for a reason that names the SidecarSet.
pub fn admit(pod: &Pod, snapshot: &Snapshot, draw: &Draw, now: Option<Timestamp>) -> Result<Admitted, Denied> {
    let (verdict, notes) = decide(pod, snapshot, draw, now);
    verdict.map(|patch| Admitted { patch, notes })
}

/// The decision, and the notes that led to it even if the pod is refused.
fn decide(pod: &Pod, snapshot: &Snapshot, draw: &Draw, now: Option<Timestamp>) -> (Result<Patch, Denied>, Vec<Note>) {
    let namespace = snapshot.namespace(pod.namespace());
    match pillion_inject::plan(pod, &namespace, &snapshot.catalog, draw, now) {
        Ok(mut injection) => match injection.size(pod) {
            Ok(()) => {
                let (patch, notes) = injection.into_patch(pod);
                (Ok(patch), notes)
            }
            Err(denied) => (Err(denied), injection.notes),
        },
        Err(denied) => (Err(denied), Vec::new()),
    }
}
