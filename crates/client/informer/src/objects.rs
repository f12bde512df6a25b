//! The objects of one kind, found by name, by namespace, by owner and by group.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use futures::channel::mpsc;
use kube::Resource as _;

use crate::name::NamespacedName;
use crate::view::{View, controller_of};

/// How an object changed: it was created if there is no old one, and is gone if there is no new one.
///
/// Both are there, with different uids, when an object was replaced by another of its name while the watch was interrupted.
#[derive(Debug)]
pub struct Change<V> {
    /// Which object.
    pub name: NamespacedName,
    /// What it was.
    pub old: Option<Arc<V>>,
    /// What it is.
    pub new: Option<Arc<V>>,
}

impl<V> Clone for Change<V> {
    fn clone(&self) -> Self {
        Change { name: self.name.clone(), old: self.old.clone(), new: self.new.clone() }
    }
}

/// Who reports a version of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The list that a watch begins with.
    List,
    Watch,
    /// The answer to a write.
    Write,
}

/// One object with what the cache itself needs of its metadata.
struct Entry<V> {
    name: NamespacedName,
    uid: Box<str>,
    version: u64,
    /// The newest list that it was in.
    list: AtomicU32,
    /// The uid of its controller.
    controller: Option<Arc<str>>,
    view: Arc<V>,
}

/// An entry in the order of namespaces and names: as small as a pointer, since most owners have few objects.
struct ByName<V>(Arc<Entry<V>>);

impl<V> Ord for ByName<V> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

impl<V> PartialOrd for ByName<V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<V> PartialEq for ByName<V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<V> Eq for ByName<V> {}

type Group<V> = BTreeSet<ByName<V>>;

/// The objects of a namespace, by name.
type Namespace<V> = BTreeMap<Arc<str>, Arc<Entry<V>>>;

pub(crate) struct Objects<V> {
    by_name: BTreeMap<Arc<str>, Namespace<V>>,
    /// By the uid of the controller.
    owned: HashMap<Arc<str>, Group<V>>,
    /// Those without a controller, by namespace.
    orphans: HashMap<Arc<str>, Group<V>>,
    /// By what the views call their groups.
    groups: HashMap<Arc<str>, Group<V>>,
    /// How many lists have begun.
    lists: u32,
    /// The optional parts that views have from the next list on.
    parts: u32,
    /// Whether the list that is under way gives known versions of objects further parts.
    is_widened: bool,
    /// The newest version that the watch has reported. About anything older the watch is the authority.
    seen: u64,
    subscribers: Vec<mpsc::UnboundedSender<Change<V>>>,
}

impl<V> Default for Objects<V> {
    fn default() -> Self {
        Objects {
            by_name: BTreeMap::new(),
            owned: HashMap::new(),
            orphans: HashMap::new(),
            groups: HashMap::new(),
            lists: 0,
            parts: 0,
            is_widened: false,
            seen: 0,
            subscribers: Vec::new(),
        }
    }
}

impl<V> Objects<V> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        self.entry(namespace, name).map(|entry| Arc::clone(&entry.view))
    }

    fn entry(&self, namespace: &str, name: &str) -> Option<&Arc<Entry<V>>> {
        self.by_name.get(namespace)?.get(name)
    }

    fn entries(&self) -> impl Iterator<Item = &Arc<Entry<V>>> {
        self.by_name.values().flat_map(BTreeMap::values)
    }

    pub(crate) fn names(&self, is_meant: impl Fn(&V) -> bool) -> Vec<NamespacedName> {
        self.entries().filter(|entry| is_meant(&entry.view)).map(|entry| entry.name.clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn views(&self) -> impl Iterator<Item = &Arc<V>> {
        self.entries().map(|entry| &entry.view)
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<V>> {
        self.by_name.get(namespace).into_iter().flat_map(BTreeMap::values).map(|entry| &entry.view)
    }

    pub(crate) fn owned_by(&self, uid: &str) -> impl Iterator<Item = &Arc<V>> {
        self.owned.get(uid).into_iter().flatten().map(|ByName(entry)| &entry.view)
    }

    pub(crate) fn orphans(&self, namespace: &str) -> impl Iterator<Item = &Arc<V>> {
        self.orphans.get(namespace).into_iter().flatten().map(|ByName(entry)| &entry.view)
    }

    pub(crate) fn in_group(&self, group: &str) -> impl Iterator<Item = &Arc<V>> {
        self.groups.get(group).into_iter().flatten().map(|ByName(entry)| &entry.view)
    }

    pub(crate) fn names_in_group(&self, group: &str) -> Vec<NamespacedName> {
        self.groups.get(group).into_iter().flatten().map(|ByName(entry)| entry.name.clone()).collect()
    }

    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Everything there is, and a receiver of what changes from now on.
    pub(crate) fn subscribe(&mut self) -> (Vec<Change<V>>, mpsc::UnboundedReceiver<Change<V>>) {
        let receiver = self.follow();
        let created =
            |entry: &Arc<Entry<V>>| Change { name: entry.name.clone(), old: None, new: Some(Arc::clone(&entry.view)) };
        (self.entries().map(created).collect(), receiver)
    }

    /// A receiver of what changes from now on.
    pub(crate) fn follow(&mut self) -> mpsc::UnboundedReceiver<Change<V>> {
        let (sender, receiver) = mpsc::unbounded();
        self.subscribers.push(sender);
        receiver
    }

    fn report(&mut self, change: Change<V>) {
        self.subscribers.retain(|subscriber| subscriber.unbounded_send(change.clone()).is_ok());
    }

    /// Names and uids that many objects share are stored once.
    fn shared(&self, mut name: NamespacedName, controller: Option<&str>) -> (NamespacedName, Option<Arc<str>>) {
        if let Some((known, _)) = self.by_name.get_key_value(&name.namespace) {
            name.namespace = Arc::clone(known);
        }
        let controller = controller.map(|uid| match self.owned.get_key_value(uid) {
            Some((known, _)) => Arc::clone(known),
            None => uid.into(),
        });
        (name, controller)
    }
}

impl<V: View> Objects<V> {
    /// Gives views these optional parts. Objects that are known get them with the next list.
    pub(crate) fn include(&mut self, parts: u32) {
        self.is_widened |= parts & !self.parts != 0;
        self.parts = parts;
    }

    /// Begins a list. No object has been in it yet.
    pub(crate) fn begin_list(&mut self) {
        self.lists = self.lists.wrapping_add(1);
    }

    /// Ends a list: removes every object that was not in it.
    pub(crate) fn end_list(&mut self) {
        let is_gone = |entry: &&Arc<Entry<V>>| entry.list.load(Relaxed) != self.lists;
        let gone: Vec<NamespacedName> = self.entries().filter(is_gone).map(|entry| entry.name.clone()).collect();
        for name in gone {
            self.remove(&name);
        }
        self.is_widened = false;
    }

    fn remove(&mut self, name: &NamespacedName) {
        if let Some(entry) = self.unlink(name) {
            self.report(Change { name: name.clone(), old: Some(Arc::clone(&entry.view)), new: None });
        }
    }

    #[expect(clippy::mutable_key_type, reason = "entries are compared by their names, which do not change")]
    fn link(&mut self, entry: Entry<V>) {
        let NamespacedName { namespace, name } = entry.name.clone();
        let entry = Arc::new(entry);
        let group = match &entry.controller {
            Some(uid) => self.owned.entry(Arc::clone(uid)).or_default(),
            None => self.orphans.entry(Arc::clone(&namespace)).or_default(),
        };
        group.insert(ByName(Arc::clone(&entry)));
        for group in entry.view.groups() {
            self.groups.entry(group).or_default().insert(ByName(Arc::clone(&entry)));
        }
        self.by_name.entry(namespace).or_default().insert(name, entry);
    }

    fn unlink(&mut self, name: &NamespacedName) -> Option<Arc<Entry<V>>> {
        let of_namespace = self.by_name.get_mut(&name.namespace)?;
        let entry = of_namespace.remove(&name.name)?;
        if of_namespace.is_empty() {
            self.by_name.remove(&name.namespace);
        }
        match &entry.controller {
            Some(uid) => leave(&mut self.owned, uid, &entry),
            None => leave(&mut self.orphans, &entry.name.namespace, &entry),
        }
        for group in entry.view.groups() {
            leave(&mut self.groups, &group, &entry);
        }
        Some(entry)
    }

    /// Brings an object to a newer version. What is older than what is known changes nothing.
    pub(crate) fn apply(&mut self, object: V::Object, source: Source) {
        let version = version(&object);
        match source {
            Source::List | Source::Watch => self.seen = self.seen.max(version),
            Source::Write if version <= self.seen => return,
            Source::Write => {}
        }
        let name = NamespacedName::of(&object);
        let known = self.entry(&name.namespace, &name.name);
        if let (Some(known), Source::List) = (known, source) {
            known.list.store(self.lists, Relaxed);
        }
        let is_widened = source == Source::List && self.is_widened;
        if known.is_some_and(|known| known.version > version || (known.version == version && !is_widened)) {
            return;
        }
        let is_known = known.is_some();
        let list = match source {
            Source::List => self.lists,
            Source::Watch | Source::Write => known.map_or(0, |known| known.list.load(Relaxed)),
        };
        let uid = object.meta().uid.as_deref().unwrap_or_default().into();
        let (name, controller) = self.shared(name, controller_of(&object).map(|owner| owner.uid.as_str()));
        let Some(view) = V::with_parts(object, self.parts) else { return self.remove(&name) };
        let old = if is_known { self.unlink(&name) } else { None };
        // The old view is kept where the new one says the same, so that nobody holds two of them.
        let same = old.as_ref().filter(|old| old.uid == uid && old.controller == controller && view.is_same(&old.view));
        let is_same = same.is_some();
        let new = same.map_or_else(|| Arc::new(view), |old| Arc::clone(&old.view));
        self.link(Entry { name: name.clone(), uid, version, list: list.into(), controller, view: Arc::clone(&new) });
        if !is_same {
            self.report(Change { name, old: old.map(|old| Arc::clone(&old.view)), new: Some(new) });
        }
    }

    /// Removes an object that the watch reports as deleted.
    pub(crate) fn delete(&mut self, object: &V::Object) {
        self.seen = self.seen.max(version(object));
        let name = NamespacedName::of(object);
        let uid = object.meta().uid.as_deref().unwrap_or_default();
        // A new object of the same name may have been written already.
        if self.entry(&name.namespace, &name.name).is_some_and(|known| &*known.uid == uid) {
            self.remove(&name);
        }
    }
}

/// Takes an entry out of a group. A group without entries takes no room.
fn leave<V>(groups: &mut HashMap<Arc<str>, Group<V>>, group: &str, entry: &Arc<Entry<V>>) {
    let Some(objects) = groups.get_mut(group) else { return };
    objects.remove(&ByName(Arc::clone(entry)));
    if objects.is_empty() {
        groups.remove(group);
    }
}

fn version<K: kube::Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}
