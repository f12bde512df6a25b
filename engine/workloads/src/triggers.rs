//! Which objects must be reconciled because a child of theirs changed.

use std::collections::BTreeSet;

use futures::{Stream, StreamExt as _, stream};
use kube::ResourceExt as _;
use pillion_informer::{Cache, Change, NamespacedName};

use crate::claim::controller_name;
use crate::kinds::{Cached, Selecting};

/// The parents that changes of the children concern: their controllers, and for orphans whoever selects them.
pub(crate) fn parents<K: Selecting, C: Cached>(
    parents: Cache<K>,
    children: &Cache<C>,
) -> impl Stream<Item = NamespacedName> + Send + use<K, C> {
    children.changes().flat_map(move |change| stream::iter(concerned(&parents, &change)))
}

fn concerned<K: Selecting, C: Cached>(parents: &Cache<K>, change: &Change<C>) -> Vec<NamespacedName> {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let Some(child) = new.or(old) else { return Vec::new() };
    let namespace = child.namespace().unwrap_or_default();
    let mut names: BTreeSet<String> = [old, new].into_iter().flatten().filter_map(controller_name::<K, C>).collect();
    // An orphan matters to others only when it becomes one, or when they may see it in a new light.
    if let Some(new) = new
        && new.owner_references().iter().all(|owner| owner.controller != Some(true))
        && old.is_none_or(|old| old.labels() != new.labels() || old.owner_references() != new.owner_references())
    {
        let selecting = parents.in_namespace(&namespace).into_iter().filter(|parent| parent.selects()(new.meta()));
        names.extend(selecting.map(|parent| parent.name_any()));
    }
    names.into_iter().map(|name| NamespacedName::new(namespace.as_str(), name)).collect()
}
