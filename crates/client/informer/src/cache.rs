//! The objects of a kind, kept by one watch for all who read them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::watch::Sender;
use tokio::time::Instant;

use crate::contact::{Contact, Failure};
use crate::name::NamespacedName;
use crate::objects::{Change, Objects, Source};
use crate::view::View;
use crate::watch::watch_with;

/// How far a cache can be relied on. The lowest of several states is the state of all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The watch has ended, by a panic or because its task was dropped: what the cache holds no longer follows the API server.
    Stopped,
    /// The first list is not complete yet.
    Syncing,
    /// The cache holds what the API server had when the watch started, and follows it.
    Synced,
}

/// A copy of all objects of a kind, or of those that a watch selects. Clones are the same cache.
///
/// A controller puts what it has written into the cache itself ([`Cache::written`]): it never acts on a past that it has changed.
pub struct Cache<V> {
    inner: Arc<Inner<V>>,
}

impl<V> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Cache { inner: Arc::clone(&self.inner) }
    }
}

struct Inner<V> {
    objects: Mutex<Objects<V>>,
    state: Sender<State>,
    /// When the watch last reported something.
    reported: Mutex<Instant>,
    contact: Contact,
}

impl<V> Default for Cache<V> {
    fn default() -> Self {
        let (objects, state) = (Mutex::default(), Sender::new(State::Syncing));
        let (reported, contact) = (Mutex::new(Instant::now()), Contact::default());
        Cache { inner: Arc::new(Inner { objects, state, reported, contact }) }
    }
}

impl<V: View> Cache<V> {
    /// An empty cache; [`Cache::run`] fills it.
    pub fn new() -> Cache<V> {
        Cache::default()
    }

    /// Lists and watches, and keeps the cache as the API server has it, for ever. Run it once at a time.
    ///
    /// A cache whose watch has stopped may be run again: it keeps what it holds until the new list is complete.
    pub async fn run(self, api: Api<V::Object>, config: watcher::Config) {
        let _running = Running::start(&self.inner.state);
        self.follow(api, config).await;
    }

    /// The same for a kind that may not be defined, or not any more: nothing is listed before `defined` has returned, and when `undefined` has, the
    /// cache is empty and syncing until the kind is defined again.
    pub async fn run_while_defined<D, U>(
        self,
        api: Api<V::Object>,
        config: watcher::Config,
        defined: impl Fn() -> D,
        undefined: impl Fn() -> U,
    ) where
        D: Future<Output = ()>,
        U: Future<Output = ()>,
    {
        let _running = Running::start(&self.inner.state);
        loop {
            defined().await;
            tokio::select! {
                () = self.follow(api.clone(), config.clone()) => return,
                () = undefined() => self.forget(),
            }
        }
    }

    async fn follow(&self, api: Api<V::Object>, config: watcher::Config) {
        let mut events = watch_with(api, config, self.inner.contact.clone()).boxed();
        while let Some(event) = events.next().await {
            *self.inner.reported.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            if self.apply(event) {
                self.inner.state.send_replace(State::Synced);
            }
        }
    }

    /// Forgets every object: there is nothing to list.
    fn forget(&self) {
        self.inner.state.send_replace(State::Syncing);
        self.inner.contact.succeeded();
        let mut objects = self.lock();
        objects.begin_list();
        objects.end_list();
    }

    /// Applies an event of the watch. Returns whether it completes a list.
    fn apply(&self, event: watcher::Event<V::Object>) -> bool {
        let mut objects = self.lock();
        match event {
            watcher::Event::Init => objects.begin_list(),
            watcher::Event::InitApply(object) => objects.apply(object, Source::List),
            watcher::Event::InitDone => {
                objects.end_list();
                return true;
            }
            watcher::Event::Apply(object) => objects.apply(object, Source::Watch),
            watcher::Event::Delete(object) => objects.delete(&object),
        }
        false
    }

    /// Makes views with these optional parts ([`View::with_parts`]) from now on. Objects that the cache holds get parts that are new with the next
    /// list: run the cache again.
    pub fn include(&self, parts: u32) {
        self.lock().include(parts);
    }

    /// Puts what a write was answered with into the cache, unless the watch knows something newer.
    pub fn written(&self, object: V::Object) {
        self.lock().apply(object, Source::Write);
    }
}

impl<V> Cache<V> {
    /// How far the cache can be relied on now.
    pub fn state(&self) -> State {
        *self.inner.state.borrow()
    }

    /// How long ago the watch last reported a change, or the cache was created.
    pub fn age(&self) -> Duration {
        self.inner.reported.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Since when the watch fails, and why; `None` while it works. A watch that was interrupted is restarted within moments, and one that cannot
    /// be is tried again at least every minute.
    ///
    /// That a watch works again is known at once if the cache is run with [`Cache::client`], and otherwise with the next change.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.contact.failure()
    }

    /// Returns when the watch is open and has reported what happened before, or when `longest` has passed since it was interrupted.
    /// API servers end every watch after some minutes, and it is opened again within milliseconds.
    ///
    /// A cache that is not run with [`Cache::client`] does not know, and returns at once.
    pub async fn uninterrupted(&self, longest: Duration) {
        self.inner.contact.uninterrupted(longest).await;
    }

    /// A client like this one, to run the cache with: it notes whether the watch is accepted.
    #[must_use]
    pub fn client(&self, client: &Client) -> Client {
        self.inner.contact.of(client)
    }

    /// Returns when the cache is synced.
    pub async fn synced(&self) {
        self.reached(State::Synced).await;
    }

    /// Returns when the cache is not synced yet, or not any more because its kind is not defined.
    pub async fn syncing(&self) {
        self.reached(State::Syncing).await;
    }

    /// Returns when the watch has ended.
    pub async fn stopped(&self) {
        self.reached(State::Stopped).await;
    }

    async fn reached(&self, wanted: State) {
        // The sender lives as long as this cache: there is no error.
        let _ = self.inner.state.subscribe().wait_for(|state| *state == wanted).await;
    }

    /// One object; the namespace of cluster-scoped objects is empty.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        self.lock().get(namespace, name)
    }

    /// All objects, by namespace and name.
    pub fn list(&self) -> Vec<Arc<V>> {
        self.lock().views().cloned().collect()
    }

    /// The names of the objects that `is_meant` accepts, in order.
    pub fn names(&self, is_meant: impl Fn(&V) -> bool) -> Vec<NamespacedName> {
        self.lock().names(is_meant)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects whose controller has this uid, by namespace and name.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<V>> {
        self.lock().owned_by(uid).cloned().collect()
    }

    /// The objects of a namespace that have no controller, by name.
    pub fn orphans(&self, namespace: &str) -> Vec<Arc<V>> {
        self.lock().orphans(namespace).cloned().collect()
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        self.lock().in_namespace(namespace).cloned().collect()
    }

    /// The objects of a group, by namespace and name; [`View::groups`] says which those are.
    pub fn in_group(&self, group: &str) -> Vec<Arc<V>> {
        self.lock().in_group(group).cloned().collect()
    }

    /// The names of the objects of a group, in order.
    pub fn names_in_group(&self, group: &str) -> Vec<NamespacedName> {
        self.lock().names_in_group(group)
    }

    /// The newest version that the watch has reported.
    pub fn version(&self) -> u64 {
        self.lock().seen()
    }

    /// Everything that the cache holds, as changes, and a stream of what changes from this moment on.
    pub fn subscribe(&self) -> (Vec<Change<V>>, impl Stream<Item = Change<V>> + Send + use<V>)
    where
        V: Send + Sync,
    {
        self.lock().subscribe()
    }

    /// What changes from this moment on.
    pub fn updates(&self) -> impl Stream<Item = Change<V>> + Send + use<V>
    where
        V: Send + Sync,
    {
        self.lock().follow()
    }

    /// What changes from this moment on, after everything that the cache holds. The stream does not end when the watch does.
    pub fn changes(&self) -> impl Stream<Item = Change<V>> + Send + use<V>
    where
        V: Send + Sync,
    {
        let (held, changes) = self.subscribe();
        stream::iter(held).chain(changes)
    }

    fn lock(&self) -> MutexGuard<'_, Objects<V>> {
        self.inner.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the end of a watch visible, however it ends.
struct Running<'a> {
    state: &'a Sender<State>,
}

impl Running<'_> {
    fn start(state: &Sender<State>) -> Running<'_> {
        state.send_replace(State::Syncing);
        Running { state }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.state.send_replace(State::Stopped);
    }
}

#[cfg(test)]
mod tests;
