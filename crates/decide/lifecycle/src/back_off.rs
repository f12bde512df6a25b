//! When a container that is to be started may be: at once, or after a back-off that grows with every restart.

use jiff::Timestamp;

use crate::facts::{Attempt, BackOff, State, Why};
use crate::view::{View, after};

/// The first wait, in seconds; every next one is twice as long.
const INITIAL: i64 = 10;
/// No wait is longer. A container that has run twice as long starts from [`INITIAL`] again.
const MAXIMUM: i64 = 300;

/// Whether a container may be started.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Gate {
    /// Now, and the next time by this.
    Open(Option<BackOff>),
    /// Not before `until`.
    Shut { until: Timestamp, seconds: i64 },
}

pub(crate) fn gate(view: &View<'_>, now: Timestamp) -> Gate {
    let back_off = view.facts.and_then(|facts| facts.back_off.as_ref());
    let Some(attempt) = view.current() else { return Gate::Open(None) };
    match &attempt.state {
        // What was wrong with another image holds nothing up.
        State::Refused { .. } if attempt.image != view.image => Gate::Open(back_off.cloned()),
        State::Refused { reason, at, .. } => {
            let seconds = if is_pull_failure(reason) { doubled(attempt.tries) } else { INITIAL };
            open_from(after(*at, seconds), seconds, now, || back_off.cloned())
        }
        State::Exited { at, .. } => {
            let known = back_off.filter(|back_off| back_off.of == (view.image.to_owned(), view.resources()));
            let next = |ended| next(view, known, ended, now);
            let ended = at.unwrap_or(Timestamp::UNIX_EPOCH);
            // A container that the node stopped itself is restarted in the same breath: what counts is the exit before.
            if was_stopped_alone(attempt) {
                match view.previous().map(ended_at) {
                    None => return Gate::Open(back_off.cloned()),
                    Some(before) if wait(known, before).is_none_or(|seconds| after(before, seconds) <= ended) => {
                        return Gate::Open(Some(next(before)));
                    }
                    Some(_) => {}
                }
            }
            match wait(known, ended) {
                None => Gate::Open(Some(next(ended))),
                Some(seconds) => open_from(after(ended, seconds), seconds, now, || Some(next(ended))),
            }
        }
        State::Starting | State::Running { .. } => Gate::Open(back_off.cloned()),
    }
}

/// Whether the image could not be pulled, which is tried again ever more slowly.
pub(crate) fn is_pull_failure(reason: &str) -> bool {
    matches!(reason, "ErrImagePull" | "RegistryUnavailable" | "SignatureValidationFailed")
}

/// Seconds as Go prints a duration: `10s`, `1m20s`, `5m0s`.
pub(crate) fn go_duration(seconds: i64) -> String {
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{}s", seconds / 60, seconds % 60) }
}

fn open_from(until: Timestamp, seconds: i64, now: Timestamp, next: impl FnOnce() -> Option<BackOff>) -> Gate {
    if now < until { Gate::Shut { until, seconds } } else { Gate::Open(next()) }
}

fn was_stopped_alone(attempt: &Attempt) -> bool {
    attempt
        .stopping
        .as_ref()
        .is_some_and(|stopping| matches!(stopping.why, Why::Probe(_) | Why::DefinitionChanged | Why::Resize))
}

fn ended_at(attempt: &Attempt) -> Timestamp {
    match attempt.state {
        State::Exited { at: Some(at), .. } => at,
        _ => Timestamp::UNIX_EPOCH,
    }
}

/// The seconds to wait after an exit at `ended`.
fn wait(known: Option<&BackOff>, ended: Timestamp) -> Option<i64> {
    known.filter(|back_off| !is_over(back_off, ended)).map(|back_off| back_off.seconds)
}

fn next(view: &View<'_>, known: Option<&BackOff>, ended: Timestamp, now: Timestamp) -> BackOff {
    let seconds = wait(known, ended).map_or(INITIAL, |seconds| seconds.saturating_mul(2).min(MAXIMUM));
    BackOff { seconds, since: now, of: (view.image.to_owned(), view.resources()) }
}

fn is_over(back_off: &BackOff, ended: Timestamp) -> bool {
    ended > after(back_off.since, 2 * MAXIMUM)
}

fn doubled(tries: u32) -> i64 {
    INITIAL.saturating_mul(1_i64 << tries.saturating_sub(1).min(32)).min(MAXIMUM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_printed_as_go_does() {
        let printed = [10, 20, 40, 80, 160, 300].map(go_duration);
        assert_eq!(printed, ["10s", "20s", "40s", "1m20s", "2m40s", "5m0s"]);
    }

    #[test]
    fn pulls_are_tried_again_ever_more_slowly() {
        assert_eq!([1, 2, 3, 4, 5, 6, 7, u32::MAX].map(doubled), [10, 20, 40, 80, 160, 300, 300, 300]);
    }
}
