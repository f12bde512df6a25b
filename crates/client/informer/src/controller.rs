//! The controller of a kind: what changes in a cache is reconciled.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _};
use tokio::task::JoinSet;

use crate::cache::Cache;
use crate::name::NamespacedName;
use crate::reconciler::{Outcome, Reconciler};
use crate::view::View;

/// Reconciles the objects of a cache: each one when it changes, when a trigger names it, and again after errors.
///
/// The newest known object is passed to the reconciler. An object that is gone is not reconciled.
#[must_use = "a controller does nothing until it runs"]
pub struct Controller<V> {
    cache: Cache<V>,
    reconciler: Reconciler<'static, NamespacedName>,
}

impl<V: View> Controller<V> {
    /// A controller of the objects of a cache.
    pub fn new(cache: &Cache<V>) -> Controller<V> {
        let exists = cache.changes().filter_map(async |change| change.new.map(|_| change.name));
        let reconciler = Reconciler::new(std::any::type_name::<V>()).quiet().on(exists);
        Controller { cache: cache.clone(), reconciler }
    }

    /// Also reconciles the objects that this stream names.
    pub fn reconcile_on(mut self, triggers: impl Stream<Item = NamespacedName> + Send + 'static) -> Controller<V> {
        self.reconciler = self.reconciler.on(triggers);
        self
    }

    /// At most this many objects are reconciled at the same time; without it there is no limit.
    pub fn concurrency(mut self, limit: usize) -> Controller<V> {
        self.reconciler = self.reconciler.concurrency(limit);
        self
    }

    /// Runs for ever. Dropping the future also ends the reconciliations that are under way.
    ///
    /// `reconcile` returns after which time it is to be called again if nothing happens before. After an error or a panic it is called again
    /// with an exponential back-off for that object.
    pub async fn run<F, E>(self, reconcile: impl Fn(Arc<V>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Result<Option<Duration>, E>> + Send + 'static,
        E: Error + 'static,
    {
        let (cache, reconcile) = (self.cache, Arc::new(reconcile));
        // Boxed, so that the loop is compiled once for all kinds.
        let start: Box<Start> = Box::new(move |name| {
            let Some(object) = cache.get(&name.namespace, &name.name) else {
                return std::future::ready(Outcome::Done(None)).boxed();
            };
            let reconcile = Arc::clone(&reconcile);
            let reconciling =
                async move { reconcile(object).await.map_or_else(|error| Outcome::failed(&error), Outcome::Done) };
            // A task of its own, so that all processors are used; it ends with the set that holds it.
            let mut task = JoinSet::new();
            task.spawn(reconciling);
            async move {
                match task.join_next().await {
                    Some(Ok(outcome)) => outcome,
                    Some(Err(error)) => Outcome::failed(&error),
                    None => Outcome::Done(None),
                }
            }
            .boxed()
        });
        self.reconciler.run(start).await;
    }
}

type Start = dyn Fn(NamespacedName) -> BoxFuture<'static, Outcome> + Send + Sync;

#[cfg(test)]
mod tests;
