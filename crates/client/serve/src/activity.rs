//! What a connection is doing, and therefore how long it may go on and when it is closed to make room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::bounds::Bounds;

/// How much a connection does, least first. This is the order in which connections are closed to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// It has not sent a whole request yet.
    New,
    /// It is sending the body of a request.
    Receiving,
    /// It waits for its client's next request.
    Idle,
    /// It answers a request.
    Answering,
}

/// The activity of one connection.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
    /// Wakes the connection when it is to be closed.
    closed: Notify,
}

#[derive(Debug)]
struct State {
    /// Requests whose body is not complete.
    receiving: usize,
    /// Requests that are complete and whose answer is not.
    answering: usize,
    /// Whether any request has been answered.
    has_served: bool,
    /// When the phase changed last.
    since: Instant,
}

impl Activity {
    pub(crate) fn new() -> Activity {
        let state = State { receiving: 0, answering: 0, has_served: false, since: Instant::now() };
        Activity { state: Mutex::new(state), closed: Notify::new() }
    }

    /// What the connection is doing, and since when.
    pub(crate) fn phase(&self) -> (Phase, Instant) {
        let state = self.lock();
        let phase = match &*state {
            State { answering: 1.., .. } => Phase::Answering,
            State { has_served: false, .. } => Phase::New,
            State { receiving: 1.., .. } => Phase::Receiving,
            _ => Phase::Idle,
        };
        (phase, state.since)
    }

    /// When the connection is overdue if nothing happens.
    pub(crate) fn deadline(&self, bounds: &Bounds) -> Option<Instant> {
        let (phase, since) = self.phase();
        match phase {
            Phase::New | Phase::Receiving => Some(since + bounds.request),
            Phase::Idle => Some(since + bounds.idle),
            Phase::Answering => None,
        }
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        self.closed.notify_one();
    }

    /// Returns when the connection is to be closed.
    pub(crate) async fn closed(&self) {
        self.closed.notified().await;
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.since = Instant::now();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request and its answer. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Exchange {
    activity: Arc<Activity>,
    is_received: std::sync::atomic::AtomicBool,
}

impl Exchange {
    /// The head of a request has arrived.
    pub(crate) fn begin(activity: &Arc<Activity>) -> Arc<Exchange> {
        activity.change(|state| state.receiving += 1);
        Arc::new(Exchange { activity: Arc::clone(activity), is_received: false.into() })
    }

    /// The whole body has arrived, or the handler has dropped it.
    pub(crate) fn received(&self) {
        if !self.is_received.swap(true, std::sync::atomic::Ordering::Relaxed) {
            self.activity.change(|state| {
                state.receiving -= 1;
                state.answering += 1;
            });
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let is_received = *self.is_received.get_mut();
        self.activity.change(|state| {
            if is_received {
                state.answering -= 1;
                state.has_served = true;
            } else {
                state.receiving -= 1;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_until_its_deadline_and_none_while_it_answers() {
        let (activity, bounds) = (Arc::new(Activity::new()), Bounds::default());
        let start = Instant::now();
        assert_eq!(activity.deadline(&bounds), Some(start + bounds.request));

        tokio::time::advance(Duration::from_secs(1)).await;
        let exchange = Exchange::begin(&activity);
        assert_eq!(activity.phase().0, Phase::New, "a head alone is not a request");
        exchange.received();
        assert_eq!((activity.phase().0, activity.deadline(&bounds)), (Phase::Answering, None));

        drop(exchange);
        assert_eq!(activity.phase(), (Phase::Idle, start + Duration::from_secs(1)));
        assert_eq!(activity.deadline(&bounds), Some(start + Duration::from_secs(1) + bounds.idle));

        let unfinished = Exchange::begin(&activity);
        assert_eq!(activity.phase().0, Phase::Receiving);
        drop(unfinished);
        assert_eq!(activity.phase().0, Phase::Idle);
    }
}
