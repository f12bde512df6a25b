//! The bounded log of one resource, which all its watches share.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Event, Options};

/// The log does not reach back to that version any more; kube-apiserver answers 410 Gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {requested} ({oldest})")]
pub struct Expired {
    /// The version that was asked for.
    pub requested: u64,
    /// The oldest version that can be asked for.
    pub oldest: u64,
}

/// The newest events of one resource.
pub(crate) struct Log {
    events: VecDeque<Arc<Event>>,
    /// How many events were dropped: the position of the first one that is left.
    dropped: u64,
    /// Every event after this version is here.
    oldest: u64,
    size: usize,
    options: Options,
}

/// What is at a position of the log.
pub(crate) enum Entry<'a> {
    Event(&'a Arc<Event>),
    /// Nothing yet.
    End,
    /// Nothing any more.
    Dropped,
}

impl Log {
    /// A log of everything after that version.
    pub(crate) fn new(oldest: u64, options: Options) -> Log {
        Log { events: VecDeque::new(), dropped: 0, oldest, size: 0, options }
    }

    /// Adds an event and drops the oldest beyond the bounds, but never the one just added.
    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.size += event.size();
        self.events.push_back(event);
        while self.events.len() > 1
            && (self.events.len() > self.options.history || self.size > self.options.history_bytes)
            && let Some(event) = self.events.pop_front()
        {
            self.size -= event.size();
            self.dropped += 1;
            self.oldest = event.resource_version();
        }
    }

    /// The position of the first event after a version, which may be one to come.
    pub(crate) fn position_after(&self, version: u64) -> Result<u64, Expired> {
        self.check(version)?;
        Ok(self.dropped + self.events.partition_point(|event| event.resource_version() <= version) as u64)
    }

    pub(crate) fn at(&self, position: u64) -> Entry<'_> {
        let Some(index) = position.checked_sub(self.dropped) else { return Entry::Dropped };
        match usize::try_from(index).ok().and_then(|index| self.events.get(index)) {
            Some(event) => Entry::Event(event),
            None => Entry::End,
        }
    }

    /// The events after a version, the newest first.
    pub(crate) fn back_to(&self, version: u64) -> Result<impl Iterator<Item = &Event>, Expired> {
        self.check(version)?;
        Ok(self.events.iter().rev().map(Arc::as_ref).take_while(move |event| event.resource_version() > version))
    }

    fn check(&self, version: u64) -> Result<(), Expired> {
        if version < self.oldest { Err(Expired { requested: version, oldest: self.oldest }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventKind, Key, Stored};

    fn log(options: Options, sizes: &[usize]) -> Log {
        let mut log = Log::new(1, options);
        for (version, size) in (2..).zip(sizes) {
            let object = Stored { bytes: vec![b' '; *size].into(), resource_version: version };
            let key = Key::new("pods", "default", "web");
            log.push(Arc::new(Event { kind: EventKind::Added, key, object, previous: None }));
        }
        log
    }

    #[test]
    fn the_log_keeps_to_its_bounds_and_always_holds_the_newest_event() {
        for (history, history_bytes, sizes, left, oldest) in [
            (10, 1000, &[1, 1, 1][..], 3, 1),
            (2, 1000, &[1, 1, 1], 2, 2),
            (10, 100, &[40, 40, 40], 2, 2),
            (10, 100, &[40, 40, 101], 1, 3),
            (0, 0, &[40, 40], 1, 2),
        ] {
            let log = log(Options { history, history_bytes }, sizes);
            assert_eq!((log.events.len(), log.oldest), (left, oldest), "{history} {history_bytes} {sizes:?}");
            assert_eq!(log.size, sizes[sizes.len() - left..].iter().sum::<usize>());
        }
    }

    #[test]
    fn a_version_is_served_as_long_as_all_events_after_it_are_there() {
        let log = log(Options { history: 2, ..Options::default() }, &[1, 1, 1, 1]);
        let expired = log.position_after(2).unwrap_err();
        assert_eq!(expired.to_string(), "too old resource version: 2 (3)");
        assert!(log.back_to(2).is_err());
        assert_eq!([3, 4, 5, 99].map(|version| log.position_after(version).unwrap()), [2, 3, 4, 4]);
        let versions: Vec<u64> = log.back_to(3).unwrap().map(Event::resource_version).collect();
        assert_eq!(versions, [5, 4]);
    }
}
