//! How marked sidecars end (KEP-0008): stopped together when the work is done, and without harm to the pod's phase.

use jiff::Timestamp;

use crate::facts::{Attempt, State, Why};
use crate::role::Role;
use crate::view::{Latest, View};

/// The reason that is reported of a sidecar that was stopped because the work was done, whatever its exit code is.
pub(crate) const COMPLETED: &str = "Completed";

/// Whether an attempt was stopped because the work was done.
pub(crate) fn was_stopped_after_work(view: &View<'_>, attempt: &Attempt, work_done_at: Option<Timestamp>) -> bool {
    let stopped = |done: Timestamp| {
        let stopping = attempt.stopping.as_ref();
        stopping.is_some_and(|stopping| stopping.why == Why::Pod && done <= stopping.since)
    };
    view.role == Role::MarkedSidecar && work_done_at.is_some_and(stopped)
}

/// Whether a marked sidecar ended with an error before the work was done, and did not run again: that fails the pod.
pub(crate) fn failed_early(view: &View<'_>, work_done_at: Timestamp) -> bool {
    let Latest::Exited(attempt, code) = view.latest() else { return false };
    let State::Exited { at, reason, .. } = &attempt.state else { return false };
    // Of a sidecar that was stopped before the node was restarted only the reason tells.
    code != 0 && reason != COMPLETED && at.is_none_or(|at| at < work_done_at)
}
