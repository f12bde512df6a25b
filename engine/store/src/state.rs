//! What readers see: every resource with its objects and its log, and the newest version.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use crate::log::Log;
use crate::objects::Objects;
use crate::{Event, Expired, Key, Options, Snapshot, Stored};

/// The version of a store in which nothing was ever written. Not 0, which clients use for "any".
pub(crate) const FIRST_VERSION: u64 = 1;

/// The newest version of the store.
#[derive(Clone)]
pub(crate) struct Newest(Arc<AtomicU64>);

impl Newest {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self, version: u64) {
        self.0.store(version, Ordering::Release);
    }
}

/// The objects of one resource, and how they came to be.
pub(crate) struct Resource {
    pub(crate) objects: Objects,
    pub(crate) log: Log,
}

/// Why an old version cannot be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListAtError {
    /// It is too old.
    #[error(transparent)]
    Expired(#[from] Expired),
    /// It is still to come.
    #[error("Too large resource version: {requested}, current: {newest}")]
    Future {
        /// The version that was asked for.
        requested: u64,
        /// The newest version.
        newest: u64,
    },
}

/// All resources.
///
/// Each one is the value of a watch channel: its lock keeps readers and the writer apart, and one notification wakes
/// all its watches. There is one writer at a time (see `store` and `durable`), and it moves [`Newest`] only while it
/// holds the resource that it changes. So whoever holds a resource and reads [`Newest`] knows that every event of this
/// resource up to that version is in it, and no later one.
pub(crate) struct State {
    resources: RwLock<HashMap<Arc<str>, watch::Sender<Resource>>>,
    newest: Newest,
    /// The version with which this process began: there is no log of what was before.
    first: u64,
    options: Options,
}

impl State {
    pub(crate) fn new(version: u64, objects: HashMap<Arc<str>, Objects>, options: Options) -> State {
        let resource = |objects| watch::Sender::new(Resource { objects, log: Log::new(version, options) });
        let resources = objects.into_iter().map(|(name, objects)| (name, resource(objects))).collect();
        let newest = Newest(Arc::new(AtomicU64::new(version)));
        State { resources: RwLock::new(resources), newest, first: version, options }
    }

    pub(crate) fn newest(&self) -> &Newest {
        &self.newest
    }

    /// The object, if there is one; and its key, which shares its texts with the store as far as it has them.
    pub(crate) fn find(&self, key: &Key) -> (Key, Option<Stored>) {
        let resources = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        match resources.get_key_value(&key.resource) {
            Some((name, resource)) => {
                let (key, stored) = resource.borrow().objects.find(key);
                (Key { resource: name.clone(), ..key }, stored)
            }
            None => (key.clone(), None),
        }
    }

    pub(crate) fn list(&self, resource: &str, namespace: Option<&str>) -> Snapshot {
        let resource = self.resource(resource);
        let resource = resource.borrow();
        Snapshot::new(resource.objects.within(namespace), self.newest.get())
    }

    /// The newest objects, with every later event undone.
    pub(crate) fn list_at(
        &self,
        resource: &str,
        namespace: Option<&str>,
        version: u64,
    ) -> Result<Snapshot, ListAtError> {
        let resource = self.resource(resource);
        let resource = resource.borrow();
        let newest = self.newest.get();
        if version > newest {
            return Err(ListAtError::Future { requested: version, newest });
        }
        let mut objects = resource.objects.within(namespace);
        for event in resource.log.back_to(version)? {
            if namespace.is_none_or(|namespace| namespace == &*event.key.namespace) {
                objects.set(&event.key, event.previous.as_ref());
            }
        }
        Ok(Snapshot::new(objects, version))
    }

    pub(crate) fn subscribe(&self, resource: &str) -> watch::Receiver<Resource> {
        self.resource(resource).subscribe()
    }

    /// Makes events visible, in their order. Only one thread may do so at a time.
    pub(crate) fn publish(&self, events: &[Arc<Event>]) {
        for run in events.chunk_by(|one, next| one.key.resource == next.key.resource) {
            let Some(event) = run.first() else { continue };
            self.resource(&event.key.resource).send_modify(|resource| {
                for event in run {
                    resource.objects.set(&event.key, event.state());
                    resource.log.push(event.clone());
                    self.newest.set(event.resource_version());
                }
            });
        }
    }

    /// A resource, which comes to be when it is first asked for.
    fn resource(&self, name: &str) -> watch::Sender<Resource> {
        if let Some(resource) = self.resources.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return resource.clone();
        }
        let mut resources = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        let empty = || Resource { objects: Objects::default(), log: Log::new(self.first, self.options) };
        resources.entry(name.into()).or_insert_with(|| watch::Sender::new(empty())).clone()
    }
}
