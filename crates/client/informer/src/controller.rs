//! The controller loop: what changes is queued, and reconciled until that succeeds.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt as _, Stream, StreamExt as _};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cache::Cache;
use crate::name::NamespacedName;
use crate::queue::Queue;
use crate::view::View;

/// Everything that happens to an object within this time is one reconciliation. Unlike a debounce, the wait is not prolonged by new events.
const SETTLE: Duration = Duration::from_millis(5);

/// Reconciles the objects of a cache: each one when it changes, when a trigger names it, and again after errors.
///
/// The newest known object is passed to the reconciler. An object that is gone is not reconciled.
#[must_use = "a controller does nothing until it runs"]
pub struct Controller<V> {
    cache: Cache<V>,
    names: SelectAll<BoxStream<'static, NamespacedName>>,
    concurrency: usize,
}

impl<V: View> Controller<V> {
    /// A controller of the objects of a cache.
    pub fn new(cache: &Cache<V>) -> Controller<V> {
        let exists = cache.changes().filter_map(async |change| change.new.map(|_| change.name));
        Controller { cache: cache.clone(), names: SelectAll::from_iter([exists.boxed()]), concurrency: usize::MAX }
    }

    /// Also reconciles the objects that this stream names.
    pub fn reconcile_on(mut self, triggers: impl Stream<Item = NamespacedName> + Send + 'static) -> Controller<V> {
        self.names.push(triggers.boxed());
        self
    }

    /// At most this many objects are reconciled at the same time; without it there is no limit.
    pub fn concurrency(mut self, limit: usize) -> Controller<V> {
        self.concurrency = limit.max(1);
        self
    }

    /// Runs for ever. Dropping the future also ends the reconciliations that are under way.
    ///
    /// `reconcile` returns after which time it is to be called again if nothing happens before. After an error or a panic it is called again
    /// with an exponential back-off for that object.
    pub async fn run<F, E>(self, reconcile: impl Fn(Arc<V>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<Option<Duration>, E>> + Send + 'static,
        E: std::error::Error + 'static,
    {
        let (cache, reconcile) = (self.cache, Arc::new(reconcile));
        let start = move |name: NamespacedName| {
            let (cache, reconcile) = (cache.clone(), Arc::clone(&reconcile));
            let attempt = async move {
                let Some(object) = cache.get(&name.namespace, &name.name) else { return (name, Outcome::Done(None)) };
                let outcome = match AssertUnwindSafe(reconcile(object)).catch_unwind().await {
                    Ok(Ok(again)) => Outcome::Done(again),
                    Ok(Err(error)) => Outcome::Failed(messages(&error)),
                    Err(_) => Outcome::Panicked,
                };
                (name, outcome)
            };
            attempt.boxed()
        };
        work(self.names, self.concurrency, Box::new(start), std::any::type_name::<V>()).await;
    }
}

enum Outcome {
    /// To be called again after this time.
    Done(Option<Duration>),
    /// What the error and its causes say.
    Failed(String),
    Panicked,
}

type Start = dyn Fn(NamespacedName) -> BoxFuture<'static, (NamespacedName, Outcome)> + Send + Sync;

/// The loop itself. It knows nothing of the kind, so that it is compiled once.
async fn work(
    mut names: SelectAll<BoxStream<'static, NamespacedName>>,
    concurrency: usize,
    start: Box<Start>,
    view: &'static str,
) {
    let mut queue = Queue::default();
    let mut running = JoinSet::new();
    loop {
        let now = Instant::now();
        while running.len() < concurrency
            && let Some(name) = queue.pop(now)
        {
            running.spawn(start(name));
        }
        let due = queue.next_due().filter(|_| running.len() < concurrency);
        tokio::select! {
            biased;
            Some(done) = running.join_next() => {
                // Panics are caught inside, and nobody else aborts the tasks.
                let Ok((name, outcome)) = done else { continue };
                finish(&mut queue, name, outcome, view);
            }
            Some(name) = names.next() => queue.add(name, Instant::now() + SETTLE),
            () = tokio::time::sleep_until(due.unwrap_or(now)), if due.is_some() => {}
            // No task, no event to come, and nothing that waits.
            else => return,
        }
    }
}

fn finish(queue: &mut Queue, name: NamespacedName, outcome: Outcome, view: &str) {
    let now = Instant::now();
    match outcome {
        // A wait without end is a wait for a change.
        Outcome::Done(again) => queue.succeeded(name, again.and_then(|wait| now.checked_add(wait.max(SETTLE)))),
        Outcome::Failed(error) => {
            let wait = queue.failed(name.clone(), now);
            tracing::debug!(view, object = %name, error, ?wait, "a reconciliation failed");
        }
        Outcome::Panicked => {
            let wait = queue.failed(name.clone(), now);
            // The message of the panic is on standard error already.
            tracing::error!(view, object = %name, ?wait, "a reconciliation panicked");
        }
    }
}

/// An error with its causes.
fn messages(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
