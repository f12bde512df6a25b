//! A cursor in the log of a resource.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use crate::log::Entry;
use crate::state::{Newest, Resource};
use crate::{Event, Expired};

/// Yields the events of a resource in order. It holds a place in the log that all watches share, and nothing else.
pub struct Watch {
    resource: watch::Receiver<Resource>,
    newest: Newest,
    namespace: Option<Arc<str>>,
    /// Of the next event, in the log.
    position: u64,
    /// The version up to which everything was yielded.
    seen: u64,
    expired: bool,
}

impl Watch {
    pub(crate) fn new(
        resource: watch::Receiver<Resource>,
        newest: Newest,
        namespace: Option<&str>,
        after: u64,
    ) -> Result<Watch, Expired> {
        let position = resource.borrow().log.position_after(after)?;
        Ok(Watch { resource, newest, namespace: namespace.map(Arc::from), position, seen: after, expired: false })
    }

    /// The next event, when it comes. [`Expired`] once, and then nothing, when this watch is so slow that the log has
    /// moved past it. `None` when the store is gone.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<Arc<Event>, Expired>> {
        loop {
            // A long backlog must not keep the other tasks of this thread waiting.
            tokio::task::coop::consume_budget().await;
            if self.expired {
                return None;
            }
            if let Some(next) = self.try_next() {
                return Some(next);
            }
            self.resource.changed().await.ok()?;
        }
    }

    /// The newest version of the store such that everything up to it was yielded: what a bookmark may say.
    pub fn resource_version(&self) -> u64 {
        let resource = self.resource.borrow();
        match resource.log.at(self.position) {
            // Read while the resource is held still, so that none of its events can be between.
            Entry::End => self.seen.max(self.newest.get()),
            Entry::Event(_) | Entry::Dropped => self.seen,
        }
    }

    fn try_next(&mut self) -> Option<Result<Arc<Event>, Expired>> {
        let resource = self.resource.borrow_and_update();
        loop {
            match resource.log.at(self.position) {
                Entry::End => return None,
                // No harm if this watch began at a version to come, and only events before that are gone.
                Entry::Dropped => match resource.log.position_after(self.seen) {
                    Ok(position) => self.position = position,
                    Err(expired) => {
                        self.expired = true;
                        return Some(Err(expired));
                    }
                },
                Entry::Event(event) => {
                    self.position += 1;
                    // A watch may begin at a version that is still to come.
                    if event.resource_version() <= self.seen {
                        continue;
                    }
                    self.seen = event.resource_version();
                    if self.namespace.as_ref().is_none_or(|namespace| *namespace == event.key.namespace) {
                        return Some(Ok(event.clone()));
                    }
                }
            }
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, seen) = (&self.namespace, &self.seen);
        f.debug_struct("Watch").field("namespace", namespace).field("seen", seen).finish_non_exhaustive()
    }
}
