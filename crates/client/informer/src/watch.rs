//! A watch that goes on after errors.

use std::fmt::Debug;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::Api;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::contact::Contact;

/// The status code of a watch whose version is older than what the API server remembers. It happens to every quiet watch now and then,
/// and to every watch of custom resources when their definition changes.
const EXPIRED: u16 = 410;
/// The status code of an API server that has too much to do.
const BUSY: u16 = 429;
/// After a watch has expired, its objects are listed again at once. If it expires again within this time, there is a back-off as after any other error.
const RELIST_INTERVAL: Duration = Duration::from_secs(10);

/// Lists and watches for ever. Errors are logged, and the watch is restarted with an exponential back-off; after it has expired, at once.
///
/// The label and field selectors are in `config`, the namespace in `api`.
pub fn watch<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = Event<K>> + Send + use<K>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    watch_with(api, config, Contact::default())
}

/// The same; how the watch fares is in `contact`.
pub(crate) fn watch_with<K>(
    api: Api<K>,
    config: watcher::Config,
    contact: Contact,
) -> impl Stream<Item = Event<K>> + Send + use<K>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let resource = api.resource_url().to_owned();
    restarted(watcher(api, config), resource, contact)
}

/// Waits after errors, logs them, and passes on everything else.
fn restarted<K: Send>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
    resource: String,
    contact: Contact,
) -> impl Stream<Item = Event<K>> + Send {
    let mut expired: Option<Instant> = None;
    let events = events.filter(move |event| {
        let is_passed_on = match event {
            // Nothing has been asked for yet.
            Ok(Event::Init) => true,
            Ok(_) => {
                contact.succeeded();
                true
            }
            Err(watcher::Error::WatchError(status)) if status.code == EXPIRED => {
                tracing::debug!(resource, "the watch has expired and is restarted");
                contact.interrupted();
                // Until the next list, a cache misses what is created: there is no time to lose.
                let now = Instant::now();
                let before = expired.replace(now);
                before.is_some_and(|before| now.duration_since(before) < RELIST_INTERVAL)
            }
            Err(error) => {
                tracing::warn!(resource, %error, "the watch was interrupted and is restarted");
                contact.interrupted();
                contact.failed(error.to_string(), is_refused(error));
                true
            }
        };
        std::future::ready(is_passed_on)
    });
    events.default_backoff().filter_map(|event| std::future::ready(event.ok()))
}

/// Whether the API server has answered, and the answer is about the watch. One that is down or has too much to do says nothing about it.
fn is_refused(error: &watcher::Error) -> bool {
    let is_meant = |code: u16| (400..500).contains(&code) && code != BUSY;
    match error {
        watcher::Error::WatchError(status) => is_meant(status.code),
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => is_meant(status.code),
            // Objects that cannot be read.
            kube::Error::SerdeError(_) => true,
            _ => false,
        },
        watcher::Error::NoResourceVersion => true,
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use kube::core::Status;

    use super::*;

    /// After how long a watch goes on that meets these errors.
    async fn goes_on_after(errors: Vec<watcher::Error>) -> Duration {
        let errors = errors.into_iter().map(Err);
        let events = stream::iter([Ok(Event::<()>::Init)])
            .chain(stream::iter(errors))
            .chain(stream::iter([Ok(Event::InitDone)]));
        let start = Instant::now();
        assert_eq!(restarted(events, "/things".to_owned(), Contact::default()).count().await, 2);
        start.elapsed()
    }

    fn event(code: u16) -> watcher::Error {
        watcher::Error::WatchError(Status::failure("no", "No").with_code(code).boxed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_watch_is_listed_again_at_once_but_not_again_and_again() {
        assert_eq!(goes_on_after(vec![event(EXPIRED)]).await, Duration::ZERO);
        assert!(goes_on_after(vec![event(EXPIRED), event(EXPIRED)]).await >= Duration::from_millis(500));
        assert!(goes_on_after(vec![event(500)]).await >= Duration::from_millis(500));
    }

    #[test]
    fn an_api_server_that_cannot_answer_has_refused_nothing() {
        let answer = |code: u16| kube::Error::Api(Status::failure("no", "No").with_code(code).boxed());
        for (code, expected) in [(401, true), (403, true), (404, true), (429, false), (500, false), (503, false)] {
            assert_eq!(is_refused(&watcher::Error::WatchStartFailed(answer(code))), expected, "{code}");
            assert_eq!(is_refused(&watcher::Error::InitialListFailed(answer(code))), expected, "{code}");
            let event = Status::failure("no", "No").with_code(code).boxed();
            assert_eq!(is_refused(&watcher::Error::WatchError(event)), expected, "{code}");
        }
        let unreachable = kube::Error::Service("connection refused".into());
        assert!(!is_refused(&watcher::Error::WatchStartFailed(unreachable)));
        let unreadable = serde_json::from_str::<u8>("x").unwrap_err();
        assert!(is_refused(&watcher::Error::InitialListFailed(kube::Error::SerdeError(unreadable))));
    }
}
