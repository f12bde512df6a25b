//! Whether a watch reaches the API server.

use std::sync::{Arc, Mutex, PoisonError};

use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

/// A watch that fails, and is tried again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Since when.
    pub since: Instant,
    /// Since when the API server answers and refuses it. `None` while there is no answer, or the API server itself does not work: nobody knows
    /// then whether the watch would.
    pub refused: Option<Instant>,
    /// The last error.
    pub error: String,
}

/// How a watch fares. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Contact {
    failure: Arc<Mutex<Option<Failure>>>,
}

impl Contact {
    pub(crate) fn failed(&self, error: String, is_refused: bool) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, before) = (Instant::now(), failure.take());
        let refused = before.as_ref().and_then(|before| before.refused).unwrap_or(now);
        let since = before.map_or(now, |before| before.since);
        *failure = Some(Failure { since, refused: is_refused.then_some(refused), error });
    }

    pub(crate) fn succeeded(&self) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A client whose watches are known to work as soon as the API server has accepted them: nothing may change for hours afterwards.
    pub(crate) fn of(&self, client: &Client) -> Client {
        let (contact, inner) = (self.clone(), client.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (contact, inner) = (contact.clone(), inner.clone());
            async move {
                let mut parameters = request.uri().query().unwrap_or_default().split('&');
                let is_watch = parameters.any(|parameter| parameter == "watch=true");
                let response = inner.send(request).await?;
                if is_watch && response.status().is_success() {
                    contact.succeeded();
                }
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, client.default_namespace())
    }
}
