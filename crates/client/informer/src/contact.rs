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
    /// The last error.
    pub error: String,
}

/// How a watch fares. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Contact {
    failure: Arc<Mutex<Option<Failure>>>,
}

impl Contact {
    pub(crate) fn failed(&self, error: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let since = failure.as_ref().map_or_else(Instant::now, |failure| failure.since);
        *failure = Some(Failure { since, error });
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
