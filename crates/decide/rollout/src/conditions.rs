//! What the status of a set reports in words: `Progressing`, `Available` and `Blocked`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Condition: whether the latest revision reaches the pods that the strategy updates.
pub const PROGRESSING: &str = "Progressing";
/// Condition: whether no more pods are unavailable than `maxUnavailable` allows.
pub const AVAILABLE: &str = "Available";
/// Condition: whether something has to happen before the rollout can go on.
pub const BLOCKED: &str = "Blocked";

/// Reason of [`PROGRESSING`]: nothing is left to update.
pub const COMPLETE: &str = "Complete";
/// Reason of [`PROGRESSING`]: pods are being updated.
pub const UPDATING: &str = "Updating";
/// Reason of [`PROGRESSING`]: there was no progress within `progressDeadlineSeconds`.
pub const DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

/// One condition without its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) status: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The conditions of a set. A time changes only with its status, and conditions of other types stay.
pub(crate) fn write(
    before: &[Condition],
    reports: impl IntoIterator<Item = (&'static str, Report)>,
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = before.to_vec();
    for (condition_type, report) in reports {
        let found = conditions.iter().position(|condition| condition.type_ == condition_type);
        let since = found.and_then(|i| conditions.get(i)).filter(|condition| condition.status == report.status);
        let condition = Condition {
            last_transition_time: since.map_or(Time(now), |condition| condition.last_transition_time.clone()),
            message: report.message,
            observed_generation: generation,
            reason: report.reason.to_owned(),
            status: report.status.to_owned(),
            type_: condition_type.to_owned(),
        };
        match found.and_then(|i| conditions.get_mut(i)) {
            Some(old) => *old = condition,
            None => conditions.push(condition),
        }
    }
    conditions
}
