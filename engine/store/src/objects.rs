//! The objects of one resource, in the order of etcd.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use crate::{Key, Stored};

/// The objects of one resource. A clone is constant work and shares everything.
#[derive(Clone, Default)]
pub(crate) struct Objects {
    namespaces: OrdMap<Namespace, OrdMap<Arc<str>, Stored>>,
    len: usize,
}

/// A namespace, ordered as in etcd's keys, where a `/` follows it: `team-b/` is before `team/`.
#[derive(Clone, PartialEq, Eq)]
struct Namespace(Arc<str>);

impl Ord for Namespace {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.bytes().chain([b'/']).cmp(other.0.bytes().chain([b'/']))
    }
}

impl PartialOrd for Namespace {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Objects {
    /// The object, if there is one; and its key, which shares its texts with the store as far as it has them.
    pub(crate) fn find(&self, key: &Key) -> (Key, Option<Stored>) {
        let Some((namespace, objects)) = self.namespaces.get_key_value(&Namespace(key.namespace.clone())) else {
            return (key.clone(), None);
        };
        let found = objects.get_key_value(&key.name);
        let name = found.map_or(&key.name, |(name, _)| name).clone();
        let key = Key { resource: key.resource.clone(), namespace: namespace.0.clone(), name };
        (key, found.map(|(_, stored)| stored.clone()))
    }

    /// Makes `state` what is stored under the key.
    pub(crate) fn set(&mut self, key: &Key, state: Option<&Stored>) {
        let namespace = Namespace(key.namespace.clone());
        if let Some(stored) = state {
            let objects = self.namespaces.entry(namespace).or_default();
            self.len += usize::from(objects.insert(key.name.clone(), stored.clone()).is_none());
        } else if let Some(objects) = self.namespaces.get_mut(&namespace) {
            self.len -= usize::from(objects.remove(&key.name).is_some());
            if objects.is_empty() {
                self.namespaces.remove(&namespace);
            }
        }
    }

    /// These objects, or those of one namespace.
    pub(crate) fn within(&self, namespace: Option<&str>) -> Objects {
        let Some(namespace) = namespace else { return self.clone() };
        match self.namespaces.get_key_value(&Namespace(namespace.into())) {
            Some((namespace, objects)) => {
                Objects { namespaces: OrdMap::unit(namespace.clone(), objects.clone()), len: objects.len() }
            }
            None => Objects::default(),
        }
    }
}

/// The objects of one resource, or of one namespace of it, at one version. Cheap to clone; never changes.
#[derive(Clone)]
pub struct Snapshot {
    objects: Objects,
    resource_version: u64,
}

impl Snapshot {
    pub(crate) fn new(objects: Objects, resource_version: u64) -> Snapshot {
        Snapshot { objects, resource_version }
    }

    /// The version of the store that this shows.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Namespace, name and object, in the order in which kube-apiserver lists: by the bytes of `namespace/name`.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, &Stored)> {
        self.objects.namespaces.iter().flat_map(named)
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Stored> {
        self.objects.namespaces.get(&Namespace(namespace.into()))?.get(name)
    }

    /// As [`Snapshot::iter`], from this namespace and name on, which need not exist (any more).
    pub fn iter_from<'a>(
        &'a self,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>, &'a Stored)> + use<'a> {
        let namespaces = &self.objects.namespaces;
        let start = Namespace(namespace.into());
        let rest_of_namespace = namespaces.get_key_value(&start).map(|(namespace, objects)| {
            let rest = objects.range::<_, str>((Bound::Included(name), Bound::Unbounded));
            rest.map(|(name, stored)| (&namespace.0, name, stored))
        });
        let other_namespaces = namespaces.range((Bound::Excluded(start), Bound::Unbounded)).flat_map(named);
        rest_of_namespace.into_iter().flatten().chain(other_namespaces)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, len) = (&self.resource_version, &self.len());
        f.debug_struct("Snapshot").field("resource_version", version).field("len", len).finish_non_exhaustive()
    }
}

fn named<'a>(
    (namespace, objects): (&'a Namespace, &'a OrdMap<Arc<str>, Stored>),
) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>, &'a Stored)> {
    objects.iter().map(|(name, stored)| (&namespace.0, name, stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let mut objects = Objects::default();
        for (namespace, name) in [("team", "a"), ("team", "b"), ("team-b", "z"), ("a", "a.b"), ("a", "a-b"), ("a", "a")]
        {
            let stored = Stored { bytes: name.to_owned().into(), resource_version: 1 };
            objects.set(&Key::new("pods", namespace, name), Some(&stored));
        }
        Snapshot::new(objects, 1)
    }

    fn texts<'a>(items: impl Iterator<Item = (&'a Arc<str>, &'a Arc<str>, &'a Stored)>) -> Vec<String> {
        items.map(|(namespace, name, _)| format!("{namespace}/{name}")).collect()
    }

    #[test]
    fn objects_come_in_the_byte_order_of_their_paths() {
        let all = texts(snapshot().iter());
        assert_eq!(all, ["a/a", "a/a-b", "a/a.b", "team-b/z", "team/a", "team/b"]);
        let mut sorted = all.clone();
        sorted.sort();
        assert_eq!(all, sorted);
    }

    #[test]
    fn a_list_can_start_at_any_place_whether_or_not_something_is_there() {
        let snapshot = snapshot();
        let all = texts(snapshot.iter());
        for (namespace, name, skipped) in [
            ("", "", 0),
            ("a", "", 0),
            ("a", "a", 0),
            ("a", "a\0", 1),
            ("a", "a.a", 2),
            ("a", "b", 3),
            ("b", "a", 3),
            ("team", "", 4),
            ("team", "a\0", 5),
            ("team", "b\0", 6),
            ("team\0", "", 3),
            ("z", "a", 6),
        ] {
            assert_eq!(texts(snapshot.iter_from(namespace, name)), all[skipped..], "from {namespace}/{name:?}");
        }
    }

    #[test]
    fn a_namespace_knows_its_length_and_an_emptied_one_is_gone() {
        let Snapshot { mut objects, .. } = snapshot();
        let before = objects.clone();
        assert_eq!([None, Some("a"), Some("team-b"), Some("none")].map(|n| objects.within(n).len), [6, 3, 1, 0]);
        objects.set(&Key::new("pods", "team-b", "z"), None);
        objects.set(&Key::new("pods", "team-b", "never"), None);
        objects.set(&Key::new("pods", "none", "never"), None);
        assert_eq!((objects.len, objects.namespaces.len()), (5, 2));
        assert_eq!(before.len, 6, "a clone is a snapshot");
    }
}
