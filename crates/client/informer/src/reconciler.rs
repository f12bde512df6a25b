//! The loop of every controller: what changes is queued by its key, and reconciled until that succeeds.

use std::fmt::Display;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::stream::{BoxStream, FuturesUnordered, SelectAll};
use futures::{FutureExt as _, Stream, StreamExt as _};
use tokio::time::Instant;

use crate::queue::{Backoff, Queue};

/// Everything that happens to a key within this time is one reconciliation. Unlike a debounce, the wait is not prolonged by new events.
pub(crate) const SETTLE: Duration = Duration::from_millis(5);

/// How many keys are queued in one turn.
const TURN: usize = 1024;

/// How a reconciliation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The state is as it should be; it is looked at again after this time if nothing happens before.
    Done(Option<Duration>),
    /// The same, but it is not looked at before a pause has passed, even if something happens to it.
    Paused {
        pause: Duration,
        /// After which time it is looked at again if nothing happens before.
        again: Option<Duration>,
    },
    /// It is tried again after the back-off of its key.
    Failed {
        /// What the log says.
        error: String,
        /// Whether something was done nevertheless: the back-off begins anew.
        has_progressed: bool,
    },
}

impl Outcome {
    /// The same, with another reason to look again after a time.
    #[must_use]
    pub fn and_again(self, after: Option<Duration>) -> Outcome {
        let sooner = |again: Option<Duration>| again.into_iter().chain(after).min();
        match self {
            Outcome::Done(again) => Outcome::Done(sooner(again)),
            Outcome::Paused { pause, again } => Outcome::Paused { pause, again: sooner(again) },
            failed @ Outcome::Failed { .. } => failed,
        }
    }

    /// The same, but the key is not looked at before a pause has passed, even if something happens to it.
    #[must_use]
    pub fn and_pause(self, pause: Duration) -> Outcome {
        match self {
            Outcome::Done(again) | Outcome::Paused { again, .. } => Outcome::Paused { pause, again },
            failed @ Outcome::Failed { .. } => failed,
        }
    }

    /// Nothing was done because of an error, which the log shows with its causes.
    pub fn failed(error: &(dyn std::error::Error + 'static)) -> Outcome {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let error = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        Outcome::Failed { error, has_progressed: false }
    }
}

/// Counts what a reconciler does.
pub trait Observe: Send + Sync {
    /// So many keys are due and wait for their turn.
    fn waiting(&self, _keys: usize) {}

    /// A reconciliation begins. Its key has been due for this time; a retry is one after an error.
    fn begins(&self, _waited: Duration, _is_retry: bool) {}

    /// A reconciliation has ended after this time.
    fn ended(&self, _took: Duration, _has_failed: bool) {}
}

/// Counts nothing.
impl Observe for () {}

/// Reconciles keys: each one when a stream names it, again when it asks for that, and again after errors.
///
/// A key is never reconciled twice at the same time, and waits once however often it is named: what waits takes as much memory as there are keys.
/// Keys that are due at the same time are reconciled in the order in which they were named. A key that fails or panics delays no
/// other, and neither does one that hangs while fewer keys hang than the limit allows.
#[must_use = "a reconciler does nothing until it runs"]
pub struct Reconciler<'a, K> {
    name: &'static str,
    keys: SelectAll<BoxStream<'a, Vec<K>>>,
    concurrency: usize,
    backoff: Backoff,
    is_quiet: bool,
    observer: Box<dyn Observe + 'a>,
}

impl<'a, K> Reconciler<'a, K>
where
    K: Clone + Display + Eq + Hash + Send + 'a,
{
    /// A reconciler that the log calls by this name.
    pub fn new(name: &'static str) -> Reconciler<'a, K> {
        Reconciler {
            name,
            keys: SelectAll::new(),
            concurrency: usize::MAX,
            backoff: Backoff::default(),
            is_quiet: false,
            observer: Box::new(()),
        }
    }

    /// Reconciles the keys that this stream names.
    pub fn on(mut self, keys: impl Stream<Item = K> + Send + 'a) -> Reconciler<'a, K> {
        self.keys.push(keys.ready_chunks(TURN).boxed());
        self
    }

    /// At most this many keys are reconciled at the same time; without it there is no limit.
    pub fn concurrency(self, limit: usize) -> Reconciler<'a, K> {
        Reconciler { concurrency: limit.max(1), ..self }
    }

    /// How long a key waits after errors.
    pub fn backoff(self, backoff: Backoff) -> Reconciler<'a, K> {
        Reconciler { backoff, ..self }
    }

    /// Logs errors at debug level: conflicts between writers are expected.
    pub fn quiet(self) -> Reconciler<'a, K> {
        Reconciler { is_quiet: true, ..self }
    }

    /// Counts what it does.
    pub fn observed_by(self, observer: Box<dyn Observe + 'a>) -> Reconciler<'a, K> {
        Reconciler { observer, ..self }
    }

    /// Runs until all streams have ended and nothing waits. Dropping the future also ends the reconciliations that are under way.
    pub async fn run<F: Future<Output = Outcome>>(self, reconcile: impl Fn(K) -> F) {
        let Reconciler { name, mut keys, concurrency, backoff, is_quiet, observer } = self;
        let mut queue: Queue<K> = Queue::new(backoff);
        let (reconcile, mut running) = (&reconcile, FuturesUnordered::new());
        loop {
            let now = Instant::now();
            while running.len() < concurrency
                && let Some(due) = queue.pop(now)
            {
                observer.begins(now.duration_since(due.since), due.is_retry);
                running.push(async move {
                    let key = due.key.clone();
                    // Called inside, since it may panic before there is a future.
                    (due.key, attempt(async { reconcile(key).await }).await, now)
                });
            }
            queue.ripen(now);
            observer.waiting(queue.depth());
            let due = queue.next_due().filter(|_| running.len() < concurrency);
            tokio::select! {
                biased;
                Some((key, outcome, began)) = running.next() => {
                    observer.ended(began.elapsed(), matches!(outcome, Outcome::Failed { .. }));
                    let now = Instant::now();
                    match outcome {
                        Outcome::Done(again) => queue.succeeded(key, later(now, again, SETTLE)),
                        Outcome::Paused { pause, again } => {
                            queue.hold(&key, now + pause, now);
                            queue.succeeded(key, later(now, again, pause));
                        }
                        Outcome::Failed { error, has_progressed } => {
                            let object = key.to_string();
                            let wait = queue.failed(key, has_progressed, now);
                            log(name, &object, &error, wait, is_quiet);
                        }
                    }
                }
                Some(named) = keys.next() => {
                    let at = Instant::now() + SETTLE;
                    for key in named {
                        queue.add(key, at);
                    }
                }
                () = tokio::time::sleep_until(due.unwrap_or(now)), if due.is_some() => {}
                // Nothing runs, nothing is to come, and nothing waits.
                else => return,
            }
        }
    }
}

/// One reconciliation. A panic is a failure of its key alone.
async fn attempt(reconciling: impl Future<Output = Outcome>) -> Outcome {
    let ended = AssertUnwindSafe(reconciling).catch_unwind().await;
    // The message of a panic is on standard error already.
    ended.unwrap_or_else(|_| Outcome::Failed { error: "it panicked".to_owned(), has_progressed: false })
}

/// When a key is due again. A wait without end is a wait for a change.
fn later(now: Instant, again: Option<Duration>, shortest: Duration) -> Option<Instant> {
    again.and_then(|wait| now.checked_add(wait.max(shortest)))
}

fn log(controller: &str, object: &str, error: &str, wait: Duration, is_quiet: bool) {
    if is_quiet {
        tracing::debug!(controller, object, error, ?wait, "a reconciliation failed and is tried again");
    } else {
        tracing::warn!(controller, object, error, ?wait, "a reconciliation failed and is tried again");
    }
}

#[cfg(test)]
mod tests;
