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
    /// `None` before anything was asked for.
    line: Sender<Option<Line>>,
}

/// Whether a watch is open.
#[derive(Clone, Copy)]
enum Line {
    /// It is not; all objects may have been listed in the meantime.
    Down { since: Instant, is_listed: bool },
    /// It is, and what happened before is known from this moment on.
    Up { settled: Instant },
}

/// How long it takes until a watch that goes on where another one ended has reported what happened in between, or that it has expired: API servers accept it before.
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
        self.line.send_if_modified(|line| {
            let is_news = !matches!(line, Some(Line::Down { .. }));
            if is_news {
                *line = Some(Line::Down { since: Instant::now(), is_listed: false });
            }
            is_news
        });
    }

    fn listed(&self) {
        self.line.send_if_modified(|line| {
            if let Some(Line::Down { is_listed, .. }) = line {
                *is_listed = true;
            }
            // Nobody waits for this.
            false
        });
    }

    fn opened(&self) {
        self.succeeded();
        let now = Instant::now();
        self.line.send_modify(|line| {
            let is_listed = matches!(line, Some(Line::Down { is_listed: true, .. }));
            *line = Some(Line::Up { settled: if is_listed { now } else { now + SETTLING } });
        });
    }

    /// Returns when a watch is open and what happened before is known; or after `longest`, counted from when it was interrupted.
    pub(crate) async fn uninterrupted(&self, longest: Duration) {
        let line = *self.line.borrow();
        let deadline = match line {
            None => return,
            Some(Line::Up { settled }) if settled <= Instant::now() => return,
            Some(Line::Up { settled }) => settled + longest,
            Some(Line::Down { since, .. }) => since + longest,
        };
        // Too late or not: the caller goes on.
        let _ = timeout_at(deadline, self.settled()).await;
    }

    async fn settled(&self) {
        let mut lines = self.line.subscribe();
        loop {
            let line = *lines.borrow_and_update();
            match line {
                None => return,
                Some(Line::Up { settled }) => {
                    if timeout_at(settled, lines.changed()).await.is_err() {
                        return;
                    }
                }
                // The sender is in `self`: there is no error.
                Some(Line::Down { .. }) => drop(lines.changed().await),
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
                // Whatever is asked for, it is because no watch is open.
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
