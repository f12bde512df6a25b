//! A watch that goes on after errors.

use std::fmt::Debug;

use futures::{Stream, StreamExt as _};
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde::de::DeserializeOwned;

use crate::contact::Contact;

/// The status code of a watch whose version is older than what the API server remembers. It happens to every quiet watch now and then.
const EXPIRED: u16 = 410;

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
                contact.failed(error.to_string());
            }
        }
        std::future::ready(event.ok())
    })
}
