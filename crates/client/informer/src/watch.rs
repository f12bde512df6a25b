//! A watch that goes on after errors.

use std::fmt::Debug;

use futures::{Stream, StreamExt as _};
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::de::DeserializeOwned;

use crate::contact::Contact;

/// The status code of a watch whose version is older than what the API server remembers. It happens to every quiet watch now and then.
const EXPIRED: u16 = 410;
/// The status code of an API server that has too much to do.
const BUSY: u16 = 429;

/// Lists and watches for ever. Errors are logged, and the watch is restarted with an exponential back-off.
///
/// The label and field selectors are in `config`, the namespace in `api`.
pub fn watch<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = watcher::Event<K>> + Send + use<K>
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
) -> impl Stream<Item = watcher::Event<K>> + Send + use<K>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let resource = api.resource_url().to_owned();
    watcher(api, config).default_backoff().filter_map(move |event| {
        match &event {
            // Nothing has been asked for yet.
            Ok(watcher::Event::Init) => {}
            Ok(_) => contact.succeeded(),
            Err(watcher::Error::WatchError(status)) if status.code == EXPIRED => {
                tracing::debug!(resource, "the watch has expired and is restarted");
            }
            Err(error) => {
                tracing::warn!(resource, %error, "the watch was interrupted and is restarted");
                contact.failed(error.to_string(), is_refused(error));
            }
        }
        std::future::ready(event.ok())
    })
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
    use kube::core::Status;

    use super::*;

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
