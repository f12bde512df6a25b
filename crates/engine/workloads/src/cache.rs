//! Objects that many controllers look at: one watch for all, found by owner.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::ResourceExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};

/// What a cache can hold. A controller that needs little of an object declares a type with only that.
pub(crate) trait Cached:
    kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Cached for K where K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{}

/// How an object changed: it was created if there is no old one, and is gone if there is no new one.
#[derive(Clone, Debug)]
pub(crate) struct Change<K> {
    pub(crate) old: Option<Arc<K>>,
    pub(crate) new: Option<Arc<K>>,
}

/// A copy of all objects of a kind, kept by a watch. Clones are the same cache.
///
/// A controller puts what it has written into the cache itself ([`Cache::written`]): it never acts on a past that it has changed.
pub(crate) struct Cache<K> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Cache { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<K> {
    objects: Mutex<Objects<K>>,
    ready: watch::Sender<bool>,
}

/// Namespace and name.
type Key = (String, String);

/// Whom an object belongs to.
#[derive(PartialEq, Eq, Hash)]
enum Holder {
    /// The controller with this uid.
    Controller(String),
    /// Nobody, in this namespace.
    Nobody(String),
}

struct Objects<K> {
    /// In order, so that a namespace is a range.
    by_key: BTreeMap<Key, Arc<K>>,
    by_holder: HashMap<Holder, BTreeMap<Key, Arc<K>>>,
    /// The newest version that the watch has told of; what is older is known better by the watch than by anyone.
    seen: u64,
    subscribers: Vec<mpsc::UnboundedSender<Change<K>>>,
}

impl<K: Cached> Cache<K> {
    /// An empty cache; [`Cache::keep`] fills it.
    pub(crate) fn new() -> Cache<K> {
        let objects = Objects { by_key: BTreeMap::new(), by_holder: HashMap::new(), seen: 0, subscribers: Vec::new() };
        Cache { inner: Arc::new(Inner { objects: Mutex::new(objects), ready: watch::Sender::new(false) }) }
    }

    /// Keeps the cache as the API server has it, for ever.
    pub(crate) async fn keep(self, api: Api<K>) {
        let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
        let mut listed: BTreeSet<Key> = BTreeSet::new();
        loop {
            match events.try_next().await {
                Ok(Some(event)) => self.take(event, &mut listed),
                Ok(None) => return,
                Err(error) => tracing::debug!(%error, kind = %K::kind(&()), "the watch is begun again"),
            }
        }
    }

    fn take(&self, event: watcher::Event<K>, listed: &mut BTreeSet<Key>) {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => {
                listed.insert(key(&object));
                self.lock().apply(object, true);
            }
            watcher::Event::InitDone => {
                let mut objects = self.lock();
                let gone: Vec<Key> = objects.by_key.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for key in gone {
                    objects.remove(&key);
                }
                drop(objects);
                self.inner.ready.send_replace(true);
            }
            watcher::Event::Apply(object) => self.lock().apply(object, true),
            watcher::Event::Delete(object) => self.lock().delete(&object),
        }
    }

    /// Returns when the cache holds all that there was when it began.
    pub(crate) async fn ready(&self) {
        // The sender lives as long as this cache.
        let _ = self.inner.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Takes what a write has answered with: seen at once, unless the watch knows something newer.
    pub(crate) fn written(&self, object: K) {
        self.lock().apply(object, false);
    }

    /// One object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.lock().by_key.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// The objects whose controller has this uid, in the order of their names.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.held_by(&Holder::Controller(uid.to_owned()))
    }

    /// The objects of a namespace that have no controller, in the order of their names.
    pub(crate) fn orphans(&self, namespace: &str) -> Vec<Arc<K>> {
        self.held_by(&Holder::Nobody(namespace.to_owned()))
    }

    fn held_by(&self, holder: &Holder) -> Vec<Arc<K>> {
        self.lock().by_holder.get(holder).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// The objects of a namespace, in the order of their names.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let objects = self.lock();
        let from = objects.by_key.range((namespace.to_owned(), String::new())..);
        from.take_while(|((of, _), _)| of == namespace).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// All objects that `wanted` accepts, in no order.
    pub(crate) fn filter(&self, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.lock().by_key.values().filter(|object| wanted(object)).cloned().collect()
    }

    /// What changes from now on, after all that there is.
    pub(crate) fn changes(&self) -> impl Stream<Item = Change<K>> + Send + use<K> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut objects = self.lock();
        for object in objects.by_key.values() {
            // The receiver is right here.
            let _ = sender.send(Change { old: None, new: Some(Arc::clone(object)) });
        }
        objects.subscribers.push(sender);
        stream::unfold(receiver, async |mut receiver| receiver.recv().await.map(|change| (change, receiver)))
    }

    fn lock(&self) -> MutexGuard<'_, Objects<K>> {
        self.inner.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Cached> Objects<K> {
    fn apply(&mut self, mut object: K, watched: bool) {
        // Nobody here reads it, and an update that does not name it leaves it as it is.
        object.meta_mut().managed_fields = None;
        let version = version(&object);
        if watched {
            self.seen = self.seen.max(version);
        } else if version <= self.seen {
            return;
        }
        let key = key(&object);
        let known = self.by_key.get(&key);
        if known.is_some_and(|known| self::version(known.as_ref()) >= version) {
            return;
        }
        let old = self.remove_quietly(&key);
        let new = Arc::new(object);
        self.by_holder.entry(holder(new.as_ref())).or_default().insert(key.clone(), Arc::clone(&new));
        self.by_key.insert(key, Arc::clone(&new));
        self.tell(Change { old, new: Some(new) });
    }

    fn delete(&mut self, object: &K) {
        self.seen = self.seen.max(version(object));
        let key = key(object);
        // A new object of the same name may have been written already.
        if self.by_key.get(&key).is_some_and(|known| known.uid() == object.uid()) {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(old) = self.remove_quietly(key) {
            self.tell(Change { old: Some(old), new: None });
        }
    }

    fn remove_quietly(&mut self, key: &Key) -> Option<Arc<K>> {
        let old = self.by_key.remove(key)?;
        let holder = holder(old.as_ref());
        if let Some(held) = self.by_holder.get_mut(&holder) {
            held.remove(key);
            if held.is_empty() {
                self.by_holder.remove(&holder);
            }
        }
        Some(old)
    }

    fn tell(&mut self, change: Change<K>) {
        self.subscribers.retain(|subscriber| subscriber.send(change.clone()).is_ok());
    }
}

fn key<K: Cached>(object: &K) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn version<K: Cached>(object: &K) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn holder<K: Cached>(object: &K) -> Holder {
    match controller_of(object) {
        Some(controller) => Holder::Controller(controller.uid.clone()),
        None => Holder::Nobody(object.namespace().unwrap_or_default()),
    }
}

/// The object's controller.
pub(crate) fn controller_of<K: kube::Resource>(object: &K) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::PodView;
    use futures::FutureExt as _;
    use kube::runtime::watcher::Event;
    use serde_json::json;

    fn pod(name: &str, version: u32, owner: &str) -> PodView {
        let reference =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true});
        let owners = if owner.is_empty() { json!([]) } else { json!([reference]) };
        let metadata = json!({
            "name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string(), "ownerReferences": owners,
        });
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn watched(events: Vec<Event<PodView>>) -> Cache<PodView> {
        let cache = Cache::new();
        let mut listed = BTreeSet::new();
        for event in events {
            cache.take(event, &mut listed);
        }
        cache
    }

    fn names(pods: &[Arc<PodView>]) -> Vec<String> {
        pods.iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn objects_are_found_by_their_controller_and_without_one() {
        let cache = watched(vec![
            Event::Apply(pod("a", 1, "set")),
            Event::Apply(pod("b", 2, "")),
            Event::Apply(pod("c", 3, "set")),
        ]);
        assert_eq!(names(&cache.owned_by("set")), ["a", "c"]);
        assert_eq!(names(&cache.orphans("default")), ["b"]);
        cache.written(pod("a", 4, ""));
        assert_eq!(
            (names(&cache.owned_by("set")), names(&cache.orphans("default"))),
            (vec!["c".into()], vec!["a".into(), "b".into()])
        );
        assert_eq!(names(&cache.in_namespace("default")), ["a", "b", "c"]);
        assert_eq!(names(&cache.in_namespace("defaul")), [""; 0]);
    }

    #[test]
    fn a_write_is_seen_at_once_unless_the_watch_knows_better() {
        let cache = watched(vec![Event::Apply(pod("a", 5, ""))]);
        cache.written(pod("new", 6, ""));
        assert!(cache.get("default", "new").is_some());
        // Created and deleted while the answer was under way.
        cache.written(pod("late", 4, ""));
        assert!(cache.get("default", "late").is_none());
        cache.written(pod("a", 3, "set"));
        assert_eq!(names(&cache.owned_by("set")), [""; 0]);
    }

    #[test]
    fn a_deletion_does_not_take_the_next_object_of_the_name() {
        let mut next = pod("a", 7, "");
        next.metadata.uid = Some("next".into());
        let cache = watched(vec![Event::Apply(pod("a", 5, ""))]);
        cache.written(next);
        cache.take(Event::Delete(pod("a", 6, "")), &mut BTreeSet::new());
        assert_eq!(cache.get("default", "a").and_then(|pod| pod.uid()).as_deref(), Some("next"));
    }

    #[test]
    fn a_new_list_forgets_what_is_gone_and_everybody_is_told() {
        let cache = watched(vec![Event::Apply(pod("gone", 1, "")), Event::Apply(pod("kept", 2, ""))]);
        let mut changes = Box::pin(cache.changes());
        let mut listed = BTreeSet::new();
        for event in [Event::Init, Event::InitApply(pod("kept", 2, "")), Event::InitDone] {
            cache.take(event, &mut listed);
        }
        let mut told = Vec::new();
        while let Some(Some(change)) = changes.next().now_or_never() {
            let name = |pod: Option<Arc<PodView>>| pod.map(|pod| pod.name_any());
            told.push((name(change.old), name(change.new)));
        }
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(told, [(None, some("gone")), (None, some("kept")), (some("gone"), None)]);
    }
}
