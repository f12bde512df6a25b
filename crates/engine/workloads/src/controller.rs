//! One controller: kube's `Controller` over a cache, with rests between reconciliations and longer ones after errors.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::ResourceExt as _;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{reflector, watcher};

use crate::cache::{Cache, Cached};

/// What happens to an object within this time is one reconciliation. Unlike a debounce, it ends also when events do not.
const REST: Duration = Duration::from_millis(5);

/// The first and the longest wait after errors, as client-go's rate limiter has them.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LONGEST_RETRY: Duration = Duration::from_secs(1000);

/// Why a reconciliation did not come to its end; it is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The API server refused.
    #[error("the API server refused")]
    Api(#[from] kube::Error),
    /// An object cannot be understood; it was written by something that does not check.
    #[error("{0}")]
    Object(String),
}

impl Error {
    /// The words of the API server, where they are the reason.
    pub(crate) fn message(&self) -> String {
        match self {
            Error::Api(kube::Error::Api(status)) => status.message.clone(),
            Error::Api(error) => error.to_string(),
            Error::Object(message) => message.clone(),
        }
    }

    /// Whether the object is gone.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Error::Api(kube::Error::Api(status)) if status.is_not_found())
    }
}

/// Reconciles every object of the cache when it changes, and those of `triggers`, until dropped.
///
/// `reconcile` gets the newest known object and answers when it wants to be called again, if nothing happens before.
pub(crate) async fn run<K, F>(
    cache: &Cache<K>,
    triggers: impl Stream<Item = ObjectRef<K>> + Send + 'static,
    reconcile: impl Fn(Arc<K>) -> F + Send + Sync + 'static,
) where
    K: Cached,
    F: Future<Output = Result<Option<Duration>, Error>> + Send + 'static,
{
    let retries: Arc<Retries> = Arc::default();
    let (newest, forget, reconcile) = (cache.clone(), Arc::clone(&retries), Arc::new(reconcile));
    let rested = move |object: Arc<K>, _| {
        let (newest, forget, reconcile) = (newest.clone(), Arc::clone(&forget), Arc::clone(&reconcile));
        async move {
            tokio::time::sleep(REST).await;
            let again = match newest.get(&object.namespace().unwrap_or_default(), &object.name_any()) {
                Some(newest) => reconcile(newest).await?,
                None => None,
            };
            forget.succeeded(&object.uid().unwrap_or_default());
            Ok(again.map_or_else(Action::await_change, Action::requeue))
        }
    };
    let retry = move |object: Arc<K>, error: &Error, _| {
        let wait = retries.failed(&object.uid().unwrap_or_default());
        let kind = K::kind(&());
        tracing::debug!(%kind, object = object.name_any(), error = error.message(), ?wait, "a reconciliation failed");
        Action::requeue(wait)
    };
    mirror(cache).reconcile_on(triggers).run(rested, retry, Arc::new(())).for_each(async |_| ()).await;
}

/// kube's `Controller` wants a reflector of its own: this one mirrors the cache instead of watching a second time.
fn mirror<K: Cached>(cache: &Cache<K>) -> Controller<K> {
    let (reader, mut writer) = reflector::store();
    writer.apply_watcher_event(&watcher::Event::Init);
    writer.apply_watcher_event(&watcher::Event::InitDone);
    let objects = cache.changes().filter_map(move |change| {
        let applied = match (change.old, change.new) {
            (_, Some(new)) => {
                writer.apply_watcher_event(&watcher::Event::Apply(K::clone(&new)));
                Some(new)
            }
            (Some(old), None) => {
                writer.apply_watcher_event(&watcher::Event::Delete(K::clone(&old)));
                None
            }
            (None, None) => None,
        };
        std::future::ready(applied)
    });
    Controller::for_shared_stream(objects, reader)
}

/// How often each object failed in a row.
#[derive(Default)]
struct Retries(Mutex<HashMap<String, u32>>);

impl Retries {
    fn failed(&self, uid: &str) -> Duration {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = failures.entry(uid.to_owned()).or_default();
        let wait = FIRST_RETRY.saturating_mul(1 << (*failures).min(20)).min(LONGEST_RETRY);
        *failures += 1;
        wait
    }

    fn succeeded(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_with_each_failure_until_one_succeeds() {
        let retries = Retries::default();
        let waits: Vec<u128> = (0..4).map(|_| retries.failed("a").as_millis()).collect();
        assert_eq!(waits, [5, 10, 20, 40]);
        assert_eq!(retries.failed("b").as_millis(), 5);
        for _ in 0..60 {
            retries.failed("a");
        }
        assert_eq!(retries.failed("a"), LONGEST_RETRY);
        retries.succeeded("a");
        assert_eq!(retries.failed("a").as_millis(), 5);
    }
}
