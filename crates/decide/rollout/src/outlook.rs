//! Says how a rollout is doing, and what it waits for.

use std::fmt::Write as _;

use crate::conditions::{COMPLETE, DEADLINE_EXCEEDED, Report, UPDATING};
use crate::pod_names::{counted, is_or_are};
use crate::progress::{Hold, Progress};
use crate::tally::Tally;

/// What is known of a rollout after a pass.
pub(crate) struct Outlook<'a, 'p> {
    pub(crate) tally: &'a Tally<'p>,
    pub(crate) progress: &'a Progress,
    pub(crate) hold: Hold,
    /// The latest revision.
    pub(crate) latest: &'a str,
    /// How many pods are left to update.
    pub(crate) remaining: usize,
    /// How many pods have to be recreated to be updated.
    pub(crate) unreachable: usize,
    /// How many pods the partition keeps.
    pub(crate) kept: usize,
    pub(crate) max_unavailable: usize,
    /// Whether pods are left that may not be updated because too many are unavailable.
    pub(crate) is_over_budget: bool,
    /// Why pods cannot be updated in place.
    pub(crate) why_not_upgradable: String,
}

impl Outlook<'_, '_> {
    pub(crate) fn progressing(&self) -> Report {
        let (status, reason) = match self.hold {
            Hold::PausedOnFailure => ("False", "PausedOnFailure"),
            Hold::Paused => ("Unknown", "Paused"),
            _ if self.progress.is_complete => ("True", COMPLETE),
            Hold::NotUpdate => ("Unknown", "NotUpdate"),
            Hold::None if self.progress.is_late => ("False", DEADLINE_EXCEEDED),
            Hold::None if self.remaining == 0 && self.unreachable > 0 => ("False", "NotUpgradable"),
            Hold::None => ("True", UPDATING),
        };
        let Tally { updated, matched, busy, .. } = self.tally;
        let has = if *matched == 1 { "has" } else { "have" };
        let mut message = format!("{updated} of {} {has} revision {}", counted(*matched), self.latest);
        if self.remaining > 0 && self.hold != Hold::NotUpdate {
            let _ = write!(message, ", {} left to update", self.remaining);
        }
        if self.kept > 0 {
            let _ = write!(message, ", the partition keeps {}", self.kept);
        }
        if !busy.is_empty() && self.hold != Hold::PausedOnFailure && !self.progress.is_complete {
            let _ = write!(message, "; waiting for {} to become ready: {busy}", busy.counted());
        }
        Report { status, reason, message }
    }

    pub(crate) fn available(&self) -> Report {
        let unavailable = &self.tally.unavailable;
        if unavailable.count() <= self.max_unavailable {
            let Tally { ready, matched, .. } = self.tally;
            let are = if *matched == 1 { "is" } else { "are" };
            let message = format!("{ready} of {} {are} ready", counted(*matched));
            return Report { status: "True", reason: "EnoughPodsReady", message };
        }
        let message = format!(
            "{} not ready, maxUnavailable is {}: {unavailable}",
            is_or_are(unavailable.count()),
            self.max_unavailable
        );
        Report { status: "False", reason: "TooManyPodsUnavailable", message }
    }

    pub(crate) fn blocked(&self) -> Report {
        let mut reasons = Vec::new();
        let Tally { failing, busy, not_upgradable, refused, unreadable, stuck, .. } = self.tally;
        match self.hold {
            Hold::PausedOnFailure => reasons.push(("PausedOnFailure", self.paused_on_failure())),
            Hold::Paused if self.remaining > 0 => {
                reasons.push((
                    "Paused",
                    format!("updateStrategy.paused is true, {} left to update", counted(self.remaining)),
                ));
            }
            _ => {}
        }
        let is_rolling = self.hold == Hold::None;
        if is_rolling && self.is_over_budget {
            let limit = self.max_unavailable;
            if limit == 0 {
                reasons.push(("MaxUnavailable", "maxUnavailable is 0: no ready pod may be updated".to_owned()));
            } else if *stuck >= limit || self.progress.is_late {
                let message = format!("maxUnavailable is {limit}, and {} not ready: {busy}", is_or_are(busy.count()));
                reasons.push(("MaxUnavailable", message));
            }
        }
        if is_rolling && self.remaining == 0 && !failing.is_empty() && !self.progress.is_complete {
            reasons.push(("UpdatedPodsFailing", format!("{} {}", fails_on(self.latest, failing.count()), failing)));
        }
        if is_rolling && !refused.is_empty() {
            let message = format!("the API server refuses to update {}: {refused}", refused.counted());
            reasons.push(("UpdateRefused", message));
        }
        if is_rolling && !unreadable.is_empty() {
            let message = format!(
                "{} left alone, because its record cannot be read: {unreadable}. Remove the annotation, or recreate the pod",
                is_or_are(unreadable.count())
            );
            reasons.push(("UnreadableRecord", message));
        }
        if is_rolling && self.unreachable > 0 {
            let message = format!(
                "{} must be recreated to get revision {}, which changes {}: {not_upgradable}",
                not_upgradable.counted(),
                self.latest,
                self.why_not_upgradable
            );
            reasons.push(("NotUpgradable", message));
        }
        let Some((reason, _)) = reasons.first() else {
            return Report { status: "False", reason: "NotBlocked", message: String::new() };
        };
        let messages: Vec<&str> = reasons.iter().map(|(_, message)| message.as_str()).collect();
        Report { status: "True", reason, message: messages.join(". ") }
    }

    fn paused_on_failure(&self) -> String {
        let (latest, failing) = (self.latest, &self.tally.failing);
        let what = if failing.is_empty() {
            format!("revision {latest} failed earlier")
        } else {
            format!("{} {failing}", fails_on(latest, failing.count()))
        };
        format!("{what}. Set the annotation {}: {latest} to go on, or change the set", pillion_api::names::RESUME)
    }
}

fn fails_on(revision: &str, pods: usize) -> String {
    format!("revision {revision} fails on {}:", counted(pods))
}
