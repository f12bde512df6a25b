//! Whether a watch reaches the API server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use kube::Client;
use kube::client::Body;
use tokio::sync::watch::Sender;
use tokio::time::{Instant, timeout_at};

/// A watch that fails, and is tried again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
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
    /// `None` before the first request.
    connection: Sender<Option<Connection>>,
}

/// Whether a watch is open.
#[derive(Clone, Copy)]
enum Connection {
    /// It is not; all objects may have been listed since.
    Interrupted { since: Instant, is_listed: bool },
    /// It is. From `settled` on, what happened before is known.
    Open { settled: Instant },
}

/// An API server accepts a watch that resumes an earlier one before it reports what happened in between, or that the watch has expired.
/// It does so within this time.
const SETTLING: Duration = Duration::from_millis(50);

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

    /// The watch has ended, or is not open yet.
    pub(crate) fn interrupted(&self) {
        self.connection.send_if_modified(|connection| {
            let is_news = !matches!(connection, Some(Connection::Interrupted { .. }));
            if is_news {
                *connection = Some(Connection::Interrupted { since: Instant::now(), is_listed: false });
            }
            is_news
        });
    }

    fn listed(&self) {
        self.connection.send_if_modified(|connection| {
            if let Some(Connection::Interrupted { is_listed, .. }) = connection {
                *is_listed = true;
            }
            // Nobody waits for a list.
            false
        });
    }

    fn opened(&self) {
        self.succeeded();
        let now = Instant::now();
        self.connection.send_modify(|connection| {
            let is_listed = matches!(connection, Some(Connection::Interrupted { is_listed: true, .. }));
            *connection = Some(Connection::Open { settled: if is_listed { now } else { now + SETTLING } });
        });
    }

    /// Returns when a watch is open and what happened before is known; or after `longest`, counted from when it was interrupted.
    pub(crate) async fn uninterrupted(&self, longest: Duration) {
        let connection = *self.connection.borrow();
        let deadline = match connection {
            None => return,
            Some(Connection::Open { settled }) if settled <= Instant::now() => return,
            Some(Connection::Open { settled }) => settled + longest,
            Some(Connection::Interrupted { since, .. }) => since + longest,
        };
        // Too late or not: the caller goes on.
        let _ = timeout_at(deadline, self.settled()).await;
    }

    async fn settled(&self) {
        let mut connections = self.connection.subscribe();
        loop {
            let connection = *connections.borrow_and_update();
            match connection {
                None => return,
                Some(Connection::Open { settled }) => {
                    if timeout_at(settled, connections.changed()).await.is_err() {
                        return;
                    }
                }
                // The sender is in `self`: there is no error.
                Some(Connection::Interrupted { .. }) => drop(connections.changed().await),
            }
        }
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
                // The cache sends a request only while it has no open watch.
                contact.interrupted();
                let response = inner.send(request).await?;
                match (response.status().is_success(), is_watch) {
                    (true, true) => contact.opened(),
                    (true, false) => contact.listed(),
                    (false, _) => {}
                }
                Ok::<_, kube::Error>(response)
            }
        });
        Client::new(service, client.default_namespace())
    }
}
