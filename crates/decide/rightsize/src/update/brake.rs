//! Stops evictions that do harm, or change nothing: evicted pods come back unchanged, or do not come back.
//!
//! The first pod of a group that is evicted is a canary. The others of its group wait until its successor is Ready, and then go on without
//! waiting as long as the same is recommended for them.
//!
//! A successor that does not become Ready is evicted again when something else is recommended for it. Its successor is the next canary.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::{Condition, ConditionType, VerticalPodAutoscaler};

use super::group::Replicas;
use super::stop::StopCause;
use crate::pod::{Amounts, Owner, PodContainer, PodView};
use crate::target::ContainerTarget;

/// After this time one more eviction is tried.
const RELEASE: SignedDuration = SignedDuration::from_hours(1);

/// A successor that is not there and Ready by then stops evictions.
const COMES_BACK: SignedDuration = SignedDuration::from_mins(10);

/// Requests and limits of containers.
type Resources = Vec<(String, Amounts, Amounts)>;

/// What containers should request.
type Requests = Vec<(String, Amounts)>;

/// The brake of one autoscaler, for the pods of one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Brake {
    canaries: BTreeMap<Owner, Canary>,
    stopped: Option<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stop {
    cause: StopCause,
    since: Timestamp,
}

/// The last canary of a group.
#[derive(Clone, Debug, PartialEq)]
struct Canary {
    evicted: Timestamp,
    /// What the evicted pod had.
    before: Resources,
    /// What its successor should request.
    wanted: Requests,
    /// The pods of the group at that time, by UID.
    known: BTreeSet<String>,
    /// Whether the evicted pod was Ready, or the one that it was to replace. The successor of one that was not has only to run.
    was_ready: bool,
    /// Whether evictions were stopped because the evicted pod, itself a successor, was not Ready. They stay stopped until a successor is.
    holds_stop: bool,
    successor: Successor,
}

/// How far the successor of the pod is that was evicted last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Successor {
    /// No pod of the group has come back with what is wanted yet.
    Unproven,
    /// Another pod has.
    Awaited,
    /// It has itself.
    Back,
}

impl Canary {
    fn is_back(&self) -> bool {
        self.successor == Successor::Back
    }

    /// Whether some pod has come back with what is wanted.
    fn is_proven(&self) -> bool {
        self.successor >= Successor::Awaited
    }

    fn is_satisfied_by(&self, successor: &PodView) -> bool {
        if self.was_ready {
            successor.ready_since.is_some()
        } else {
            !successor.is_pending && successor.start_time.is_some()
        }
    }
}

impl Brake {
    /// The brake of an autoscaler that this program has not looked at yet: another one may have stopped evictions, as a condition says.
    pub fn of(autoscaler: &VerticalPodAutoscaler) -> Brake {
        let stopped =
            autoscaler.status.conditions.iter().find(|it| is_stop(it) && it.status == "True").and_then(|condition| {
                let cause = StopCause::ALL.into_iter().find(|cause| cause.reason() == condition.reason)?;
                Some(Stop { cause, since: condition.last_transition_time.as_ref()?.0 })
            });
        Brake { canaries: BTreeMap::new(), stopped }
    }

    /// A pod was evicted, so that its successor gets `targets`. `pods` are the pods of the autoscaler, those without a node among them.
    pub fn evicted(&mut self, pod: &PodView, targets: &[ContainerTarget], pods: &[PodView], now: Timestamp) {
        let Some(owner) = &pod.owner else { return };
        let wanted = wanted(targets);
        let last = self.canaries.get(owner);
        let is_retry = self.may_retry(pod, targets);
        if last.is_some_and(|canary| !canary.is_back()) && !is_retry {
            return;
        }
        let is_proven = last.is_some_and(|canary| canary.is_proven() && canary.wanted == wanted);
        let of_group = pods.iter().filter(|other| other.owner.as_ref() == Some(owner));
        let known = of_group.chain([pod]).map(|pod| pod.uid.clone()).collect();
        // A container that crashes again and again runs as well. The group has lost a Ready pod, and gets one back before the next one goes.
        let was_ready = pod.ready_since.is_some() || (is_retry && last.is_some_and(|canary| canary.was_ready));
        let holds_stop = is_retry && self.cause() == Some(StopCause::NotReady);
        let (evicted, before) = (now, resources(pod));
        let successor = if is_proven { Successor::Awaited } else { Successor::Unproven };
        let canary = Canary { evicted, before, wanted, known, was_ready, holds_stop, successor };
        self.canaries.insert(owner.clone(), canary);
    }

    /// Why evictions were stopped when the pods were last looked at.
    pub fn cause(&self) -> Option<StopCause> {
        self.stopped.map(|stop| stop.cause)
    }

    /// The controllers whose evicted pods are not back yet.
    pub fn awaited(&self) -> impl Iterator<Item = &Owner> {
        self.canaries.iter().filter(|(_, canary)| !canary.is_back()).map(|(owner, _)| owner)
    }

    /// Whether a pod of the group may be evicted without waiting for a canary.
    pub(super) fn is_proven(&self, owner: &Owner, targets: &[ContainerTarget]) -> bool {
        self.canaries.get(owner).is_some_and(|canary| canary.is_proven() && canary.wanted == wanted(targets))
    }

    /// Whether the successor of a canary of the group is awaited.
    pub(super) fn is_awaited(&self, owner: &Owner) -> bool {
        self.canaries.get(owner).is_some_and(|canary| canary.successor == Successor::Unproven)
    }

    /// Whether a pod is the successor of a canary, is not Ready, and would be replaced by one that requests something else than it should.
    /// It serves no requests, so that its eviction puts no further pod at risk, and it may need the new amounts to become Ready at all.
    pub(super) fn may_retry(&self, pod: &PodView, targets: &[ContainerTarget]) -> bool {
        let canary = pod.owner.as_ref().and_then(|owner| self.canaries.get(owner));
        canary.is_some_and(|canary| {
            !canary.is_back()
                && pod.ready_since.is_none()
                && !canary.known.contains(&pod.uid)
                && canary.wanted != wanted(targets)
        })
    }

    /// Looks at the pods of the autoscaler, those without a node among them.
    pub fn look(&mut self, pods: &[PodView], replicas: &Replicas, now: Timestamp) {
        let mut late = None;
        self.canaries.retain(|owner, canary| {
            let of_group = || pods.iter().filter(|pod| pod.owner.as_ref() == Some(owner));
            if canary.is_back() {
                // Forgotten with its pods.
                return of_group().next().is_some();
            }
            let is_late = now.duration_since(canary.evicted) >= COMES_BACK;
            let successors: Vec<&PodView> = of_group().filter(|pod| !canary.known.contains(&pod.uid)).collect();
            if successors.iter().any(|pod| resources(pod) == canary.before) {
                self.stopped = Some(Stop { cause: StopCause::Unchanged, since: now });
                return false;
            }
            if successors.iter().any(|pod| canary.is_satisfied_by(pod)) {
                canary.successor = Successor::Back;
                return true;
            }
            if canary.holds_stop && !is_late {
                late = late.or(Some(StopCause::NotReady));
            }
            if !successors.is_empty() {
                late = late.or(is_late.then_some(StopCause::NotReady));
                return true;
            }
            // Nothing is missing: the controller was scaled down, or deleted. Of a controller that does not say how many pods it wants, such
            // as a Job, nothing is known.
            let count = i64::try_from(of_group().count()).unwrap_or(i64::MAX);
            match replicas.get(owner) {
                Some(wanted) if count < *wanted => {
                    late = late.or(is_late.then_some(StopCause::NoSuccessor));
                    true
                }
                // The pod that is being deleted may still count for its controller.
                _ => !is_late,
            }
        });
        self.stopped = match (self.stopped, late) {
            (Some(stop), _) if stop.cause == StopCause::Unchanged && now.duration_since(stop.since) < RELEASE => {
                Some(stop)
            }
            (Some(stop), Some(cause)) if stop.cause != StopCause::Unchanged => Some(Stop { cause, ..stop }),
            (_, Some(cause)) => Some(Stop { cause, since: now }),
            // Stopped before a restart: the canary is not known any more.
            (Some(stop), None) if stop.cause != StopCause::Unchanged && self.canaries.is_empty() => {
                Some(stop).filter(|stop| now.duration_since(stop.since) < RELEASE)
            }
            _ => None,
        };
    }
}

/// What the conditions of an autoscaler should be: `None` if they already say whether evictions are stopped. Their order does not matter.
pub fn stop_conditions(before: &[Condition], cause: Option<StopCause>, now: Timestamp) -> Option<Vec<Condition>> {
    let message = cause.map(|cause| cause.to_string()).unwrap_or_default();
    let words = (cause.map_or("", StopCause::reason), message.as_str());
    let after = crate::conditions::hold(before, ConditionType::EvictionsStopped, cause.is_some(), words, now);
    let entry = |conditions: &[Condition]| conditions.iter().find(|it| is_stop(it)).cloned();
    (entry(&after) != entry(before)).then_some(after)
}

/// Why evictions for an autoscaler are stopped, as its conditions say.
pub fn stopped(autoscaler: &VerticalPodAutoscaler) -> Option<StopCause> {
    Brake::of(autoscaler).cause()
}

fn is_stop(condition: &Condition) -> bool {
    condition.condition_type == ConditionType::EvictionsStopped
}

fn wanted(targets: &[ContainerTarget]) -> Requests {
    targets.iter().map(|target| (target.container.clone(), target.requests)).collect()
}

fn resources(pod: &PodView) -> Resources {
    let of = |container: &PodContainer| (container.name.clone(), container.requests, container.limits);
    pod.containers.iter().map(of).collect()
}

#[cfg(test)]
mod tests;
