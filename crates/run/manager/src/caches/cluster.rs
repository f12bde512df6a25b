//! The cluster as webhooks see it: what the caches hold, made into one [`View`] that decisions look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, ServiceAccount};
use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;
use pillion_admission::Snapshot;
use pillion_api::names;
use pillion_api::sidecarset::validation::Neighbours;
use pillion_api::sidecarset::{FailurePolicy, Packed, SidecarSet};
use pillion_informer::{Cache, Change};
use pillion_inject::{Accounts, Catalog, Namespace, Revisions};
use pillion_lifecycle::marks::Means;
use serde_json::Value;

use crate::caches::revision_view::{RevisionView, holds, pinnable_by};
use crate::caches::set_view::{SetView, pinned_name, unusable};

/// One moment of the cluster.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// What admission decides by: the SidecarSets, the namespaces and the accounts.
    pub(crate) snapshot: Snapshot,
    /// Which SidecarSets could be in conflict.
    pub(crate) neighbours: Neighbours,
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

/// A service account that may be injected; the others are not kept.
#[derive(Debug)]
pub(crate) struct AccountView;

impl pillion_informer::View for AccountView {
    type Object = PartialObjectMeta<ServiceAccount>;

    fn of(object: Self::Object) -> Option<AccountView> {
        let annotations = object.annotations().iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Accounts::is_injectable(annotations).then_some(AccountView)
    }

    fn is_same(&self, _: &AccountView) -> bool {
        true
    }
}

/// How one of the caches changed.
pub(crate) enum AnyChange {
    SidecarSet(Change<SetView>),
    Namespace(Change<NamespaceView>),
    Revision(Change<RevisionView>),
    Account(Change<AccountView>),
}

/// The objects of all caches, as decisions need them. What did not change costs nothing.
#[derive(Default)]
pub(crate) struct Objects {
    /// What there is to honour the marks of sidecars with; it never changes.
    sidecar_means: Means,
    /// The sets, with the revisions that they pin.
    catalog: Catalog,
    neighbours: Neighbours,
    namespaces: OrdMap<String, Namespace>,
    accounts: Accounts,
    /// All ControllerRevisions, without what they hold.
    revisions: Cache<RevisionView>,
    /// Where they are.
    revisions_namespace: String,
    pins: Pins,
    /// The sets with `failurePolicy: Fail`.
    failing: Failing,
    /// The sets whose status says that pods were missed.
    reported: Arc<BTreeSet<String>>,
}

/// The sets that pin a revision, and the revisions that they pin.
#[derive(Default)]
struct Pins {
    /// The sets that name a revision in their pin, by that name.
    by_name: BTreeMap<String, BTreeSet<String>>,
    /// The sets that pin a custom version.
    by_version: BTreeSet<String>,
    /// The revision that a set means, by its name or by its custom version.
    meant: BTreeMap<String, String>,
    /// Those of them that have been read.
    whole: BTreeMap<String, Arc<Value>>,
}

impl Pins {
    fn remove(&mut self, set: &SidecarSet) {
        self.meant.remove(set.name());
        self.by_version.remove(set.name());
        if let Some(pinned) = pinned_name(set)
            && let Some(sets) = self.by_name.get_mut(&pinned)
        {
            sets.remove(set.name());
            if sets.is_empty() {
                self.by_name.remove(&pinned);
            }
        }
    }

    fn insert(&mut self, set: &SidecarSet, meant: Option<&str>) {
        let Some(pinned) = set.spec.pinned_revision() else { return };
        match pinned.revision_name {
            Some(name) => self.by_name.entry(name).or_default().insert(set.name().to_owned()),
            None => self.by_version.insert(set.name().to_owned()),
        };
        if let Some(meant) = meant {
            self.meant.insert(set.name().to_owned(), meant.to_owned());
        }
    }
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
    pub(crate) fn new(sidecar_means: Means, revisions: Cache<RevisionView>, revisions_namespace: String) -> Objects {
        Objects { sidecar_means, revisions, revisions_namespace, ..Objects::default() }
    }

    /// Follows the caches. Returns whether the view is another one now.
    pub(crate) fn apply(&mut self, changes: impl IntoIterator<Item = AnyChange>) -> bool {
        let mut is_changed = false;
        let mut sets: BTreeMap<String, Option<Packed>> = BTreeMap::new();
        // The sets that may pin a revision that changed: they are compiled again as they are.
        let mut repinned = BTreeSet::new();
        for change in changes {
            match change {
                AnyChange::SidecarSet(Change { name, old, new }) => {
                    // Only what the rollout reports has changed.
                    if old.zip(new.as_ref()).is_some_and(|(old, new)| old.packed() == new.packed()) {
                        continue;
                    }
                    sets.insert(name.name.to_string(), new.map(|set| set.packed().clone()));
                }
                AnyChange::Revision(Change { name, old, new }) => {
                    let whole = self.pins.whole.get(&*name.name);
                    if whole.is_some_and(|whole| !new.as_ref().is_some_and(|new| holds(whole, new.digest))) {
                        self.pins.whole.remove(&*name.name);
                    }
                    repinned.extend(self.pins.by_name.get(&*name.name).into_iter().flatten().cloned());
                    // A custom version is found among the revisions of its owner.
                    let owners = [&old, &new].into_iter().flatten().filter_map(|stored| stored.owner());
                    repinned.extend(owners.filter(|owner| self.pins.by_version.contains(*owner)).map(str::to_owned));
                    // Validation looks at the revisions themselves: without a pin there is nothing else to see.
                    continue;
                }
                AnyChange::Namespace(Change { name, new, .. }) => {
                    match new {
                        Some(namespace) => self.namespaces.insert(name.name.to_string(), namespace.0.clone()),
                        None => self.namespaces.remove(name.name.as_ref()),
                    };
                }
                AnyChange::Account(Change { name, new, .. }) => match new {
                    Some(_) => self.accounts.insert(&name.namespace, &name.name),
                    None => self.accounts.remove(&name.namespace, &name.name),
                },
            }
            is_changed = true;
        }
        is_changed |= self.repin(repinned, &mut sets);
        for (name, set) in sets {
            self.replace(&name, set);
        }
        let Pins { meant, whole, .. } = &mut self.pins;
        if !whole.is_empty() {
            let meant: BTreeSet<&String> = meant.values().collect();
            whole.retain(|name, _| meant.contains(name));
        }
        is_changed
    }

    /// Has sets compiled again as they are. Returns whether there are any.
    fn repin(&self, names: BTreeSet<String>, sets: &mut BTreeMap<String, Option<Packed>>) -> bool {
        let mut is_any = false;
        for name in names {
            if let Some(packed) = self.catalog.packed(&name) {
                is_any = true;
                sets.entry(name).or_insert_with(|| Some(packed.clone()));
            }
        }
        is_any
    }

    /// The revisions that sets pin and that have not been read.
    pub(crate) fn unread(&self) -> BTreeSet<String> {
        self.pins.meant.values().filter(|name| !self.pins.whole.contains_key(*name)).cloned().collect()
    }

    /// Takes revisions that have been read.
    pub(crate) fn supply(&mut self, read: Vec<Value>) {
        let mut names = BTreeSet::new();
        for whole in read {
            let Some(name) = whole["metadata"]["name"].as_str().map(str::to_owned) else { continue };
            self.pins.whole.insert(name.clone(), Arc::new(whole));
            names.insert(name);
        }
        let meant = self.pins.meant.iter().filter(|(_, revision)| names.contains(*revision));
        let mut sets = BTreeMap::new();
        self.repin(meant.map(|(set, _)| set.clone()).collect(), &mut sets);
        for (name, set) in sets {
            self.replace(&name, set);
        }
    }

    /// Puts a set in the place of the one of its name.
    fn replace(&mut self, name: &str, new: Option<Packed>) {
        if let Some(old) = self.catalog.get(name) {
            self.catalog.remove(name);
            self.neighbours.remove(&old);
            self.failing.replace(Some(&old), None);
            if self.reported.contains(name) {
                Arc::make_mut(&mut self.reported).remove(name);
            }
            self.pins.remove(&old);
        }
        let Some((packed, new)) = new.and_then(|packed| Some((packed.clone(), Arc::new(packed.unpack()?)))) else {
            return;
        };
        let mut revisions = Revisions::default();
        let mut meant = None;
        if new.spec.pinned_revision().is_some() {
            revisions = pinnable_by(&new, &self.revisions, &self.revisions_namespace);
            meant = revisions.pinned_by(&new).map(str::to_owned);
            if let Some(whole) = meant.as_ref().and_then(|name| self.pins.whole.get(name)) {
                revisions.insert(Arc::clone(whole));
            }
        }
        match self.catalog.insert_packed(packed, Arc::clone(&new), &revisions) {
            Ok(()) => {
                self.neighbours.insert(&new);
                self.failing.replace(None, Some(&new));
                if new.status.as_ref().is_some_and(|status| status.missed_pods > Some(0)) {
                    Arc::make_mut(&mut self.reported).insert(name.to_owned());
                }
                self.pins.insert(&new, meant.as_deref());
            }
            Err(error) => unusable(name, &error),
        }
    }

    /// The view of now. It shares what it can with the objects and with the views before.
    pub(crate) fn view(&self) -> View {
        View {
            snapshot: Snapshot {
                catalog: self.catalog.clone(),
                namespaces: self.namespaces.clone(),
                accounts: self.accounts.clone(),
                sidecar_means: self.sidecar_means.clone(),
                ..Snapshot::default()
            },
            neighbours: self.neighbours.clone(),
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
            objects.replace(set.name(), Some(Packed::new(&set)));
        }
        objects.view()
    }
}

#[cfg(test)]
mod tests;
