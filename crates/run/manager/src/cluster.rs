//! The cluster as webhooks see it: what the watches told, made into one [`View`] that decisions look at.

use std::collections::HashSet;
use std::sync::Arc;

use imbl::OrdMap;
use k8s_openapi::api::core::v1::Namespace as KubeNamespace;
use kube::ResourceExt as _;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Event;
use pillion_admission::Snapshot;
use pillion_api::sidecarset::{self, InjectRevisionPolicy, SidecarSet};
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
    /// Whether every kind has been listed once.
    pub(crate) is_filled: bool,
}

impl View {
    /// Whether the set of this name injects what `set` says.
    pub(crate) fn has(&self, set: &SidecarSet) -> bool {
        self.sets.get(set.name()).is_some_and(|known| known.spec == set.spec)
    }
}

/// What a watch told.
pub(crate) enum Change {
    SidecarSet(Event<DynamicObject>),
    Namespace(Event<PartialObjectMeta<KubeNamespace>>),
    Revision(Event<DynamicObject>),
}

/// The objects that the watches told of so far.
#[derive(Default)]
pub(crate) struct Objects {
    sets: Listing<Arc<SidecarSet>>,
    namespaces: Listing<Namespace>,
    revisions: Listing<Value>,
    /// The sets, compiled, with the revisions that they pin.
    catalog: Catalog,
    /// The revisions in the form in which the catalog takes them.
    listed_revisions: Arc<Vec<Value>>,
}

impl Objects {
    /// Takes one change, and says whether a view would be different now.
    pub(crate) fn take(&mut self, change: Change) -> bool {
        let was_filled = self.is_filled();
        let changed = match change {
            Change::SidecarSet(event) => {
                let changed = self.sets.take(event, DynamicObject::name_any, read_set);
                self.compile(&changed);
                changed
            }
            Change::Revision(event) => {
                let changed = self.revisions.take(event, DynamicObject::name_any, read_revision);
                if !changed.is_empty() {
                    self.listed_revisions = Arc::new(self.revisions.objects.values().cloned().collect());
                    self.compile(&self.pinning(&changed));
                }
                changed
            }
            Change::Namespace(event) => self.namespaces.take(event, PartialObjectMeta::name_any, |namespace| {
                let labels = namespace.metadata.labels.clone().unwrap_or_default();
                Some(Namespace::new(&namespace.name_any(), labels))
            }),
        };
        !changed.is_empty() || was_filled != self.is_filled()
    }

    /// Brings these sets in the catalog to what they are now; the others cost nothing.
    fn compile(&mut self, names: &[String]) {
        for name in names {
            let Some(set) = self.sets.objects.get(name) else {
                self.catalog.remove(name);
                continue;
            };
            if let Err(error) = self.catalog.insert(SidecarSet::clone(set), &self.listed_revisions) {
                unusable(name, &error);
                self.catalog.remove(name);
                self.sets.objects.remove(name);
            }
        }
    }

    /// The sets that these revisions may matter to. A custom version is not known by the revision's name: whoever pins one is among them.
    fn pinning(&self, revisions: &[String]) -> Vec<String> {
        let changed: HashSet<&str> = revisions.iter().map(String::as_str).collect();
        let is_meant = |set: &SidecarSet| {
            set.spec
                .pinned_revision()
                .is_some_and(|pinned| pinned.revision_name.is_none_or(|name| changed.contains(name.as_str())))
        };
        self.sets.objects.iter().filter(|(_, set)| is_meant(set)).map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.sets.is_complete && self.namespaces.is_complete && self.revisions.is_complete
    }

    /// The view of now. It shares what it can with the objects and with the views before.
    pub(crate) fn view(&self) -> View {
        let namespaces = self.namespaces.objects.iter().map(|(name, labels)| (name.clone(), labels.clone())).collect();
        View {
            snapshot: Snapshot { catalog: self.catalog.clone(), namespaces },
            sets: self.sets.objects.clone(),
            revisions: Arc::clone(&self.listed_revisions),
            is_filled: self.is_filled(),
        }
    }
}

fn unusable(name: &str, error: &(dyn std::error::Error + 'static)) {
    tracing::warn!(sidecarset = name, error, "this SidecarSet is not injected: it cannot be used");
}

/// A SidecarSet with nothing in it that decisions do not look at, so that sets that differ only in that are equal. `None` for one that
/// cannot be used: it was stored without being asked about.
fn read_set(object: &DynamicObject) -> Option<Arc<SidecarSet>> {
    let value = serde_json::to_value(object).unwrap_or_default();
    let mut set = sidecarset::decode(value).inspect_err(|error| unusable(&object.name_any(), error)).ok()?;
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
    Some(Arc::new(set))
}

fn read_revision(object: &DynamicObject) -> Option<Value> {
    let mut object = object.clone();
    object.metadata.managed_fields = None;
    object.metadata.resource_version = None;
    serde_json::to_value(object).ok()
}

/// The objects of one kind, by name, as a watch tells of them.
struct Listing<T> {
    objects: OrdMap<String, T>,
    /// What a new list has told so far; it takes the place of `objects` when it has told all.
    listed: OrdMap<String, T>,
    is_complete: bool,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Listing { objects: OrdMap::default(), listed: OrdMap::default(), is_complete: false }
    }
}

impl<T: Clone + PartialEq> Listing<T> {
    /// Takes an event, and gives the names of the objects that are different now.
    fn take<K>(&mut self, event: Event<K>, name: impl Fn(&K) -> String, read: impl Fn(&K) -> Option<T>) -> Vec<String> {
        match event {
            Event::Init => {
                self.listed = OrdMap::default();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.extend(read(&object).map(|value| (name(&object), value)));
                Vec::new()
            }
            Event::InitDone => {
                self.is_complete = true;
                let before = std::mem::replace(&mut self.objects, std::mem::take(&mut self.listed));
                let gone = before.keys().filter(|name| !self.objects.contains_key(*name));
                let new = self.objects.iter().filter(|(name, value)| before.get(*name) != Some(*value));
                gone.chain(new.map(|(name, _)| name)).cloned().collect()
            }
            Event::Apply(object) => {
                let (name, value) = (name(&object), read(&object));
                let is_different = self.objects.get(&name) != value.as_ref();
                match value {
                    Some(value) => self.objects.insert(name.clone(), value),
                    None => self.objects.remove(&name),
                };
                is_different.then_some(name).into_iter().collect()
            }
            Event::Delete(object) => {
                let name = name(&object);
                self.objects.remove(&name).map(|_| name).into_iter().collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::json;

    use super::*;

    fn set(name: &str, image: &str) -> DynamicObject {
        let container = json!({"name": "proxy", "image": image});
        serde_json::from_value(
            serde_json::to_value(mk_set(name, json!({"app": "web"}), json!({"containers": [container]}))).unwrap(),
        )
        .unwrap()
    }

    fn filled() -> Objects {
        let mut objects = Objects::default();
        for event in [Event::Init, Event::InitDone] {
            objects.take(Change::SidecarSet(event));
        }
        for event in [Event::Init, Event::InitDone] {
            objects.take(Change::Namespace(event));
        }
        assert!(!objects.is_filled());
        objects.take(Change::Revision(Event::Init));
        assert!(objects.take(Change::Revision(Event::InitDone)), "now there is a view");
        objects
    }

    fn names(objects: &Objects) -> Vec<&str> {
        objects.sets.objects.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_new_list_takes_the_place_of_the_old_one_when_it_is_complete() {
        let mut objects = filled();
        objects.take(Change::SidecarSet(Event::Apply(set("a", "proxy:1"))));
        objects.take(Change::SidecarSet(Event::Init));
        assert!(!objects.take(Change::SidecarSet(Event::InitApply(set("b", "proxy:1")))));
        assert_eq!(names(&objects), ["a"]);
        assert!(objects.take(Change::SidecarSet(Event::InitDone)));
        assert_eq!(names(&objects), ["b"]);
        assert!(objects.take(Change::SidecarSet(Event::Delete(set("b", "proxy:1")))));
        assert!(!objects.take(Change::SidecarSet(Event::Delete(set("b", "proxy:1")))));
    }

    #[test]
    fn what_decisions_do_not_look_at_makes_no_new_view() {
        let mut objects = filled();
        assert!(objects.take(Change::SidecarSet(Event::Apply(set("a", "proxy:1")))));
        let mut counted = set("a", "proxy:1");
        counted.metadata.resource_version = Some("7".to_owned());
        counted.data["status"] = json!({"matchedPods": 5, "updatedPods": 3});
        // A status without a revision is the same as none to those who read it, but not the same object.
        objects.take(Change::SidecarSet(Event::Apply(counted.clone())));
        counted.metadata.resource_version = Some("8".to_owned());
        counted.data["status"]["matchedPods"] = json!(6);
        assert!(!objects.take(Change::SidecarSet(Event::Apply(counted.clone()))));
        counted.data["status"]["latestRevision"] = json!("a-1");
        assert!(
            !objects.take(Change::SidecarSet(Event::Apply(counted.clone()))),
            "the revision is computed from the spec"
        );
        counted.data["status"]["collisionCount"] = json!(1);
        assert!(objects.take(Change::SidecarSet(Event::Apply(counted))));
        assert!(objects.take(Change::SidecarSet(Event::Apply(set("a", "proxy:2")))));
    }

    #[test]
    fn a_set_that_cannot_be_used_does_not_stop_the_others() {
        let mut objects = filled();
        let mut bad = set("bad", "proxy:1");
        bad.data["spec"]["selector"] = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
        objects.take(Change::SidecarSet(Event::Apply(bad)));
        objects.take(Change::SidecarSet(Event::Apply(set("good", "proxy:1"))));
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
        let mut objects = filled();
        objects.take(Change::SidecarSet(Event::Apply(set("a", "proxy:1"))));
        let namespace: PartialObjectMeta<KubeNamespace> =
            serde_json::from_value(json!({"metadata": {"name": "shop", "labels": {"tier": "gold"}}})).unwrap();
        assert!(objects.take(Change::Namespace(Event::Apply(namespace))));
        let view = objects.view();
        assert_eq!(
            view.snapshot.namespaces["shop"],
            Namespace::new("shop", [("tier".to_owned(), "gold".to_owned())].into())
        );
        assert_eq!(view.sets.len(), 1);
    }
}
