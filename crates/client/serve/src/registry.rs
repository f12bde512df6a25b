//! All connections of a server, and which of them is closed to make room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::activity::{Activity, Phase};

/// The connections of a server.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    number: u64,
    open: HashMap<u64, Arc<Activity>>,
}

/// A place among the connections. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    registry: Arc<Registry>,
    number: u64,
    pub(crate) activity: Arc<Activity>,
}

impl Registry {
    /// Takes a place for a new connection. If `limit` are taken, the connection that does the least makes room for it; `None` if all of them
    /// answer requests.
    pub(crate) fn enter(self: &Arc<Self>, limit: usize) -> Option<Place> {
        let activity = Arc::new(Activity::new());
        let mut connections = self.lock();
        if connections.open.len() >= limit {
            connections.close_one()?;
        }
        connections.number += 1;
        let number = connections.number;
        connections.open.insert(number, Arc::clone(&activity));
        Some(Place { registry: Arc::clone(self), number, activity })
    }

    /// Closes the connection that does the least, if one can be closed.
    pub(crate) fn close_one(&self) -> bool {
        self.lock().close_one().is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().open.len()
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections {
    fn close_one(&mut self) -> Option<()> {
        let phases = self.open.iter().map(|(number, activity)| (activity.phase(), *number));
        let ((phase, _), number) = phases.min()?;
        if phase == Phase::Answering {
            return None;
        }
        self.open.remove(&number)?.close();
        Some(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::Exchange;

    fn serve(place: &Place) {
        Exchange::begin(&place.activity).received();
    }

    fn is_open(registry: &Registry, place: &Place) -> bool {
        registry.lock().open.contains_key(&place.number)
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_does_the_least_makes_room() {
        let registry = Arc::new(Registry::default());
        let [idle, new, newer, answering] = std::array::from_fn(|_| registry.enter(4).unwrap());
        serve(&idle);
        let exchange = Exchange::begin(&answering.activity);
        exchange.received();

        let fifth = registry.enter(4).unwrap();
        assert!(!is_open(&registry, &new), "it was the first that had sent nothing");
        new.activity.closed().await;
        let _sixth = registry.enter(4).unwrap();
        assert!(!is_open(&registry, &newer));
        serve(&fifth);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        serve(&fifth);
        let _seventh = registry.enter(3).unwrap();
        assert!(is_open(&registry, &answering) && is_open(&registry, &fifth));
        assert_eq!(registry.len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn what_answers_is_never_closed() {
        let registry = Arc::new(Registry::default());
        let place = registry.enter(1).unwrap();
        let exchange = Exchange::begin(&place.activity);
        exchange.received();
        assert!(registry.enter(1).is_none());
        drop(exchange);
        assert!(registry.enter(1).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_free_when_its_connection_ends() {
        let registry = Arc::new(Registry::default());
        drop(registry.enter(1).unwrap());
        assert_eq!(registry.len(), 0);
    }
}
