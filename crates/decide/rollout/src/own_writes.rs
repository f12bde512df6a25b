//! Writes of our own that the watch has not shown yet.

use std::collections::HashMap;

use crate::view::PodView;

/// The pods as our own writes left them, until the watch has caught up: a plan never sees a pod as it was before we changed it, so
/// nothing is done twice and no pod is missing from what counts as unavailable.
#[derive(Debug, Default)]
pub struct OwnWrites {
    by_uid: HashMap<Box<str>, PodView>,
}

impl OwnWrites {
    /// Keeps the pod that the API server returned for a write.
    pub fn add(&mut self, written: PodView) {
        match self.by_uid.get_mut(&written.uid) {
            Some(known) if known.resource_version >= written.resource_version => {}
            Some(known) => *known = written,
            None => {
                self.by_uid.insert(written.uid.clone(), written);
            }
        }
    }

    /// The newer of a pod in the cache and the pod as we wrote it.
    pub fn newest<'a>(&'a self, cached: &'a PodView) -> &'a PodView {
        match self.by_uid.get(&cached.uid) {
            Some(written) if written.resource_version > cached.resource_version => written,
            _ => cached,
        }
    }

    /// Forgets what the watch has shown. Called with each change of the cache.
    pub fn observe(&mut self, cached: &PodView) {
        if self.by_uid.get(&cached.uid).is_some_and(|written| written.resource_version <= cached.resource_version) {
            self.by_uid.remove(&cached.uid);
        }
    }

    /// Forgets a pod that is gone.
    pub fn remove(&mut self, uid: &str) {
        self.by_uid.remove(uid);
    }

    /// How many writes the watch has not shown.
    pub fn len(&self) -> usize {
        self.by_uid.len()
    }

    /// Whether the watch has shown every write.
    pub fn is_empty(&self) -> bool {
        self.by_uid.is_empty()
    }
}
