//! The one order in which decisions over a new pod are made: what the webhook and `pillion inject` both call.
//!
//! ```
//! use pillion_admission::{Snapshot, admit};
//! use pillion_api::{pod::Pod, sidecarset};
//! use pillion_gates::Gates;
//! use pillion_inject::Catalog;
//! use pillion_note::Draw;
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
//! let decision = admit(&Pod::new(pod.clone())?, &snapshot, Gates::default(), &Draw::default(), Some("2026-01-01T00:00:00Z".parse()?));
//! let mut injected = pod;
//! json_patch::patch(&mut injected, &decision.outcome?)?;
//! assert_eq!(injected["spec"]["containers"][1]["resources"]["limits"]["cpu"], "1");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  Pod ──▶ Draft ──▶ structure (inject::inject) ──▶ marked sidecars (lifecycle::marks) ──▶ the pod's own containers (autoscaling)
//!                ──▶ resourcesPolicy of the injected ones (inject::size) ──▶ the injected containers (autoscaling) ──▶ patch + notes
//!
//!  offline:  manifest ──▶ what the API server does first (api_server) ──▶ the same admit ──▶ patched manifest
//! ```
//!
//! # Invariants
//! - Pure: the same pod, snapshot, gates, draw and `now` give the same answer.
//! - Admitting the pod that admission has made changes nothing.
//! - A pod is refused only for what could not be known before it came.
#![forbid(unsafe_code)]

mod api_server;
mod autoscaling;
mod follow;
mod offline;

use std::borrow::Cow;

use imbl::OrdMap;
use jiff::Timestamp;
use json_patch::Patch;
use pillion_api::pod::Pod;
use pillion_gates::Gates;
use pillion_inject::{Accounts, Catalog, Context, Namespace, Selection};
use pillion_lifecycle::marks::{self, Mark, Means, Source};
use pillion_note::{Denied, Draft, Draw, Note};
use pillion_rightsize::Autoscalers;

use autoscaling::Rightsizing;

pub use follow::follow;
pub use offline::{AutoscalerVerdict, Injected, Offline, OfflineError, Why};

/// The cluster as admission sees it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The SidecarSets.
    pub catalog: Catalog,
    /// The namespaces that are known, by name.
    pub namespaces: OrdMap<String, Namespace>,
    /// The service accounts that may be injected.
    pub accounts: Accounts,
    /// The VerticalPodAutoscalers; those of the pod's namespace are enough.
    pub autoscalers: Autoscalers,
    /// What there is to honour the marks of sidecars with.
    pub sidecar_means: Means,
}

impl Snapshot {
    /// A namespace; one that is not known has no labels but its name.
    pub fn namespace(&self, name: &str) -> Cow<'_, Namespace> {
        self.namespaces.get(name).map_or_else(|| Cow::Owned(Namespace::named(name)), Cow::Borrowed)
    }

    /// The SidecarSets that a new pod gets.
    pub fn selection(&self, pod: &Pod) -> Selection {
        Selection::of(pod, &self.namespace(pod.namespace()), &self.catalog)
    }
}

/// What was decided about a new pod.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The changes, empty when there are none; or why the pod is refused.
    pub outcome: Result<Patch, Denied>,
    /// What was decided and why, up to the refusal if there is one.
    pub notes: Vec<Note>,
}

/// Decides about a new pod. `now` is the time of admission; the template of a workload has none.
pub fn admit(pod: &Pod, snapshot: &Snapshot, gates: Gates, draw: &Draw, now: Option<Timestamp>) -> Decision {
    conclude(Draft::new(pod), &snapshot.selection(pod), snapshot, gates, draw, now)
}

/// As [`admit`] with [`Snapshot::selection`], without the notes on how each value was reached: for those who have no place to print them.
pub fn admit_tersely(
    pod: &Pod,
    selection: &Selection,
    snapshot: &Snapshot,
    gates: Gates,
    draw: &Draw,
    now: Option<Timestamp>,
) -> Decision {
    conclude(Draft::new(pod).without_details(), selection, snapshot, gates, draw, now)
}

fn conclude(
    mut draft: Draft<'_>,
    selection: &Selection,
    snapshot: &Snapshot,
    gates: Gates,
    draw: &Draw,
    now: Option<Timestamp>,
) -> Decision {
    match decide(&mut draft, selection, snapshot, gates, draw, now) {
        Ok(()) => {
            let (patch, notes) = draft.finish();
            Decision { outcome: Ok(patch), notes }
        }
        Err(denied) => Decision { outcome: Err(denied), notes: draft.into_notes() },
    }
}

/// The steps, in the one order that there is.
fn decide(
    draft: &mut Draft<'_>,
    selection: &Selection,
    snapshot: &Snapshot,
    gates: Gates,
    draw: &Draw,
    now: Option<Timestamp>,
) -> Result<(), Denied> {
    let context = Context { selection, accounts: &snapshot.accounts, draw, gates, now };
    let mut injected = pillion_inject::inject(draft, &context)?;
    apply_marks(draft, &mut injected, gates, &snapshot.sidecar_means)?;
    let mut rightsizing = Rightsizing::new(draft, &snapshot.autoscalers, &injected, draw, gates.into());
    if let Some(rightsizing) = &mut rightsizing {
        rightsizing.size_own(draft);
    }
    pillion_inject::size(draft, &injected)?;
    if let Some(rightsizing) = rightsizing {
        rightsizing.size_injected(draft);
    }
    Ok(())
}

/// Sidecars that end when the work is done.
fn apply_marks(
    draft: &mut Draft<'_>,
    injected: &mut pillion_inject::Injected,
    gates: Gates,
    means: &Means,
) -> Result<(), Denied> {
    let of_sets = injected.marked().map(|(key, set, mark)| Mark {
        key,
        source: Source::SidecarSet(set.to_owned()),
        mode: mark.mode.clone(),
        fail_pod: mark.fail_pod,
    });
    for (from, to) in marks::apply(draft, of_sets.collect(), gates, means)? {
        injected.moved(from, to);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pillion_note::{Reason, Severity};
    use pillion_testkit::{mk_set, mk_sized};
    use serde_json::json;

    use super::*;

    #[test]
    fn marked_containers_of_a_set_come_last_in_their_order_and_its_init_containers_before_them() {
        let marked = |name: &str| json!({"name": name, "image": "i", "sidecar": true});
        let init = json!([{"name": "n", "image": "i", "restartPolicy": "Always"}, {"name": "m", "image": "i"}]);
        let spec = json!({"containers": [marked("z"), marked("a")], "initContainers": init});
        let set = mk_set("mesh", json!({"app": "web"}), spec);
        let snapshot = Snapshot { catalog: Catalog::new([set], &[]).unwrap(), ..Snapshot::default() };
        let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": {
            "restartPolicy": "Never", "containers": [{"name": "app", "image": "i"}]}});
        let gates = Gates::default().with(&"NativeSidecar=true,SidecarField=true".parse().unwrap());
        let decision = admit(&Pod::new(pod.clone()).unwrap(), &snapshot, gates, &Draw::default(), None);
        let mut admitted = pod;
        json_patch::patch(&mut admitted, &decision.outcome.unwrap()).unwrap();
        let names = |list: &str| -> Vec<String> {
            let containers = admitted["spec"][list].as_array().unwrap().iter();
            containers.map(|container| container["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names("initContainers"), ["m", "n", "z", "a"]);
        assert_eq!(names("containers"), ["app"]);
    }

    #[test]
    fn a_terse_decision_is_the_same_decision() {
        let policy = |cpu: &str| json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": cpu}, "requests": {"cpu": "2*cpu"}}});
        for cpu in ["cpu*50%", "cpu - 4"] {
            let container = json!({"name": "proxy", "image": "proxy:1", "resourcesPolicy": policy(cpu)});
            let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [container]}));
            let snapshot = Snapshot { catalog: Catalog::new([set], &[]).unwrap(), ..Snapshot::default() };
            let app = mk_sized("app", ("2", ""), ("1", ""));
            let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [app]}});
            let pod = Pod::new(pod).unwrap();
            let (gates, draw) = (Gates::default(), Draw::default());
            let long = admit(&pod, &snapshot, gates, &draw, None);
            let terse = admit_tersely(&pod, &snapshot.selection(&pod), &snapshot, gates, &draw, None);
            assert_eq!(format!("{:?}", terse.outcome), format!("{:?}", long.outcome));
            let said =
                long.notes.iter().filter(|note| note.severity == Severity::Warning || note.reason != Reason::Sized);
            assert_eq!(terse.notes, said.cloned().collect::<Vec<_>>());
            // What was decided before a refusal is still known.
            assert!(long.notes.iter().any(|note| note.reason == Reason::Injected), "{:?}", long.notes);
        }
    }
}
