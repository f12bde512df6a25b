//! The cluster as webhooks see it: what the caches hold, made into one [`View`] that decisions look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::ResourceExt as _;
use kube::core::{DynamicObject, PartialObjectMeta};
use pillion_admission::Snapshot;
use pillion_api::names;
use pillion_api::sidecarset::validation::Neighbours;
use pillion_api::sidecarset::{self, FailurePolicy, InjectRevisionPolicy, SidecarSet, SidecarSetStatus, revision};
use pillion_informer::Change;
use pillion_inject::{Catalog, Namespace, Revisions};
use serde_json::Value;

/// One moment of the cluster.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// What admission decides by: the SidecarSets and the namespaces.
    pub(crate) snapshot: Snapshot,
    /// Which SidecarSets could be in conflict.
    pub(crate) neighbours: Neighbours,
    /// The ControllerRevisions of SidecarSets.
    pub(crate) revisions: Revisions,
    /// The SidecarSets without which their pods are refused, and those that say so in their status, the oldest first.
    pub(crate) failing: Arc<[Arc<SidecarSet>]>,
    /// The SidecarSets whose status says that pods were missed.
    pub(crate) reported: Arc<BTreeSet<String>>,
    /// Whether every cache was synced when it was made.
    pub(crate) is_filled: bool,
}

impl View {
    /// Whether the set of this name injects what `set` says, with the revision that it pins.
    pub(crate) fn has(&self, set: &SidecarSet) -> bool {
        let catalog = &self.snapshot.catalog;
        catalog.get(set.name()).is_some_and(|known| known.spec == set.spec) && catalog.is_pin_resolved(set.name())
    }
}

/// A SidecarSet as admission sees it, and the status that its rollout has written.
#[derive(Debug)]
pub(crate) struct SetView {
    /// The set with nothing in it that admission does not look at, so that sets that differ only in that are the same.
    set: Arc<SidecarSet>,
    /// What the rollout has written.
    rollout: Option<SidecarSetStatus>,
    version: Option<String>,
}

impl SetView {
    /// The set as admission sees it.
    pub(crate) fn set(&self) -> &SidecarSet {
        &self.set
    }

    /// The set as its rollout sees it. What other controllers report in the status is not there.
    pub(crate) fn of_rollout(&self) -> SidecarSet {
        let mut set = SidecarSet::clone(&self.set);
        set.status.clone_from(&self.rollout);
        set.metadata.resource_version.clone_from(&self.version);
        set
    }
}

impl pillion_informer::View for SetView {
    type Object = DynamicObject;

    /// `None` for a set that cannot be used: it was stored while no webhook checked it.
    fn of(object: DynamicObject) -> Option<SetView> {
        let name = object.name_any();
        let value = serde_json::to_value(object).unwrap_or_default();
        let mut set = sidecarset::decode(value).inspect_err(|error| unusable(&name, error)).ok()?;
        set.metadata.managed_fields = None;
        let version = set.metadata.resource_version.take();
        let policy = set.spec.pinned_revision().and_then(|pinned| pinned.policy);
        let counts_pods = matches!(policy, Some(InjectRevisionPolicy::Partial | InjectRevisionPolicy::Quota));
        let rollout = set.status.clone().map(|status| SidecarSetStatus {
            missed_pods: None,
            conditions: status.conditions.into_iter().filter(|condition| is_of_rollout(&condition.type_)).collect(),
            ..status
        });
        set.status = set.status.map(|status| SidecarSetStatus {
            collision_count: status.collision_count,
            matched_pods: if counts_pods { status.matched_pods } else { 0 },
            missed_pods: status.missed_pods,
            conditions: status.conditions.into_iter().filter(|condition| is_ours(&condition.type_)).collect(),
            ..SidecarSetStatus::default()
        });
        Some(SetView { set: Arc::new(set), rollout, version })
    }

    fn is_same(&self, old: &SetView) -> bool {
        self.set == old.set && self.rollout == old.rollout
    }

    /// The revision that it pins: a revision finds the sets that need it.
    fn groups(&self) -> Vec<Arc<str>> {
        pinned_name(&self.set).map(Arc::from).into_iter().collect()
    }
}

/// Whether the rollout writes conditions of this type.
fn is_of_rollout(condition_type: &str) -> bool {
    matches!(condition_type, pillion_rollout::PROGRESSING | pillion_rollout::AVAILABLE | pillion_rollout::BLOCKED)
}

/// Whether the manager writes conditions of this type by what the view says.
fn is_ours(condition_type: &str) -> bool {
    matches!(condition_type, names::PODS_INJECTED | names::FAILURE_POLICY_ENFORCED)
}

/// A ControllerRevision of a SidecarSet.
#[derive(Debug)]
pub(crate) struct RevisionView(pub(crate) Arc<Value>);

impl pillion_informer::View for RevisionView {
    type Object = DynamicObject;

    /// `None` for the ControllerRevision of a workload. One without the label of its owner can be pinned by its name.
    fn of(mut object: DynamicObject) -> Option<RevisionView> {
        let is_labelled = object.labels().contains_key(names::REVISION_OWNER);
        if !is_labelled && !revision::holds_a_sidecar_set(&object.data) {
            return None;
        }
        object.metadata.managed_fields = None;
        object.metadata.resource_version = None;
        serde_json::to_value(object).ok().map(|stored| RevisionView(Arc::new(stored)))
    }

    fn is_same(&self, old: &RevisionView) -> bool {
        self.0 == old.0
    }

    fn groups(&self) -> Vec<Arc<str>> {
        self.owner().map(Arc::from).into_iter().collect()
    }
}

impl RevisionView {
    /// The SidecarSet that it belongs to.
    pub(crate) fn owner(&self) -> Option<String> {
        self.0["metadata"]["labels"].get(names::REVISION_OWNER).and_then(Value::as_str).map(str::to_owned)
    }
}

/// A Namespace with its labels.
#[derive(Debug)]
pub(crate) struct NamespaceView(pub(crate) Namespace);

impl pillion_informer::View for NamespaceView {
    type Object = PartialObjectMeta<KubeNamespace>;

    fn of(object: Self::Object) -> Option<NamespaceView> {
        let name = object.name_any();
        Some(NamespaceView(Namespace::new(&name, object.metadata.labels.unwrap_or_default())))
    }

    fn is_same(&self, old: &NamespaceView) -> bool {
        self.0 == old.0
    }
}

/// How one of the caches changed.
pub(crate) enum AnyChange {
    SidecarSet(Change<SetView>),
    Namespace(Change<NamespaceView>),
    Revision(Change<RevisionView>),
}

/// The objects of all caches, compiled. What did not change costs nothing.
#[derive(Default)]
pub(crate) struct Objects {
    /// The sets, with the revisions that they pin.
    catalog: Catalog,
    neighbours: Neighbours,
    namespaces: OrdMap<String, Namespace>,
    revisions: Revisions,
    /// The sets that name a revision in their pin, by that name.
    pinned_by: BTreeMap<String, BTreeSet<String>>,
    /// The sets with `failurePolicy: Fail`.
    failing: Failing,
    /// The sets whose status says that pods were missed.
    reported: Arc<BTreeSet<String>>,
}

/// The sets with `failurePolicy: Fail`, by age: those that had an entry of their own keep it.
#[derive(Default)]
struct Failing {
    by_age: BTreeMap<(Option<Timestamp>, String), Arc<SidecarSet>>,
    listed: Arc<[Arc<SidecarSet>]>,
}

impl Failing {
    fn replace(&mut self, old: Option<&SidecarSet>, new: Option<&Arc<SidecarSet>>) {
        let key =
            |set: &SidecarSet| (set.metadata.creation_timestamp.as_ref().map(|time| time.0), set.name().to_owned());
        let removed = old.filter(|set| counts(set)).and_then(|set| self.by_age.remove(&key(set)));
        let new = new.filter(|set| counts(set));
        if removed.is_none() && new.is_none() {
            return;
        }
        if let Some(set) = new {
            self.by_age.insert(key(set), Arc::clone(set));
        }
        self.listed = self.by_age.values().cloned().collect();
    }
}

fn counts(set: &SidecarSet) -> bool {
    let status = set.status.as_ref();
    is_failing(set) || status.is_some_and(|status| status.condition(names::FAILURE_POLICY_ENFORCED).is_some())
}

/// Whether the set's pods are to be refused while the webhook is down.
pub(crate) fn is_failing(set: &SidecarSet) -> bool {
    let strategy = &set.spec.injection_strategy;
    strategy.failure_policy == Some(FailurePolicy::Fail) && !strategy.paused
}

impl Objects {
    /// Follows the caches. Returns whether the view is another one now.
    pub(crate) fn apply(&mut self, changes: impl IntoIterator<Item = AnyChange>) -> bool {
        let mut is_changed = false;
        let mut sets: BTreeMap<String, Option<Arc<SidecarSet>>> = BTreeMap::new();
        // The sets that may pin a revision that changed: they are compiled again as they are.
        let mut repinned = BTreeSet::new();
        for change in changes {
            match change {
                AnyChange::SidecarSet(Change { name, old, new }) => {
                    // Only what the rollout reports has changed.
                    if old.zip(new.as_ref()).is_some_and(|(old, new)| old.set == new.set) {
                        continue;
                    }
                    sets.insert(name.name.to_string(), new.map(|set| Arc::clone(&set.set)));
                }
                AnyChange::Revision(Change { name, old, new }) => {
                    repinned.extend(self.pinned_by.get(name.name.as_ref()).into_iter().flatten().cloned());
                    // A custom version is found among the revisions of its owner.
                    repinned.extend([&old, &new].into_iter().flatten().filter_map(|stored| stored.owner()));
                    match new {
                        Some(stored) => self.revisions.insert(Arc::clone(&stored.0)),
                        None => self.revisions.remove(&name.name),
                    }
                }
                AnyChange::Namespace(Change { name, new, .. }) => {
                    match new {
                        Some(namespace) => self.namespaces.insert(name.name.to_string(), namespace.0.clone()),
                        None => self.namespaces.remove(name.name.as_ref()),
                    };
                }
            }
            is_changed = true;
        }
        for name in repinned {
            if let Some(set) = self.catalog.get(&name)
                && set.spec.pinned_revision().is_some()
            {
                sets.entry(name).or_insert(Some(Arc::clone(set)));
            }
        }
        for (name, set) in sets {
            self.replace(&name, set);
        }
        is_changed
    }

    /// Puts a set in the place of the one of its name.
    fn replace(&mut self, name: &str, new: Option<Arc<SidecarSet>>) {
        if let Some(old) = self.catalog.get(name).cloned() {
            self.catalog.remove(name);
            self.neighbours.remove(&old);
            self.failing.replace(Some(&old), None);
            if self.reported.contains(name) {
                Arc::make_mut(&mut self.reported).remove(name);
            }
            if let Some(pinned) = pinned_name(&old)
                && let Some(sets) = self.pinned_by.get_mut(&pinned)
            {
                sets.remove(name);
                if sets.is_empty() {
                    self.pinned_by.remove(&pinned);
                }
            }
        }
        let Some(new) = new else { return };
        match self.catalog.insert(Arc::clone(&new), &self.revisions) {
            Ok(()) => {
                self.neighbours.insert(&new);
                self.failing.replace(None, Some(&new));
                if new.status.as_ref().is_some_and(|status| status.missed_pods > Some(0)) {
                    Arc::make_mut(&mut self.reported).insert(name.to_owned());
                }
                if let Some(pinned) = pinned_name(&new) {
                    self.pinned_by.entry(pinned).or_default().insert(name.to_owned());
                }
            }
            Err(error) => unusable(name, &error),
        }
    }

    /// The view of now. It shares what it can with the objects and with the views before.
    pub(crate) fn view(&self) -> View {
        View {
            snapshot: Snapshot { catalog: self.catalog.clone(), namespaces: self.namespaces.clone() },
            neighbours: self.neighbours.clone(),
            revisions: self.revisions.clone(),
            failing: Arc::clone(&self.failing.listed),
            reported: Arc::clone(&self.reported),
            is_filled: true,
        }
    }
}

#[cfg(test)]
impl View {
    /// The view of a cluster with these sets.
    pub(crate) fn of_sets(sets: impl IntoIterator<Item = Arc<SidecarSet>>) -> View {
        let mut objects = Objects::default();
        for set in sets {
            objects.replace(set.name(), Some(Arc::clone(&set)));
        }
        objects.view()
    }
}

fn pinned_name(set: &SidecarSet) -> Option<String> {
    set.spec.pinned_revision()?.revision_name
}

fn unusable(name: &str, error: &(dyn std::error::Error + 'static)) {
    tracing::warn!(sidecarset = name, error, "this SidecarSet is not injected: it cannot be used");
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};
    use pillion_informer::{Cache, NamespacedName};
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::json;

    use super::*;

    fn set(name: &str, version: u32, image: &str) -> DynamicObject {
        let container = json!({"name": "proxy", "image": image});
        let set = mk_set(name, json!({"app": "web"}), json!({"containers": [container]}));
        let mut object: DynamicObject = serde_json::from_value(serde_json::to_value(set).unwrap()).unwrap();
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    fn created<V: pillion_informer::View>(object: V::Object) -> Change<V> {
        Change { name: NamespacedName::of(&object), old: None, new: V::of(object).map(Arc::new) }
    }

    #[test]
    fn what_admission_does_not_look_at_makes_no_other_view() {
        let (cache, mut objects) = (Cache::<SetView>::new(), Objects::default());
        let mut changes = Box::pin(cache.changes());
        let mut is_reported = |object: DynamicObject| {
            cache.written(object);
            changes.next().now_or_never().flatten().is_some_and(|it| objects.apply([AnyChange::SidecarSet(it)]))
        };
        assert!(is_reported(set("a", 1, "proxy:1")));
        let mut counted = set("a", 2, "proxy:1");
        counted.data["status"] = json!({"matchedPods": 5, "updatedPods": 3});
        // A status without a revision is the same as none to those who read it, but not the same object.
        is_reported(counted.clone());
        counted.metadata.resource_version = Some("3".to_owned());
        counted.data["status"]["matchedPods"] = json!(6);
        assert!(!is_reported(counted.clone()));
        counted.metadata.resource_version = Some("4".to_owned());
        counted.data["status"]["latestRevision"] = json!("a-1");
        assert!(!is_reported(counted.clone()), "the revision is computed from the spec");
        counted.metadata.resource_version = Some("5".to_owned());
        counted.data["status"]["collisionCount"] = json!(1);
        assert!(is_reported(counted));
        assert!(is_reported(set("a", 6, "proxy:2")));
    }

    #[test]
    fn a_set_that_cannot_be_used_does_not_stop_the_others() {
        let mut objects = Objects::default();
        let mut bad = set("bad", 1, "proxy:1");
        bad.data["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        objects.apply([bad, set("good", 2, "proxy:1")].map(created).map(AnyChange::SidecarSet));
        let view = objects.view();
        assert!(view.snapshot.catalog.get("bad").is_none());
        assert!(view.has(&mk_set(
            "good",
            json!({"app": "web"}),
            json!({"containers": [{"name": "proxy", "image": "proxy:1"}]})
        )));
        assert!(!view.has(&mk_set("good", json!({"app": "web"}), json!({"containers": [mk_container("proxy")]}))));
    }

    #[test]
    fn a_namespace_has_its_labels() {
        let mut objects = Objects::default();
        objects.apply([AnyChange::SidecarSet(created(set("a", 1, "proxy:1")))]);
        let namespace: PartialObjectMeta<KubeNamespace> =
            serde_json::from_value(json!({"metadata": {"name": "shop", "labels": {"tier": "gold"}}})).unwrap();
        objects.apply([AnyChange::Namespace(created(namespace))]);
        let view = objects.view();
        assert_eq!(
            view.snapshot.namespaces["shop"],
            Namespace::new("shop", [("tier".to_owned(), "gold".to_owned())].into())
        );
        assert_eq!(view.snapshot.catalog.len(), 1);
    }

    #[test]
    fn what_is_gone_is_in_no_view() {
        let mut objects = Objects::default();
        objects.apply([AnyChange::SidecarSet(created(set("a", 1, "proxy:1")))]);
        objects.apply([AnyChange::SidecarSet(Change {
            name: NamespacedName::cluster_scoped("a"),
            old: None,
            new: None,
        })]);
        assert!(objects.view().snapshot.catalog.is_empty());
    }

    fn pinning(name: &str, version: u32, pin: serde_json::Value) -> DynamicObject {
        let spec = json!({"containers": [mk_container("proxy")], "injectionStrategy": {"revision": pin}});
        let set = mk_set(name, json!({"app": "web"}), spec);
        let mut object: DynamicObject = serde_json::from_value(serde_json::to_value(set).unwrap()).unwrap();
        object.metadata.resource_version = Some(version.to_string());
        object
    }

    fn stored(set: &str) -> DynamicObject {
        let set =
            mk_set(set, json!({"app": "web"}), json!({"containers": [mk_container("old")], "customVersion": "v1"}));
        serde_json::from_value(revision::new(&set, 1, "kruise-system")).unwrap()
    }

    #[test]
    fn a_set_is_compiled_again_when_the_revision_that_it_pins_comes_or_goes() {
        let mut objects = Objects::default();
        let name = stored("a").name_any();
        objects.apply(
            [pinning("a", 1, json!({"revisionName": name})), pinning("b", 2, json!({"customVersion": "v1"}))]
                .map(created)
                .map(AnyChange::SidecarSet),
        );
        let resolved = |objects: &Objects| ["a", "b"].map(|name| objects.view().snapshot.catalog.is_pin_resolved(name));
        assert_eq!(resolved(&objects), [false, false]);
        objects.apply([AnyChange::Revision(created(stored("a")))]);
        assert_eq!(resolved(&objects), [true, false]);
        objects.apply([AnyChange::Revision(created(stored("b")))]);
        assert_eq!(resolved(&objects), [true, true]);
        let gone = created::<RevisionView>(stored("b"));
        objects.apply([AnyChange::Revision(Change { name: gone.name, old: gone.new, new: None })]);
        assert_eq!(resolved(&objects), [true, false]);
    }

    #[test]
    fn revisions_without_a_label_are_known_and_those_of_workloads_are_not() {
        let mut unlabelled = stored("a");
        unlabelled.metadata.labels = None;
        let name = unlabelled.name_any();
        let workload: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "daemon-1"},
            "data": {"spec": {"template": {"$patch": "replace"}}}, "revision": 1,
        }))
        .unwrap();
        let mut objects = Objects::default();
        objects.apply([unlabelled, workload].map(created).map(AnyChange::Revision));
        let revisions = objects.view().revisions;
        assert!(revisions.get(&name).is_some() && revisions.get("daemon-1").is_none());
    }
}
