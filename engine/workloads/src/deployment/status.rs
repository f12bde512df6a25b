//! What a Deployment says of itself.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use super::rollout::{Bounds, wanted};
use super::set::Set;
use crate::kinds::Deployment;

const AVAILABLE: &str = "Available";
const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const NEW_REPLICA_SET_CREATED: &str = "NewReplicaSetCreated";
pub(super) const FOUND_NEW_REPLICA_SET: &str = "FoundNewReplicaSet";
pub(super) const REPLICA_SET_CREATE_ERROR: &str = "ReplicaSetCreateError";
const REPLICA_SET_UPDATED: &str = "ReplicaSetUpdated";
const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";
const DEPLOYMENT_PAUSED: &str = "DeploymentPaused";
const DEPLOYMENT_RESUMED: &str = "DeploymentResumed";

/// The deadline for progress, if there is one; the largest number means none.
pub(super) fn deadline(deployment: &Deployment) -> Option<i32> {
    deployment.spec.progress_deadline_seconds.filter(|seconds| *seconds != i32::MAX)
}

pub(super) fn progressing(status: &DeploymentStatus) -> Option<&DeploymentCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == PROGRESSING)
}

fn condition(type_: &str, status: &str, reason: &str, message: String, now: Timestamp) -> DeploymentCondition {
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: Some(Time(now)),
        last_update_time: Some(Time(now)),
    }
}

/// Sets a condition, last in the list; one of the same status and reason is left as it was.
fn set(status: &mut DeploymentStatus, mut condition: DeploymentCondition) {
    let conditions = status.conditions.get_or_insert_default();
    if let Some(current) = conditions.iter().find(|current| current.type_ == condition.type_)
        && current.status == condition.status
    {
        if current.reason == condition.reason {
            return;
        }
        condition.last_transition_time.clone_from(&current.last_transition_time);
    }
    conditions.retain(|current| current.type_ != condition.type_);
    conditions.push(condition);
}

fn remove(status: &mut DeploymentStatus, type_: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != type_);
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
}

/// Says that progress is being made, where somebody cares about it.
pub(super) fn progresses(
    deployment: &Deployment,
    status: &mut DeploymentStatus,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    if deadline(deployment).is_some() {
        set(status, condition(PROGRESSING, "True", reason, message, now));
    }
}

/// Says that the new ReplicaSet cannot be created.
pub(super) fn creation_failed(deployment: &mut Deployment, message: String, now: Timestamp) {
    if deadline(deployment).is_some() {
        set(&mut deployment.status, condition(PROGRESSING, "False", REPLICA_SET_CREATE_ERROR, message, now));
    }
}

/// The time of a pause does not count against the deadline, unless that was over before.
pub(super) fn paused(deployment: &Deployment, status: &mut DeploymentStatus, now: Timestamp) {
    let reason = progressing(status).and_then(|condition| condition.reason.as_deref());
    if deadline(deployment).is_none() || reason == Some(PROGRESS_DEADLINE_EXCEEDED) {
        return;
    }
    let said = reason == Some(DEPLOYMENT_PAUSED);
    if deployment.spec.paused && !said {
        set(status, condition(PROGRESSING, "Unknown", DEPLOYMENT_PAUSED, "Deployment is paused".to_owned(), now));
    } else if !deployment.spec.paused && said {
        set(status, condition(PROGRESSING, "Unknown", DEPLOYMENT_RESUMED, "Deployment is resumed".to_owned(), now));
    }
}

/// The numbers, and whether enough is available. `status` has the conditions so far.
pub(super) fn numbers(
    deployment: &Deployment,
    status: &DeploymentStatus,
    new: Option<&Set>,
    old: &[Set],
    now: Timestamp,
) -> DeploymentStatus {
    let sum = |of: fn(&Set) -> i32| old.iter().chain(new).map(of).sum::<i32>();
    let available = sum(Set::available);
    let some = |count: i32| Some(count).filter(|count| *count != 0);
    let mut numbers = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(sum(|set| set.status.replicas)),
        updated_replicas: some(new.map_or(0, |new| new.status.replicas)),
        ready_replicas: some(sum(|set| set.status.ready_replicas.unwrap_or(0))),
        available_replicas: some(available),
        unavailable_replicas: some((sum(|set| set.replicas) - available).max(0)),
        terminating_replicas: terminating(old.iter().chain(new)),
        collision_count: status.collision_count,
        conditions: status.conditions.clone(),
    };
    let enough = available >= wanted(deployment) - Bounds::of(deployment).unavailable;
    let availability = if enough {
        condition(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.".to_owned(), now)
    } else {
        let message = "Deployment does not have minimum availability.".to_owned();
        condition(AVAILABLE, "False", "MinimumReplicasUnavailable", message, now)
    };
    set(&mut numbers, availability);
    numbers
}

/// The sum, if all sets that anybody has looked at say it.
fn terminating<'a>(mut sets: impl Iterator<Item = &'a Set>) -> Option<i32> {
    sets.try_fold(0, |sum, set| match set.status.terminating_replicas {
        Some(count) => Some(sum + count),
        None if set.status.observed_generation.unwrap_or(0) == 0 => Some(sum),
        None => None,
    })
}

/// The status in a rollout: `numbers` with how it goes on. `before` is the status with the conditions so far.
pub(super) fn rollout(
    deployment: &Deployment,
    before: &DeploymentStatus,
    mut status: DeploymentStatus,
    new: Option<&Set>,
    old: &[Set],
    now: Timestamp,
) -> DeploymentStatus {
    if deadline(deployment).is_none() {
        remove(&mut status, PROGRESSING);
    }
    let current = progressing(before);
    let was_complete = status.replicas == status.updated_replicas
        && current.is_some_and(|current| current.reason.as_deref() == Some(NEW_REPLICA_SET_AVAILABLE));
    if deadline(deployment).is_some() && !was_complete {
        let who = match new {
            Some(new) => format!("ReplicaSet \"{}\"", new.name),
            None => format!("Deployment \"{}\"", deployment.name_any()),
        };
        if is_complete(deployment, &status) {
            let message = format!("{who} has successfully progressed.");
            set(&mut status, condition(PROGRESSING, "True", NEW_REPLICA_SET_AVAILABLE, message, now));
        } else if has_progressed(&deployment.status, &status) {
            let message = format!("{who} is progressing.");
            let mut progress = condition(PROGRESSING, "True", REPLICA_SET_UPDATED, message, now);
            // Each step counts anew for the deadline, so this condition is written even where it says the same.
            if let Some(current) = current.filter(|current| current.status == "True") {
                progress.last_transition_time.clone_from(&current.last_transition_time);
            }
            remove(&mut status, PROGRESSING);
            set(&mut status, progress);
        } else if has_timed_out(deployment, &status, now) {
            let message = format!("{who} has timed out progressing.");
            set(&mut status, condition(PROGRESSING, "False", PROGRESS_DEADLINE_EXCEEDED, message, now));
        }
    }
    match new.and_then(Set::failure).or_else(|| old.iter().find_map(Set::failure)) {
        None => remove(&mut status, REPLICA_FAILURE),
        Some(failure) => {
            let failure = DeploymentCondition {
                type_: failure.type_.clone(),
                status: failure.status.clone(),
                reason: failure.reason.clone(),
                message: failure.message.clone(),
                last_transition_time: failure.last_transition_time.clone(),
                last_update_time: failure.last_transition_time.clone(),
            };
            set(&mut status, failure);
        }
    }
    status
}

/// Whether all that is wanted is of the newest template and available, and nothing else runs.
pub(super) fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = wanted(deployment);
    let is_wanted = |count: Option<i32>| count.unwrap_or(0) == wanted;
    is_wanted(status.updated_replicas)
        && is_wanted(status.replicas)
        && is_wanted(status.available_replicas)
        && status.observed_generation >= deployment.metadata.generation
}

fn has_progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let outdated = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    new.updated_replicas.unwrap_or(0) > old.updated_replicas.unwrap_or(0)
        || outdated(new) < outdated(old)
        || new.ready_replicas.unwrap_or(0) > old.ready_replicas.unwrap_or(0)
        || new.available_replicas.unwrap_or(0) > old.available_replicas.unwrap_or(0)
}

fn has_timed_out(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> bool {
    let Some(condition) = progressing(status) else { return false };
    match condition.reason.as_deref() {
        Some(NEW_REPLICA_SET_AVAILABLE) => false,
        Some(PROGRESS_DEADLINE_EXCEEDED) => true,
        _ => times_out(deployment, condition).is_some_and(|time| time < now),
    }
}

fn times_out(deployment: &Deployment, condition: &DeploymentCondition) -> Option<Timestamp> {
    let since = condition.last_update_time.as_ref()?.0;
    since.checked_add(SignedDuration::from_secs(deadline(deployment)?.into())).ok()
}

/// When a rollout that does not move has to be looked at again, to say that it has timed out.
pub(super) fn check_again(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> Option<Duration> {
    let condition = progressing(status)?;
    if is_complete(deployment, status) || condition.reason.as_deref() == Some(PROGRESS_DEADLINE_EXCEEDED) {
        return None;
    }
    let left = times_out(deployment, condition)?.duration_since(now).max(SignedDuration::ZERO);
    // A second more, since times in a status have whole seconds.
    Duration::try_from(left).ok().map(|left| left + Duration::from_secs(1))
}
