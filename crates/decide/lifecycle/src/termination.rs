//! How containers are stopped: `preStop` hook, turn, stop signal, kill; and how long each may take.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;

use crate::action::Action;
use crate::facts::{Attempt, Hook, State, Stopping, Unhealthy, Why};
use crate::role::Role;
use crate::view::{Subject, View, after, seconds_between};

/// Every process has so many seconds after the stop signal, whatever is left of the grace period.
pub(crate) const MINIMUM: i64 = 2;

/// The grace period of a pod that is ended from outside: the shortest that anyone asks for, and at least a second.
pub(crate) fn pod_grace(subject: &Subject<'_>) -> i64 {
    let deletion = subject.snapshot.pod.metadata.deletion_grace_period_seconds;
    let order = subject.snapshot.stop.and_then(|stop| stop.grace_period_seconds);
    let asked = deletion.into_iter().chain(order).min();
    let own = || subject.spec().and_then(|spec| spec.termination_grace_period_seconds);
    asked.or_else(own).unwrap_or_default().max(1)
}

/// The grace period of a container that is stopped while its pod goes on, or of one that its pod has no more use for.
pub(crate) fn container_grace(subject: &Subject<'_>, container: Option<&Container>, why: &Why) -> i64 {
    if let Some(seconds) = subject.snapshot.pod.metadata.deletion_grace_period_seconds {
        return seconds;
    }
    let Some(own) = subject.spec().and_then(|spec| spec.termination_grace_period_seconds) else { return MINIMUM };
    let probe = match why {
        Why::Probe(Unhealthy::Liveness) => container.and_then(|container| container.liveness_probe.as_ref()),
        Why::Probe(Unhealthy::Startup) => container.and_then(|container| container.startup_probe.as_ref()),
        _ => None,
    };
    probe.and_then(|probe| probe.termination_grace_period_seconds).unwrap_or(own)
}

pub(crate) fn begin(why: Why, grace_period_seconds: i64, now: Timestamp) -> Stopping {
    Stopping {
        since: now,
        why,
        grace_period_seconds,
        pre_stop: Hook::NotBegun,
        term_at: None,
        kill_at: None,
        killed: false,
    }
}

/// What comes next for a container that is being stopped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Do(Action),
    Wait(Timestamp),
    /// Only the end of the process is waited for.
    Nothing,
}

pub(crate) fn step(subject: &Subject<'_>, view: &View<'_>, attempt: &Attempt, stopping: &Stopping) -> Step {
    let now = subject.now();
    if matches!(attempt.state, State::Starting) || stopping.killed {
        return Step::Nothing;
    }
    let container = || view.name.to_owned();
    if let Some(kill_at) = stopping.kill_at {
        let kill = || Step::Do(Action::Kill { container: container() });
        return if now < kill_at { Step::Wait(kill_at) } else { kill() };
    }
    let mut from = stopping.since;
    let mut left = stopping.grace_period_seconds;
    if view.has_pre_stop() && left > 0 {
        let until = after(from, left);
        let ended = match stopping.pre_stop {
            Hook::NotBegun => return Step::Do(Action::PreStop { container: container(), until }),
            Hook::Running if now < until => return Step::Wait(until),
            Hook::Running => until,
            Hook::Done { at } | Hook::Failed { at, .. } => at.min(until),
        };
        left -= seconds_between(from, ended);
        from = ended;
    }
    if stopping.why == Why::Pod && left > 0 {
        let until = after(from, left);
        if now < until && awaits_others(subject, view) {
            return Step::Wait(until);
        }
        left -= seconds_between(from, now);
    }
    Step::Do(Action::Terminate { container: container(), kill_at: after(now, left.max(MINIMUM)) })
}

/// Sidecars end after all regular containers, and one after the other, the last one first.
fn awaits_others(subject: &Subject<'_>, view: &View<'_>) -> bool {
    let mut later = subject.of(&[Role::NativeSidecar]).skip_while(|sidecar| sidecar.name != view.name).skip(1);
    view.role == Role::NativeSidecar
        && (subject.regular().any(|regular| regular.alive().is_some())
            || later.next().is_some_and(|next| next.alive().is_some()))
}
