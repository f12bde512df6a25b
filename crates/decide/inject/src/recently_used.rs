//! The sets that were matched last, compiled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many are kept for certain, and at most twice as many: one takes about 20 KiB, most of it for its regular expressions.
const FEWEST: usize = 512;

/// The sets that were matched last, compiled. All clones of a catalog share them.
#[derive(Debug)]
pub(crate) struct RecentlyUsed<K, V> {
    generations: Mutex<Generations<K, V>>,
}

impl<K, V> Default for RecentlyUsed<K, V> {
    fn default() -> RecentlyUsed<K, V> {
        RecentlyUsed { generations: Mutex::new(Generations { young: HashMap::new(), old: HashMap::new() }) }
    }
}

/// What is matched goes to the young; when there are enough of them, the old ones go.
#[derive(Debug)]
struct Generations<K, V> {
    young: HashMap<usize, Pair<K, V>>,
    old: HashMap<usize, Pair<K, V>>,
}

/// The entry is held as well, so that no other one is ever at its address.
type Pair<K, V> = (Arc<K>, Arc<V>);

impl<K, V> RecentlyUsed<K, V> {
    /// What is kept of an entry.
    pub(crate) fn get(&self, entry: &Arc<K>) -> Option<Arc<V>> {
        self.lock().get(entry)
    }

    /// What is kept of an entry, or what is made of it now.
    pub(crate) fn get_or_compile(&self, entry: &Arc<K>, compile: impl FnOnce() -> Option<V>) -> Option<Arc<V>> {
        if let Some(known) = self.get(entry) {
            return Some(known);
        }
        // Not under the lock: others need not wait for it, and two that compile the same do no harm.
        let compiled = Arc::new(compile()?);
        self.lock().insert(Arc::clone(entry), Arc::clone(&compiled));
        Some(compiled)
    }

    fn lock(&self) -> MutexGuard<'_, Generations<K, V>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Generations<K, V> {
    fn get(&mut self, entry: &Arc<K>) -> Option<Arc<V>> {
        if let Some((_, compiled)) = self.young.get(&address(entry)) {
            return Some(Arc::clone(compiled));
        }
        let (entry, compiled) = self.old.remove(&address(entry))?;
        self.insert(entry, Arc::clone(&compiled));
        Some(compiled)
    }

    fn insert(&mut self, entry: Arc<K>, compiled: Arc<V>) {
        if self.young.len() >= FEWEST {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(address(&entry), (entry, compiled));
    }
}

fn address<K>(entry: &Arc<K>) -> usize {
    Arc::as_ptr(entry).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_matched_last_is_kept_and_what_was_not_goes() {
        let kept = RecentlyUsed::default();
        let entries: Vec<Arc<usize>> = (0..10 * FEWEST).map(Arc::new).collect();
        let first = &entries[0];
        kept.get_or_compile(first, || Some(1));
        for entry in &entries[1..] {
            assert_eq!(kept.get_or_compile(entry, || Some(**entry)).as_deref(), Some(&**entry));
            assert_eq!(kept.get(first).as_deref(), Some(&1), "it is asked for all the time");
        }
        assert!(kept.get(&entries[1]).is_none());
        let held = entries.iter().filter(|entry| Arc::strong_count(entry) > 1).count();
        assert!((FEWEST..=2 * FEWEST).contains(&held), "{held}");
        assert!(kept.get_or_compile(&entries[1], || None).is_none());
    }
}
