//! The cluster as webhooks see it: what the caches hold, made into one [`View`] that decisions look at.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use imbl::OrdMap;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::ResourceExt as _;
use kube::core::{DynamicObject, PartialObjectMeta};
use pillion_admission::Snapshot;
use pillion_api::sidecarset::{self, InjectRevisionPolicy, SidecarSet};
use pillion_informer::Change;
use pillion_inject::{Catalog, Namespace};
use serde_json::Value;

/// One moment of the cluster.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// What admission decides by.
    pub(crate) snapshot: Snapshot,
    /// The SidecarSets, by name.
    pub(crate) sets: OrdMap<String, Arc<SidecarSet>>,
    /// The ControllerRevisions of SidecarSets.
    pub(crate) revisions: Arc<Vec<Value>>,
    /// Whether every cache was synced when it was made.
    pub(crate) is_filled: bool,
}

impl View {
    /// Whether the set of this name injects what `set` says.
    pub(crate) fn has(&self, set: &SidecarSet) -> bool {
        self.sets.get(set.name()).is_some_and(|known| known.spec == set.spec)
    }
}

/// A SidecarSet with nothing in it that decisions do not look at, so that sets that differ only in that are the same.
#[derive(Debug)]
pub(crate) struct SetView(Arc<SidecarSet>);

impl pillion_informer::View for SetView {
    type Object = DynamicObject;

    /// `None` for a set that cannot be used: it was stored while no webhook checked it.
    fn of(object: DynamicObject) -> Option<SetView> {
        let name = object.name_any();
        let value = serde_json::to_value(object).unwrap_or_default();
        let mut set = sidecarset::decode(value).inspect_err(|error| unusable(&name, error)).ok()?;
        set.metadata.managed_fields = None;
        set.metadata.resource_version = None;
        set.metadata.generation = None;
        let counts_pods =
            set.spec.pinned_revision().is_some_and(|pinned| pinned.policy == Some(InjectRevisionPolicy::Partial));
        set.status = set.status.map(|status| sidecarset::SidecarSetStatus {
            collision_count: status.collision_count,
            matched_pods: if counts_pods { status.matched_pods } else { 0 },
            ..sidecarset::SidecarSetStatus::default()
        });
        Some(SetView(Arc::new(set)))
    }

    fn is_same(&self, old: &SetView) -> bool {
        self.0 == old.0
    }
}

/// A ControllerRevision in the form in which the catalog takes it.
#[derive(Debug)]
pub(crate) struct RevisionView(Value);

impl pillion_informer::View for RevisionView {
    type Object = DynamicObject;

    fn of(mut object: DynamicObject) -> Option<RevisionView> {
        object.metadata.managed_fields = None;
        object.metadata.resource_version = None;
        serde_json::to_value(object).ok().map(RevisionView)
    }

    fn is_same(&self, old: &RevisionView) -> bool {
        self.0 == old.0
    }
}

/// A Namespace with its labels.
#[derive(Debug)]
pub(crate) struct NamespaceView(Namespace);

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

/// The objects of all caches, compiled.
#[derive(Default)]
pub(crate) struct Objects {
    sets: OrdMap<String, Arc<SidecarSet>>,
    namespaces: OrdMap<String, Namespace>,
    revisions: OrdMap<String, Arc<RevisionView>>,
    /// The sets, compiled, with the revisions that they pin.
    catalog: Catalog,
    /// The revisions in the form in which the catalog takes them.
    listed_revisions: Arc<Vec<Value>>,
}

impl Objects {
    /// Follows the caches. What did not change costs nothing.
    pub(crate) fn apply(&mut self, changes: impl IntoIterator<Item = AnyChange>) {
        let (mut sets, mut revisions) = (BTreeSet::new(), HashSet::new());
        for change in changes {
            match change {
                AnyChange::SidecarSet(Change { name, new, .. }) => {
                    let name = name.name.to_string();
                    match new {
                        Some(set) => self.sets.insert(name.clone(), Arc::clone(&set.0)),
                        None => self.sets.remove(&name),
                    };
                    sets.insert(name);
                }
                AnyChange::Revision(Change { name, new, .. }) => {
                    let name = name.name.to_string();
                    match new {
                        Some(revision) => self.revisions.insert(name.clone(), revision),
                        None => self.revisions.remove(&name),
                    };
                    revisions.insert(name);
                }
                AnyChange::Namespace(Change { name, new, .. }) => {
                    let name = name.name.to_string();
                    match new {
                        Some(namespace) => self.namespaces.insert(name, namespace.0.clone()),
                        None => self.namespaces.remove(&name),
                    };
                }
            }
        }
        if !revisions.is_empty() {
            self.listed_revisions = Arc::new(self.revisions.values().map(|revision| revision.0.clone()).collect());
            sets.extend(self.pinning(&revisions));
        }
        self.compile(sets);
    }

    /// Brings these sets in the catalog to what they are now.
    fn compile(&mut self, names: BTreeSet<String>) {
        for name in names {
            let Some(set) = self.sets.get(&name) else {
                self.catalog.remove(&name);
                continue;
            };
            if let Err(error) = self.catalog.insert(SidecarSet::clone(set), &self.listed_revisions) {
                unusable(&name, &error);
                self.catalog.remove(&name);
                self.sets.remove(&name);
            }
        }
    }

    /// The sets that may pin one of these revisions. A custom version is not known by the revision's name: whoever pins one is among them.
    fn pinning(&self, revisions: &HashSet<String>) -> Vec<String> {
        let is_meant = |set: &SidecarSet| {
            set.spec
                .pinned_revision()
                .is_some_and(|pinned| pinned.revision_name.is_none_or(|name| revisions.contains(&name)))
        };
        self.sets.iter().filter(|(_, set)| is_meant(set)).map(|(name, _)| name.clone()).collect()
    }

    /// The view of now. It shares what it can with the objects and with the views before.
    pub(crate) fn view(&self) -> View {
        let namespaces = self.namespaces.iter().map(|(name, labels)| (name.clone(), labels.clone())).collect();
        View {
            snapshot: Snapshot { catalog: self.catalog.clone(), namespaces },
            sets: self.sets.clone(),
            revisions: Arc::clone(&self.listed_revisions),
            is_filled: true,
        }
    }
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
    fn what_decisions_do_not_look_at_is_no_change() {
        let cache: Cache<SetView> = Cache::new();
        let mut changes = Box::pin(cache.changes());
        let mut is_reported = |object: DynamicObject| {
            cache.written(object);
            changes.next().now_or_never().is_some()
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
        assert_eq!(view.sets.keys().collect::<Vec<_>>(), ["good"]);
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
        assert_eq!(view.sets.len(), 1);
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
        assert!(objects.view().sets.is_empty());
    }
}
