//! Which log is meant, and which part of it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pillion_lifecycle::{ContainerFacts, State};
use serde::Deserialize;

use crate::runtime::LogOptions;

/// `PodLogOptions`, as a query.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Query {
    follow: bool,
    pub(crate) previous: bool,
    tail_lines: Option<u64>,
    since_seconds: Option<u64>,
    since_time: Option<Timestamp>,
    timestamps: bool,
    limit_bytes: Option<u64>,
}

impl Query {
    pub(crate) fn options(&self, now: Timestamp) -> LogOptions {
        let ago = self.since_seconds.map(Duration::from_secs);
        let since = ago.and_then(|ago| now.checked_sub(SignedDuration::try_from(ago).ok()?).ok());
        LogOptions {
            follow: self.follow,
            tail_lines: self.tail_lines,
            since: self.since_time.or(since),
            timestamps: self.timestamps,
            limit_bytes: self.limit_bytes,
        }
    }
}

/// The attempt whose log is meant, or why there is none; `waiting` is the reason in the status of one that was not started yet.
pub(crate) fn attempt(
    facts: Option<&ContainerFacts>,
    container: &str,
    pod: &str,
    previous: bool,
    waiting: &str,
) -> Result<u32, String> {
    let current = facts.and_then(|facts| facts.current.as_ref());
    let before = facts.and_then(|facts| facts.previous.as_ref());
    // A container that waits for its next start has ended: that was the last state.
    let waits = current.filter(|one| one.held.is_some() && matches!(one.state, State::Exited { .. }));
    if previous {
        let none = || format!("previous terminated container \"{container}\" in pod \"{pod}\" not found");
        return waits.or(before).map(|attempt| attempt.number).ok_or_else(none);
    }
    match current.map(|one| (one.number, &one.state)) {
        Some((number, State::Running { .. } | State::Exited { .. })) => Ok(number),
        Some((_, State::Refused { reason, .. })) if before.is_none() => {
            Err(format!("container \"{container}\" in pod \"{pod}\" is waiting to start: {reason}"))
        }
        _ => match before {
            Some(before) => Ok(before.number),
            None => Err(format!("container \"{container}\" in pod \"{pod}\" is waiting to start: {waiting}")),
        },
    }
}
