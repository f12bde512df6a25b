//! Keys that the program itself names for a reconciler.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::{Stream, stream};
use tokio::sync::Notify;

/// Keys that a reconciler has not taken yet, in the order in which they were named, each once.
pub(crate) struct Named<K> {
    keys: Mutex<Keys<K>>,
    is_any: Notify,
}

struct Keys<K> {
    in_order: VecDeque<K>,
    all: HashSet<K>,
}

impl<K: Clone + Eq + Hash> Named<K> {
    pub(crate) fn new() -> Named<K> {
        let keys = Keys { in_order: VecDeque::new(), all: HashSet::new() };
        Named { keys: Mutex::new(keys), is_any: Notify::new() }
    }

    /// Names keys.
    pub(crate) fn name(&self, named: impl IntoIterator<Item = K>) {
        let mut keys = self.lock();
        for key in named {
            if keys.all.insert(key.clone()) {
                keys.in_order.push_back(key);
            }
        }
        self.is_any.notify_one();
    }

    /// The keys, as they are named. One reconciler takes them.
    pub(crate) fn keys(&self) -> impl Stream<Item = K> + Send + '_
    where
        K: Send,
    {
        stream::unfold(self, async |named| Some((named.next().await, named)))
    }

    async fn next(&self) -> K {
        loop {
            if let Some(key) = self.take() {
                return key;
            }
            self.is_any.notified().await;
        }
    }

    fn take(&self) -> Option<K> {
        let mut keys = self.lock();
        let key = keys.in_order.pop_front()?;
        keys.all.remove(&key);
        if keys.all.is_empty() {
            // The first pass names everything, and later ones little.
            (keys.in_order, keys.all) = (VecDeque::new(), HashSet::new());
        }
        Some(key)
    }

    fn lock(&self) -> MutexGuard<'_, Keys<K>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_that_waits_is_named_once_and_in_its_place() {
        let named = Named::new();
        named.name(["b", "a", "b"]);
        named.name(["a", "c"]);
        let mut keys = Box::pin(named.keys());
        let mut taken = Vec::new();
        while let Some(Some(key)) = keys.next().now_or_never() {
            taken.push(key);
        }
        assert_eq!(taken, ["b", "a", "c"]);
        named.name(["a"]);
        assert_eq!(keys.next().await, Some("a"));
    }
}
