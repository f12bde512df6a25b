//! Whether the work of a pod is done: every container that is not a sidecar has ended for good.

use jiff::Timestamp;

use crate::facts::State;
use crate::restart;
use crate::role::Role;
use crate::view::{Latest, Subject};

/// When the work of a pod with marked sidecars was done: the end of the last container that does it. `None` while one of them runs, has yet to
/// run, or will run again by the pod's restart policy, its own, or a rule about its exit code; and in a pod without marks.
pub(crate) fn done_at(subject: &Subject<'_>) -> Option<Timestamp> {
    subject.of(&[Role::MarkedSidecar]).next()?;
    let mut last = None;
    for view in subject.of(&[Role::Work]) {
        let Latest::Exited(attempt, code) = view.latest() else { return None };
        if restart::follows(view, subject, attempt, code) {
            return None;
        }
        if let State::Exited { at, .. } = attempt.state {
            // An end of which nobody knows the time was before now.
            last = last.max(at);
        }
    }
    Some(last.unwrap_or_else(|| subject.now()))
}
