//! The keys that wait to be reconciled, each once, and when each is due.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// How long a key waits after its reconciliation has failed: the wait doubles with each failure in a row.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The first wait.
    pub first: Duration,
    /// No wait is longer.
    pub longest: Duration,
    /// Whether the key waits this long even if something happens to it meanwhile.
    pub is_strict: bool,
}

impl Default for Backoff {
    /// As client-go's rate limiter has it.
    fn default() -> Backoff {
        Backoff { first: Duration::from_millis(5), longest: Duration::from_secs(1000), is_strict: false }
    }
}

impl Backoff {
    fn wait(&self, failures: u32) -> Duration {
        self.first.saturating_mul(1 << failures.min(20)).min(self.longest)
    }
}

/// When a key is due, and its number: keys that are due at the same time come in the order in which they were added.
type Place = (Instant, u64);

/// Keys with the time when each is due. A key that is being processed is not handed out again until it is done.
pub(crate) struct Queue<K> {
    backoff: Backoff,
    /// What is due at a later time.
    later: BTreeMap<Place, K>,
    /// How many keys were added.
    added: u64,
    /// What is due, and since when.
    ready: VecDeque<(Instant, K)>,
    /// What waits: until when, or `None` for what is ready.
    waiting: HashMap<K, Option<Place>>,
    /// What is being processed, and when it is due again because of something that happened meanwhile.
    processing: HashMap<K, Option<Instant>>,
    /// How often each has failed in a row.
    failures: HashMap<K, u32>,
    /// Keys that are not due before a time, even if something happens to them.
    held: HashMap<K, Instant>,
}

/// More keys than this are looked through for those that are held no longer.
const MANY: usize = 1024;

/// A key that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due<K> {
    pub(crate) key: K,
    pub(crate) since: Instant,
    /// Whether it has failed before.
    pub(crate) is_retry: bool,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(crate) fn new(backoff: Backoff) -> Queue<K> {
        Queue {
            backoff,
            later: BTreeMap::new(),
            added: 0,
            ready: VecDeque::new(),
            waiting: HashMap::new(),
            processing: HashMap::new(),
            failures: HashMap::new(),
            held: HashMap::new(),
        }
    }

    /// A key is due at this time, or earlier if it was due earlier already.
    pub(crate) fn add(&mut self, key: K, at: Instant) {
        if let Some(again) = self.processing.get_mut(&key) {
            *again = Some(again.map_or(at, |known| known.min(at)));
            return;
        }
        let at = self.held.get(&key).map_or(at, |until| at.max(*until));
        let place = (at, self.added);
        self.added += 1;
        match self.waiting.entry(key) {
            Entry::Occupied(mut known) => {
                let Some(before) = known.get().filter(|(before, _)| *before > at) else { return };
                self.later.remove(&before);
                self.later.insert(place, known.key().clone());
                known.insert(Some(place));
            }
            Entry::Vacant(new) => {
                self.later.insert(place, new.key().clone());
                new.insert(Some(place));
            }
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        let ready = self.ready.front().map(|(since, _)| *since);
        ready.or_else(|| self.later.first_key_value().map(|((at, _), _)| *at))
    }

    /// How many keys are due. Call [`Queue::ripen`] first.
    pub(crate) fn depth(&self) -> usize {
        self.ready.len()
    }

    /// Notes what is due by now.
    pub(crate) fn ripen(&mut self, now: Instant) {
        while self.later.first_key_value().is_some_and(|((at, _), _)| *at <= now)
            && let Some(((at, _), key)) = self.later.pop_first()
        {
            self.waiting.insert(key.clone(), None);
            self.ready.push_back((at, key));
        }
    }

    /// A key that is due. It is being processed from now on, until it is done.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Due<K>> {
        self.ripen(now);
        let (since, key) = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.held.remove(&key);
        self.processing.insert(key.clone(), None);
        let is_retry = self.failures.contains_key(&key);
        Some(Due { key, since, is_retry })
    }

    /// A key was processed, and is due again at a time if one is given.
    pub(crate) fn succeeded(&mut self, key: K, again: Option<Instant>) {
        self.failures.remove(&key);
        self.done(key, again);
    }

    /// A key that is being processed is not due before this time, even if something happens to it.
    pub(crate) fn hold(&mut self, key: &K, until: Instant, now: Instant) {
        if self.held.len() >= MANY.max(2 * self.waiting.len()) {
            self.held.retain(|_, until| *until > now);
        }
        self.held.insert(key.clone(), until);
    }

    /// A key could not be processed: it is due again after a wait, which is returned.
    pub(crate) fn failed(&mut self, key: K, has_progressed: bool, now: Instant) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = if has_progressed { 0 } else { *failures };
        let wait = self.backoff.wait(*failures);
        *failures = failures.saturating_add(1);
        if self.backoff.is_strict {
            self.hold(&key, now + wait, now);
        }
        self.done(key, Some(now + wait));
        wait
    }

    fn done(&mut self, key: K, again: Option<Instant>) {
        let meanwhile = self.processing.remove(&key).flatten();
        if let Some(at) = again.into_iter().chain(meanwhile).min() {
            self.add(key, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn pop(queue: &mut Queue<&'static str>, now: Instant) -> Option<&'static str> {
        queue.pop(now).map(|due| due.key)
    }

    #[test]
    fn the_wait_doubles_with_each_failure_until_one_succeeds() {
        let (mut queue, now) = (Queue::new(Backoff::default()), Instant::now());
        let fail = |queue: &mut Queue<_>, of: &'static str| queue.failed(of, false, now).as_millis();
        let waits: Vec<u128> = (0..4).map(|_| fail(&mut queue, "a")).collect();
        assert_eq!(waits, [5, 10, 20, 40]);
        assert_eq!(fail(&mut queue, "b"), 5);
        for _ in 0..60 {
            fail(&mut queue, "a");
        }
        assert_eq!(fail(&mut queue, "a"), Backoff::default().longest.as_millis());
        assert_eq!(queue.failed("a", true, now), ms(5), "what has progressed begins anew");
        queue.succeeded("a", None);
        assert_eq!(fail(&mut queue, "a"), 5);
    }

    #[test]
    fn a_key_waits_once_and_for_the_earliest_time() {
        let (mut queue, now) = (Queue::new(Backoff::default()), Instant::now());
        queue.add("a", now + ms(9));
        queue.add("a", now + ms(5));
        queue.add("a", now + ms(7));
        queue.add("b", now + ms(6));
        assert_eq!((queue.next_due(), pop(&mut queue, now + ms(4))), (Some(now + ms(5)), None));
        queue.ripen(now + ms(9));
        queue.add("b", now + ms(1));
        assert_eq!((queue.depth(), queue.next_due()), (2, Some(now + ms(5))));
        assert_eq!(queue.pop(now + ms(9)), Some(Due { key: "a", since: now + ms(5), is_retry: false }));
        assert_eq!(pop(&mut queue, now + ms(9)), Some("b"));
        assert_eq!(pop(&mut queue, now + ms(9)), None);
    }

    #[test]
    fn keys_that_are_due_at_the_same_time_come_in_the_order_in_which_they_were_added() {
        let (mut queue, now) = (Queue::new(Backoff::default()), Instant::now());
        for key in ["b", "c", "a"] {
            queue.add(key, now);
        }
        assert_eq!([(); 3].map(|()| pop(&mut queue, now)), [Some("b"), Some("c"), Some("a")]);
    }

    #[test]
    fn what_happens_while_a_key_is_processed_comes_after_it() {
        let (mut queue, now) = (Queue::new(Backoff::default()), Instant::now());
        queue.add("a", now);
        assert_eq!(pop(&mut queue, now), Some("a"));
        queue.add("a", now + ms(1));
        assert_eq!((queue.next_due(), pop(&mut queue, now + ms(2))), (None, None));
        queue.succeeded("a", Some(now + ms(60)));
        assert_eq!(queue.next_due(), Some(now + ms(1)));
    }

    #[test]
    fn a_strict_wait_is_not_shortened_by_what_happens() {
        for (is_strict, due) in [(false, 1), (true, 8)] {
            let backoff = Backoff { first: ms(8), longest: ms(100), is_strict };
            let (mut queue, now) = (Queue::new(backoff), Instant::now());
            queue.add("a", now);
            assert_eq!(pop(&mut queue, now), Some("a"));
            queue.add("a", now + ms(1));
            queue.failed("a", false, now);
            queue.add("a", now + ms(2));
            assert_eq!(queue.next_due(), Some(now + ms(due)), "{is_strict}");
            assert!(queue.pop(now + ms(8)).unwrap().is_retry);
        }
    }

    #[test]
    fn a_key_that_is_held_waits_only_if_something_happens_to_it() {
        let (mut queue, now) = (Queue::new(Backoff::default()), Instant::now());
        queue.add("a", now);
        assert_eq!(pop(&mut queue, now), Some("a"));
        queue.hold(&"a", now + ms(9), now);
        queue.succeeded("a", None);
        assert_eq!(queue.next_due(), None);
        queue.add("a", now + ms(1));
        assert_eq!(queue.next_due(), Some(now + ms(9)));
    }
}
