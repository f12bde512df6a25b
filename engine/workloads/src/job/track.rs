//! Counts the pods of a Job exactly once: first they are named in the status, then their finalizers go, then the counters move.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus, UncountedTerminatedPods};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::plan::{AT_ONCE, Action, Counts, Plan, Snapshot, condition, number};
use super::planned_event::PlannedEvent;
use super::policy::{self, Failure};
use super::tracked::{has_failed, index, is_tracked, name, uid, valid_index};
use crate::job_view::JobView;
use crate::pod::PodView;

/// How much of the action was done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    /// Pods that were made, or asked to go.
    pub(super) pods: i32,
    /// Those of them that were ready.
    pub(super) ready: i32,
}

/// What is written to the status before finalizers are removed, and what follows.
pub(super) struct Tracking {
    pub(super) status: JobStatus,
    /// The pods, by uid and name, whose finalizers go when the status is written.
    pub(super) release: Vec<(String, String)>,
    pub(super) events: Vec<PlannedEvent>,
    tracked: HashSet<String>,
    finished: Option<JobCondition>,
    terminating: i32,
    more: bool,
}

/// What the status says once the plan's action is done.
pub(super) fn track(snapshot: &Snapshot<'_>, plan: &Plan<'_>, done: Done) -> Tracking {
    let (job, now) = (snapshot.job, snapshot.now);
    let counts = counts_after(plan, done);
    let mut status = job.status.clone();
    status.start_time.clone_from(&plan.start_time);
    let mut events = Vec::new();
    let finished = match &plan.finished {
        // Pods that could not be asked to go may still succeed.
        Some(_) if done.pods != plan.counts.active => None,
        Some(finished) => Some(finished.clone()),
        None if is_complete(job, &counts) => {
            let message = "Reached expected number of succeeded pods";
            Some(condition("SuccessCriteriaMet", "CompletionsReached", message, now))
        }
        None => {
            if plan.action != Action::Leave {
                events.extend(suspend_or_resume(job, &mut status, now));
            }
            None
        }
    };
    status.active = some(counts.active);
    status.ready = Some(counts.ready);
    status.terminating = Some(counts.terminating);
    let mut tracking = Tracking {
        status,
        release: Vec::new(),
        events,
        tracked: snapshot.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| uid(pod).to_owned()).collect(),
        finished,
        terminating: counts.terminating,
        more: false,
    };
    move_counters(&mut tracking.status, &tracking.tracked);
    name_uncounted(snapshot, plan, &mut tracking);
    if job.is_indexed() {
        tracking.status.succeeded = some(plan.succeeded_indexes.total());
        let text = plan.succeeded_indexes.to_string();
        tracking.status.completed_indexes = (!text.is_empty()).then_some(text);
        tracking.status.failed_indexes = plan.failed_indexes.as_ref().map(ToString::to_string);
    }
    announce_end(&mut tracking, now);
    tracking
}

/// Zero is what is not said.
fn some(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

fn counts_after(plan: &Plan<'_>, done: Done) -> Counts {
    let mut counts = plan.counts;
    match plan.action {
        Action::Leave => {}
        Action::Create(_) => counts.active += done.pods,
        Action::Remove(_) | Action::End(_) => {
            counts.active -= done.pods;
            counts.terminating += done.pods;
            counts.ready -= done.ready;
        }
    }
    counts
}

fn is_complete(job: &JobView, counts: &Counts) -> bool {
    let enough = job.spec.completions.map_or(counts.succeeded > 0, |completions| counts.succeeded >= completions);
    enough && counts.active == 0
}

fn suspend_or_resume(job: &JobView, status: &mut JobStatus, now: Timestamp) -> Option<PlannedEvent> {
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions.iter().position(|condition| condition.type_ == "Suspended");
    let is = known.is_some_and(|at| conditions[at].status == "True");
    if is == job.is_suspended() {
        return None;
    }
    let mut new = if is {
        condition("Suspended", "JobResumed", "Job resumed", now)
    } else {
        condition("Suspended", "JobSuspended", "Job suspended", now)
    };
    if is {
        "False".clone_into(&mut new.status);
        // The deadline is for being active without a break.
        status.start_time = Some(Time(now));
    }
    match known {
        Some(at) => conditions[at] = new,
        None => conditions.push(new),
    }
    Some(if is {
        PlannedEvent::normal("Resumed", "Job resumed")
    } else {
        PlannedEvent::normal("Suspended", "Job suspended")
    })
}

/// Names finished pods in the status, and lets them go once it is written.
fn name_uncounted(snapshot: &Snapshot<'_>, plan: &Plan<'_>, tracking: &mut Tracking) {
    let job = snapshot.job;
    let before = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
    let before_succeeded: HashSet<&str> = before.succeeded.iter().flatten().map(String::as_str).collect();
    let before_failed: HashSet<&str> = before.failed.iter().flatten().map(String::as_str).collect();
    let mut pods: Vec<&PodView> = snapshot.pods.iter().map(AsRef::as_ref).filter(|pod| is_tracked(pod)).collect();
    if job.is_indexed() {
        pods.sort_by_key(|pod| index(pod));
    }
    let uncounted = tracking.status.uncounted_terminated_pods.get_or_insert_default();
    let fails_the_rest = tracking.finished.as_ref().is_some_and(|finished| finished.type_ != "SuccessCriteriaMet");
    let mut new_indexes = 0;
    for pod in pods {
        let failed = has_failed(job, pod);
        if !may_go(job, plan, tracking.finished.is_some(), pod, failed) {
            continue;
        }
        tracking.release.push((uid(pod).to_owned(), name(pod)));
        let in_place = !job.is_indexed() || valid_index(job, pod).is_some();
        if pod.phase() == "Succeeded" && !before_failed.contains(uid(pod)) {
            if job.is_indexed() {
                // The index is enough to count it only once.
                new_indexes += usize::from(valid_index(job, pod).is_some_and(|at| !plan.succeeded_before.has(at)));
            } else if !before_succeeded.contains(uid(pod)) {
                uncounted.succeeded.get_or_insert_default().push(uid(pod).to_owned());
            }
        } else if (failed || fails_the_rest) && in_place && !before_failed.contains(uid(pod)) {
            // When the Job is over, every pod that has not ended has failed.
            if policy::failure(job.spec.pod_failure_policy.as_ref(), pod) != Failure::Ignored {
                uncounted.failed.get_or_insert_default().push(uid(pod).to_owned());
            }
        }
        if new_indexes + named(uncounted) >= AT_ONCE {
            // The status must not grow without bound; the rest follows.
            tracking.more = true;
            break;
        }
    }
}

fn named(uncounted: &UncountedTerminatedPods) -> usize {
    [&uncounted.succeeded, &uncounted.failed].into_iter().flatten().map(Vec::len).sum()
}

fn may_go(job: &JobView, plan: &Plan<'_>, finished: bool, pod: &PodView, failed: bool) -> bool {
    if job.metadata.deletion_timestamp.is_some() || finished || pod.phase() == "Succeeded" {
        return true;
    }
    let awaits = || {
        let index = index(pod)?;
        plan.awaiting_successor.get(&index).map(|last| uid(last) == uid(pod))
    };
    failed && awaits() != Some(true)
}

/// Says how the Job will end, before the pods that prove it are let go.
fn announce_end(tracking: &mut Tracking, now: Timestamp) {
    let Some(finished) = &tracking.finished else { return };
    let conditions = tracking.status.conditions.get_or_insert_default();
    let known = conditions.iter().any(|condition| condition.type_ == finished.type_ && condition.status == "True");
    let kind = match finished.type_.as_str() {
        "FailureTarget" => "Failed",
        "SuccessCriteriaMet" => "Complete",
        _ => return,
    };
    if !known {
        conditions.push(finished.clone());
    }
    let (reason, message) = (finished.reason.as_deref(), finished.message.as_deref());
    tracking.finished = Some(condition(kind, reason.unwrap_or_default(), message.unwrap_or_default(), now));
}

/// Moves the counters for named pods that have no finalizer any more.
fn move_counters(status: &mut JobStatus, tracked: &HashSet<String>) {
    let Some(uncounted) = &mut status.uncounted_terminated_pods else { return };
    for (uids, counter) in
        [(&mut uncounted.succeeded, &mut status.succeeded), (&mut uncounted.failed, &mut status.failed)]
    {
        let Some(named) = uids else { continue };
        let before = named.len();
        named.retain(|uid| tracked.contains(uid));
        *counter = some(counter.unwrap_or(0) + number(before - named.len()));
        if named.is_empty() {
            *uids = None;
        }
    }
}

impl Tracking {
    /// What the status says once the finalizers of these pods, by uid, are gone, and what is reported about the end.
    pub(super) fn conclude(
        &self,
        written: JobStatus,
        released: &HashSet<String>,
        now: Timestamp,
        completions: Option<i32>,
    ) -> (JobStatus, Vec<PlannedEvent>) {
        let mut status = written;
        let tracked: HashSet<String> = self.tracked.difference(released).cloned().collect();
        move_counters(&mut status, &tracked);
        let waits = self.more
            || self.terminating > 0
            || status.uncounted_terminated_pods.as_ref().is_some_and(|uncounted| named(uncounted) > 0);
        let Some(finished) = self.finished.clone().filter(|_| !waits) else { return (status, Vec::new()) };
        let mut news = Vec::new();
        if finished.type_ == "Complete" {
            status.completion_time = Some(Time(now));
            if completions.is_some_and(|completions| status.succeeded.unwrap_or(0) > completions) {
                news.push(PlannedEvent::warning(
                    "TooManySucceededPods",
                    "Too many succeeded pods running after completion count reached",
                ));
            }
            news.push(PlannedEvent::normal("Completed", "Job completed"));
        } else {
            let (reason, message) = (finished.reason.as_deref(), finished.message.as_deref());
            news.push(PlannedEvent::warning(reason.unwrap_or_default(), message.unwrap_or_default()));
        }
        status.conditions.get_or_insert_default().push(finished);
        (status, news)
    }
}
