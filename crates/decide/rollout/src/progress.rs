//! Whether a rollout goes on: paused, failed, stuck or done.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pillion_api::names;
use pillion_api::sidecarset::{SidecarSet, SidecarSetStatus};

use crate::conditions;
use crate::tally::Tally;

/// A rollout pauses when the latest revision fails on at least this part of the pods that have it.
const FAILING_PERCENT: usize = 10;

/// What keeps running pods from being updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing.
    None,
    /// `updateStrategy.type` is `NotUpdate`.
    NotUpdate,
    /// `updateStrategy.paused` is true.
    Paused,
    /// The latest revision fails.
    PausedOnFailure,
}

impl Hold {
    pub(crate) fn of(set: &SidecarSet, has_failed: bool) -> Hold {
        let strategy = &set.spec.update_strategy;
        if !strategy.updates_running_pods() {
            Hold::NotUpdate
        } else if strategy.paused {
            Hold::Paused
        } else if has_failed {
            Hold::PausedOnFailure
        } else {
            Hold::None
        }
    }
}

/// Whether the rollout of the latest revision pauses itself, or has done so. A pause by the user neither starts nor ends that.
pub(crate) fn has_failed(set: &SidecarSet, latest: &str, tally: &Tally<'_>, remaining: usize) -> bool {
    let strategy = &set.spec.update_strategy;
    if set.annotation(names::RESUME) == Some(latest) || strategy.pause_on_failure == Some(false) {
        return false;
    }
    let failed_before = set.status.as_ref().and_then(|status| status.paused_revision.as_deref()) == Some(latest);
    let failing = tally.failing.count();
    let is_failing = failing > 0 && failing * 100 >= FAILING_PERCENT * tally.updated;
    let was_complete = set.status.as_ref().is_some_and(|before| is_complete(before, latest));
    let has_something_to_stop = remaining > 0 || tally.failing_in_place > 0 && !was_complete;
    let is_rolling = strategy.updates_running_pods() && !strategy.paused;
    failed_before || is_rolling && is_failing && has_something_to_stop
}

/// Whether the rollout of the latest revision was over. That a pod becomes unready a week later does not start it again.
fn is_complete(before: &SidecarSetStatus, latest: &str) -> bool {
    before.latest_revision.as_deref() == Some(latest)
        && before.condition(conditions::PROGRESSING).is_some_and(|it| it.reason == conditions::COMPLETE)
}

/// How long a rollout may take for one step.
pub(crate) fn deadline(set: &SidecarSet) -> SignedDuration {
    SignedDuration::from_secs(i64::from(set.spec.update_strategy.progress_deadline()))
}

/// How far a rollout is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress {
    /// Whether every pod that the strategy updates is updated and ready.
    pub(crate) is_complete: bool,
    /// Whether it has made no progress for too long.
    pub(crate) is_late: bool,
    /// When it last made progress.
    pub(crate) last: Option<Time>,
    /// When it will be late.
    pub(crate) late_at: Option<Timestamp>,
}

impl Progress {
    pub(crate) fn of(
        set: &SidecarSet,
        status: &SidecarSetStatus,
        hold: Hold,
        (remaining, unreachable): (usize, usize),
        now: Timestamp,
    ) -> Progress {
        let before = set.status.as_ref();
        let latest = status.latest_revision.as_deref().unwrap_or_default();
        let was_complete = before.is_some_and(|before| is_complete(before, latest));
        let is_complete =
            remaining + unreachable == 0 && (was_complete || Some(status.updated_pods) == status.updated_ready_pods);
        let is_waiting = remaining > 0 || Some(status.updated_pods) != status.updated_ready_pods;
        let last = before.and_then(|before| before.last_progress_time.clone());
        if is_complete || !is_waiting || hold != Hold::None {
            return Progress { is_complete, is_late: false, last, late_at: None };
        }
        let is_running = |before: &SidecarSetStatus| {
            let progressing = before.condition(conditions::PROGRESSING);
            progressing
                .is_some_and(|it| it.reason == conditions::UPDATING || it.reason == conditions::DEADLINE_EXCEEDED)
        };
        let has_moved = |before: &SidecarSetStatus| {
            before.latest_revision != status.latest_revision
                || before.updated_pods < status.updated_pods
                || before.updated_ready_pods < status.updated_ready_pods
        };
        let is_same = before.is_some_and(|before| is_running(before) && !has_moved(before));
        let since = last.filter(|_| is_same).map_or_else(|| whole_seconds(now), |last| last.0);
        let late_at = since.checked_add(deadline(set)).unwrap_or(Timestamp::MAX);
        let is_late = late_at <= now;
        Progress { is_complete, is_late, last: Some(Time(since)), late_at: (!is_late).then_some(late_at) }
    }
}

/// As the API server stores times.
pub(crate) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
