//! Who owns whom, as far as the watches have delivered it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::resources::Served;

/// Keeps an object until its dependents that block it are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until its dependents have forgotten it.
pub(super) const ORPHAN: &str = "orphan";

/// So many owners that are gone are remembered, so that not each of their dependents asks for them.
const REMEMBERED: usize = 500;

/// What the collector knows of an object.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) served: Arc<Served>,
    pub(super) uid: String,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
    pub(super) owners: Vec<OwnerReference>,
    deleting: bool,
    foreground: bool,
    orphan: bool,
}

impl Object {
    pub(super) fn new(served: &Arc<Served>, metadata: &ObjectMeta) -> Object {
        let has = |name: &str| metadata.finalizers.iter().flatten().any(|finalizer| finalizer == name);
        Object {
            served: Arc::clone(served),
            uid: metadata.uid.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            owners: metadata.owner_references.clone().unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            foreground: has(FOREGROUND),
            orphan: has(ORPHAN),
        }
    }

    /// Whether it waits for its dependents to go.
    pub(super) fn deletes_dependents(&self) -> bool {
        self.deleting && self.foreground
    }

    /// Whether it waits for its dependents to forget it.
    pub(super) fn orphans_dependents(&self) -> bool {
        self.deleting && self.orphan
    }

    /// Whether it goes without regard to dependents.
    pub(super) fn just_goes(&self) -> bool {
        self.deleting && !self.foreground
    }
}

/// What has to be looked at, by uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Whether the object should go, or can finish going.
    Delete(String),
    /// The object's dependents are to forget it.
    Orphan(String),
}

#[derive(Default)]
pub(super) struct Graph {
    objects: HashMap<String, Object>,
    /// By the uid of the owner, whether it is known or not.
    dependents: HashMap<String, BTreeSet<String>>,
    gone: HashSet<String>,
    gone_in_order: VecDeque<String>,
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Object> {
        self.objects.get(uid)
    }

    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Object> {
        self.dependents.get(uid).into_iter().flatten().filter_map(|uid| self.objects.get(uid))
    }

    /// Whether the owner is known to be gone.
    pub(super) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// Takes note of an object that is new or has changed.
    pub(super) fn observe(&mut self, object: Object) -> Vec<Work> {
        let old = self.objects.insert(object.uid.clone(), object.clone());
        let old_owners = old.as_ref().map(|old| old.owners.clone()).unwrap_or_default();
        let mut work = self.relink(&object, &old_owners);
        let before = |was: fn(&Object) -> bool| old.as_ref().is_some_and(was);
        if object.orphans_dependents() && !before(Object::orphans_dependents) {
            work.push(Work::Orphan(object.uid.clone()));
        } else if object.deletes_dependents() && !before(Object::deletes_dependents) {
            work.extend(self.dependents(&object.uid).map(|dependent| Work::Delete(dependent.uid.clone())));
            work.push(Work::Delete(object.uid.clone()));
        }
        if old.is_none() || old_owners != object.owners {
            let doubtful =
                |owner: &OwnerReference| self.owner_of(&object, owner).is_none_or(Object::deletes_dependents);
            if object.owners.iter().any(doubtful) {
                work.push(Work::Delete(object.uid.clone()));
            }
        }
        work
    }

    /// The known owner that is meant: the same uid in another namespace is not.
    pub(super) fn owner_of(&self, object: &Object, owner: &OwnerReference) -> Option<&Object> {
        self.objects.get(&owner.uid).filter(|known| {
            known.name == owner.name
                && known.served.resource.kind == owner.kind
                && (known.namespace.is_none() || known.namespace == object.namespace)
        })
    }

    fn relink(&mut self, object: &Object, old_owners: &[OwnerReference]) -> Vec<Work> {
        let mut work = Vec::new();
        for old in old_owners {
            let kept = object.owners.iter().find(|owner| owner.uid == old.uid);
            if kept.is_none() {
                self.unlink(&object.uid, &old.uid);
            }
            // It may have waited for this one.
            if kept.is_none_or(|kept| kept.block_owner_deletion != old.block_owner_deletion) {
                work.extend(self.waiting_owner(&old.uid));
            }
        }
        for owner in &object.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(object.uid.clone());
        }
        work
    }

    fn unlink(&mut self, uid: &str, owner: &str) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(uid);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    fn waiting_owner(&self, uid: &str) -> Option<Work> {
        self.objects.get(uid).filter(|owner| owner.deletes_dependents()).map(|owner| Work::Delete(owner.uid.clone()))
    }

    /// Takes note that an object is gone.
    pub(super) fn forget(&mut self, uid: &str) -> Vec<Work> {
        self.remember_gone(uid);
        let Some(object) = self.objects.remove(uid) else { return Vec::new() };
        let mut work = Vec::new();
        for owner in &object.owners {
            self.unlink(uid, &owner.uid);
            work.extend(self.waiting_owner(&owner.uid));
        }
        work.extend(self.dependents(uid).map(|dependent| Work::Delete(dependent.uid.clone())));
        work
    }

    /// Takes note that an owner is gone, also one that was never known.
    pub(super) fn remember_gone(&mut self, uid: &str) {
        if self.gone.insert(uid.to_owned()) {
            self.gone_in_order.push_back(uid.to_owned());
            if self.gone_in_order.len() > REMEMBERED
                && let Some(oldest) = self.gone_in_order.pop_front()
            {
                self.gone.remove(&oldest);
            }
        }
    }
}
