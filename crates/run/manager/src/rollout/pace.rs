//! When each set is looked at again.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

/// How long a set waits after its writes have failed, at first and at last.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(1);

/// How a pass over a set ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Everything was written.
    Done {
        /// When to look again if nothing happens before.
        again: Option<Duration>,
    },
    /// The API server did not answer as it should.
    Failed {
        /// Whether something was written nevertheless.
        has_progressed: bool,
    },
}

impl Outcome {
    /// The same, with another reason to look again.
    pub(super) fn and_again(self, after: Option<Duration>) -> Outcome {
        match self {
            Outcome::Done { again } => Outcome::Done { again: again.into_iter().chain(after).min() },
            failed @ Outcome::Failed { .. } => failed,
        }
    }
}

/// The sets that are to be looked at, and when.
#[derive(Debug, Default)]
pub(super) struct Pace {
    due: BTreeMap<String, Instant>,
    /// Sets whose writes have failed: how often in a row, and until when they are left alone whatever happens.
    failing: HashMap<String, (u32, Instant)>,
}

impl Pace {
    /// Something about these sets has changed.
    pub(super) fn touch(&mut self, sets: impl IntoIterator<Item = String>) {
        let now = Instant::now();
        for set in sets {
            self.add(set, now);
        }
    }

    fn add(&mut self, set: String, at: Instant) {
        let at = self.failing.get(&set).map_or(at, |(_, until)| at.max(*until));
        self.due.entry(set).and_modify(|due| *due = at.min(*due)).or_insert(at);
    }

    /// Takes the sets whose time has come.
    pub(super) fn due(&mut self) -> Vec<String> {
        let now = Instant::now();
        self.due.extract_if(.., |_, at| *at <= now).map(|(set, _)| set).collect()
    }

    /// A set was looked at.
    pub(super) fn done(&mut self, set: String, outcome: Outcome) {
        let now = Instant::now();
        match outcome {
            Outcome::Done { again } => {
                self.failing.remove(&set);
                // A wait without end is a wait for a change.
                if let Some(at) = again.and_then(|again| now.checked_add(again)) {
                    self.add(set, at);
                }
            }
            Outcome::Failed { has_progressed } => {
                let times = self.failing.get(&set).map_or(0, |(times, _)| if has_progressed { 0 } else { times + 1 });
                let until = now + FIRST_RETRY.saturating_mul(1 << times.min(10)).min(LONGEST_RETRY);
                self.failing.insert(set.clone(), (times, until));
                self.due.remove(&set);
                self.add(set, until);
            }
        }
    }

    /// Returns when a set is due.
    pub(super) async fn next(&self) {
        match self.due.values().min() {
            Some(at) => tokio::time::sleep_until(*at).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: Outcome = Outcome::Failed { has_progressed: false };

    async fn waits(pace: &mut Pace) -> u64 {
        let start = Instant::now();
        pace.next().await;
        assert_eq!(pace.due(), ["mesh"]);
        start.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn a_set_that_fails_waits_ever_longer_whatever_happens_to_it() {
        let mut pace = Pace::default();
        pace.touch(["mesh".to_owned()]);
        assert_eq!(pace.due(), ["mesh"]);
        let mut seconds = Vec::new();
        for _ in 0..8 {
            pace.done("mesh".to_owned(), FAILED);
            pace.touch(["mesh".to_owned()]);
            seconds.push(waits(&mut pace).await);
        }
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        pace.done("mesh".to_owned(), Outcome::Failed { has_progressed: true });
        assert_eq!(waits(&mut pace).await, 1);
        pace.done("mesh".to_owned(), Outcome::Done { again: None });
        pace.touch(["mesh".to_owned()]);
        assert_eq!(waits(&mut pace).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_set_is_looked_at_when_it_asks_for_it_and_earlier_when_it_changes() {
        let mut pace = Pace::default();
        let again = |seconds| Outcome::Done { again: Some(Duration::from_secs(seconds)) };
        pace.done("mesh".to_owned(), again(60).and_again(Some(Duration::from_secs(30))));
        assert_eq!(waits(&mut pace).await, 30);
        pace.done("mesh".to_owned(), again(60));
        pace.touch(["mesh".to_owned()]);
        assert_eq!(waits(&mut pace).await, 0);
    }
}
