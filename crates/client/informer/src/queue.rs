//! The names that wait to be reconciled, each once, and when each is due.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::name::NamespacedName;

/// The first and the longest wait after errors, as client-go's rate limiter has them.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(1000);

/// Names with the time when each is due. A name that is being processed is not handed out again until it is done.
#[derive(Default)]
pub(crate) struct Queue {
    due: BTreeSet<(Instant, NamespacedName)>,
    waiting: HashMap<NamespacedName, Instant>,
    /// What is being processed, and when it is due again because of something that happened meanwhile.
    processing: HashMap<NamespacedName, Option<Instant>>,
    /// How often each has failed in a row.
    failures: HashMap<NamespacedName, u32>,
}

impl Queue {
    /// A name is due at this time, or earlier if it was due earlier already.
    pub(crate) fn add(&mut self, name: NamespacedName, at: Instant) {
        if let Some(again) = self.processing.get_mut(&name) {
            *again = Some(again.map_or(at, |known| known.min(at)));
            return;
        }
        match self.waiting.entry(name) {
            Entry::Occupied(known) if *known.get() <= at => {}
            Entry::Occupied(mut known) => {
                self.due.remove(&(*known.get(), known.key().clone()));
                self.due.insert((at, known.key().clone()));
                known.insert(at);
            }
            Entry::Vacant(new) => {
                self.due.insert((at, new.key().clone()));
                new.insert(at);
            }
        }
    }

    /// When the next name is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A name that is due. It is being processed from now on, until it is done.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<NamespacedName> {
        if self.next_due()? > now {
            return None;
        }
        let (_, name) = self.due.pop_first()?;
        self.waiting.remove(&name);
        self.processing.insert(name.clone(), None);
        Some(name)
    }

    /// A name was processed, and is due again at a time if one is given.
    pub(crate) fn succeeded(&mut self, name: NamespacedName, again: Option<Instant>) {
        self.failures.remove(&name);
        self.done(name, again);
    }

    /// A name could not be processed: it is due again after a wait that doubles with each failure.
    pub(crate) fn failed(&mut self, name: NamespacedName, now: Instant) -> Duration {
        let failures = self.failures.entry(name.clone()).or_default();
        let wait = FIRST_RETRY.saturating_mul(1 << (*failures).min(20)).min(LONGEST_RETRY);
        *failures += 1;
        self.done(name, Some(now + wait));
        wait
    }

    fn done(&mut self, name: NamespacedName, again: Option<Instant>) {
        let meanwhile = self.processing.remove(&name).flatten();
        if let Some(at) = again.into_iter().chain(meanwhile).min() {
            self.add(name, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> NamespacedName {
        NamespacedName::new("default", name)
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_wait_doubles_with_each_failure_until_one_succeeds() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let fail = |queue: &mut Queue, of: &str| queue.failed(name(of), now).as_millis();
        let waits: Vec<u128> = (0..4).map(|_| fail(&mut queue, "a")).collect();
        assert_eq!(waits, [5, 10, 20, 40]);
        assert_eq!(fail(&mut queue, "b"), 5);
        for _ in 0..60 {
            fail(&mut queue, "a");
        }
        assert_eq!(fail(&mut queue, "a"), LONGEST_RETRY.as_millis());
        queue.succeeded(name("a"), None);
        assert_eq!(fail(&mut queue, "a"), 5);
    }

    #[test]
    fn a_name_waits_once_and_for_the_earliest_time() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.add(name("a"), now + ms(9));
        queue.add(name("a"), now + ms(5));
        queue.add(name("a"), now + ms(7));
        queue.add(name("b"), now + ms(6));
        assert_eq!((queue.next_due(), queue.pop(now + ms(4))), (Some(now + ms(5)), None));
        assert_eq!(queue.pop(now + ms(9)), Some(name("a")));
        assert_eq!(queue.pop(now + ms(9)), Some(name("b")));
        assert_eq!(queue.pop(now + ms(9)), None);
    }

    #[test]
    fn what_happens_while_a_name_is_processed_comes_after_it() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.add(name("a"), now);
        assert_eq!(queue.pop(now), Some(name("a")));
        queue.add(name("a"), now + ms(1));
        assert_eq!((queue.next_due(), queue.pop(now + ms(2))), (None, None));
        queue.succeeded(name("a"), Some(now + ms(60)));
        assert_eq!(queue.next_due(), Some(now + ms(1)));
    }
}
