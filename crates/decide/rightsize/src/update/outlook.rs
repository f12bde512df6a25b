//! What a pass would do with each pod, for those who only look.

use jiff::Timestamp;
use pillion_api::vpa::Gates;

use super::pass::{Action, Pass, Snapshot};
use super::reason::SkipReason;
use super::settings::UpdaterSettings;

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Outlook {
    /// It is updated in the next pass, as far as the rate limit allows.
    Next(Action),
    /// It is left alone.
    Left(SkipReason),
}

/// What the next pass does with the pods of a snapshot, by their places. Pods of an autoscaler that updates none are left out.
pub fn outlook(
    snapshot: Snapshot<'_>,
    settings: &UpdaterSettings,
    gates: Gates,
    now: Timestamp,
) -> Vec<(usize, Outlook)> {
    let mut pass = Pass::new(snapshot, settings, gates, now);
    let mut found: Vec<(usize, Outlook)> = Vec::new();
    while let Some(step) = pass.next_step() {
        found.push((step.pod, Outlook::Next(step.action)));
    }
    found.extend(pass.skipped().iter().map(|(pod, reason)| (*pod, Outlook::Left(reason.clone()))));
    found.sort_by_key(|(pod, _)| *pod);
    found
}
