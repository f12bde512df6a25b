//! What a Job does next with its pods, and whether it is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::JobCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::backoff::{self, Backoff};
use super::indexes::Indexes;
use super::policy::{self, Failure};
use super::removal;
use super::tracked::{earlier_failures, has_failed, index, is_tracked, name, uid, valid_index};
use crate::job_view::JobView;
use crate::pod::PodView;

/// So many pods at most are made, removed or counted in one go.
pub(super) const AT_ONCE: usize = 500;

/// After a failure of pods the Job is looked at again no earlier than this.
const EARLIEST: Duration = Duration::from_secs(1);

/// What is known of a Job at one moment.
pub(super) struct Snapshot<'a> {
    pub(super) job: &'a JobView,
    pub(super) pods: &'a [Arc<PodView>],
    pub(super) backoff: Backoff,
    pub(super) now: Timestamp,
}

/// What is to be done with pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The Job is not to be touched: it is going.
    Leave,
    /// Pods are made; none if there are enough, or it is too early.
    Create(Vec<NewPod>),
    /// Pods that are too many go, uncounted.
    Remove(Vec<String>),
    /// The Job is over: its active pods go, and are counted.
    End(Vec<String>),
}

/// A pod that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewPod {
    pub(super) index: Option<i32>,
    /// How often pods of the index failed, counted and ignored; only where the Job limits failures of each index.
    pub(super) failures: Option<(i32, i32)>,
}

/// A decision over a Job, and what is needed to count its pods afterwards.
pub(super) struct Plan<'a> {
    pub(super) action: Action,
    /// How the Job ends, if it is decided.
    pub(super) finished: Option<JobCondition>,
    /// When to look again, if nothing happens before.
    pub(super) wake: Option<Duration>,
    pub(super) start_time: Option<Time>,
    pub(super) backoff: Backoff,
    pub(super) counts: Counts,
    pub(super) succeeded_before: Indexes,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// The last failed pod of each index that has no successor yet. It stays until the successor has its failure count.
    pub(super) awaiting_successor: BTreeMap<i32, &'a PodView>,
}

/// Pods of the Job, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) active: i32,
    pub(super) ready: i32,
    pub(super) terminating: i32,
    pub(super) succeeded: i32,
    pub(super) failed: i32,
}

/// Decides.
pub(super) fn plan<'a>(snapshot: &Snapshot<'a>) -> Plan<'a> {
    let job = snapshot.job;
    let pods: Vec<&'a PodView> = snapshot.pods.iter().map(AsRef::as_ref).collect();
    let active: Vec<&PodView> = pods.iter().copied().filter(|pod| pod.is_active()).collect();
    let (new_succeeded, new_failed) = newly_finished(job, &pods);
    let mut plan = Plan {
        action: Action::Leave,
        finished: None,
        wake: None,
        start_time: job.status.start_time.clone(),
        backoff: snapshot.backoff.with(&new_succeeded, &new_failed),
        counts: count(job, &pods, &active, &new_succeeded, &new_failed),
        succeeded_before: Indexes::default(),
        succeeded_indexes: Indexes::default(),
        failed_indexes: None,
        awaiting_successor: BTreeMap::new(),
    };
    if plan.start_time.is_none() && !job.is_suspended() {
        plan.start_time = Some(Time(snapshot.now));
    }
    plan.finished = decided_before(job, snapshot.now).or_else(|| failure(snapshot, &pods, &mut plan));
    if job.is_indexed() {
        look_at_indexes(snapshot, &pods, &active, &mut plan);
    }
    if plan.finished.is_some() {
        plan.action = Action::End(active.iter().map(|pod| name(pod)).collect());
    } else if job.metadata.deletion_timestamp.is_none() {
        plan.action = manage(snapshot, &pods, active, &mut plan);
    }
    plan
}

/// Pods that have finished and are not counted in the status yet.
fn newly_finished<'a>(job: &JobView, pods: &[&'a PodView]) -> (Vec<&'a PodView>, Vec<&'a PodView>) {
    let uncounted = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
    let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
    for pod in pods.iter().copied().filter(|pod| is_tracked(pod)) {
        if job.is_indexed() && valid_index(job, pod).is_none() {
            continue;
        }
        let known = |uids: &Option<Vec<String>>| uids.iter().flatten().any(|known| known == uid(pod));
        if pod.phase() == "Succeeded" && !known(&uncounted.succeeded) {
            succeeded.push(pod);
        }
        if has_failed(job, pod) && !known(&uncounted.failed) {
            failed.push(pod);
        }
    }
    (succeeded, failed)
}

fn count(
    job: &JobView,
    pods: &[&PodView],
    active: &[&PodView],
    new_succeeded: &[&PodView],
    new_failed: &[&PodView],
) -> Counts {
    let status = &job.status;
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let policy = job.spec.pod_failure_policy.as_ref();
    let not_ignored = new_failed.iter().filter(|pod| policy::failure(policy, pod) != Failure::Ignored).count();
    Counts {
        active: number(active.len()),
        ready: number(active.iter().filter(|pod| pod.is_ready()).count()),
        terminating: number(pods.iter().filter(|pod| is_terminating(pod)).count()),
        succeeded: status.succeeded.unwrap_or(0)
            + number(new_succeeded.len() + uncounted.succeeded.map_or(0, |uids| uids.len())),
        failed: status.failed.unwrap_or(0) + number(not_ignored + uncounted.failed.map_or(0, |uids| uids.len())),
    }
}

fn is_terminating(pod: &PodView) -> bool {
    !pod.is_terminal() && pod.metadata.deletion_timestamp.is_some()
}

pub(super) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

pub(super) fn condition(kind: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// The end that an earlier look at the Job has decided on. It stays, whatever has happened since.
fn decided_before(job: &JobView, now: Timestamp) -> Option<JobCondition> {
    if let Some(met) = job.condition("SuccessCriteriaMet") {
        return Some(met.clone());
    }
    let target = job.condition("FailureTarget")?;
    let (reason, message) = (target.reason.as_deref(), target.message.as_deref());
    Some(condition("Failed", reason.unwrap_or_default(), message.unwrap_or_default(), now))
}

/// Why the Job fails, apart from its indexes.
fn failure(snapshot: &Snapshot<'_>, pods: &[&PodView], plan: &mut Plan<'_>) -> Option<JobCondition> {
    let (job, now) = (snapshot.job, snapshot.now);
    let fails = |reason: &str, message: &str| Some(condition("FailureTarget", reason, message, now));
    if let Some(policy) = &job.spec.pod_failure_policy {
        let failed = pods.iter().filter(|pod| has_failed(job, pod));
        let why = failed.map(|pod| policy::failure(Some(policy), pod)).find_map(|failure| match failure {
            Failure::FailsJob(why) => Some(why),
            _ => None,
        });
        if let Some(why) = why {
            return fails("PodFailurePolicy", &why);
        }
    }
    let limit = job.spec.backoff_limit.unwrap_or(6);
    if plan.counts.failed > limit || restarted_too_often(job, pods, limit) {
        return fails("BackoffLimitExceeded", "Job has reached the specified backoff limit");
    }
    let (Some(seconds), Some(start)) = (job.spec.active_deadline_seconds, &plan.start_time) else { return None };
    if job.is_suspended() {
        return None;
    }
    let rest = SignedDuration::from_secs(seconds) - now.duration_since(start.0);
    match Duration::try_from(rest) {
        Ok(rest) if !rest.is_zero() => {
            plan.wake = Some(rest);
            None
        }
        _ => fails("DeadlineExceeded", "Job was active longer than specified deadline"),
    }
}

/// Where containers are restarted in place, restarts are what failed pods are elsewhere.
fn restarted_too_often(job: &JobView, pods: &[&PodView], limit: i32) -> bool {
    if job.spec.template["spec"]["restartPolicy"] != "OnFailure" {
        return false;
    }
    let running = pods.iter().filter(|pod| matches!(pod.phase(), "Running" | "Pending"));
    let restarts: i32 = running
        .flat_map(|pod| pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses))
        .map(|status| status.restart_count)
        .fold(0, i32::saturating_add);
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

/// Which indexes have succeeded and failed, and whether that ends the Job.
fn look_at_indexes<'a>(snapshot: &Snapshot<'a>, pods: &[&'a PodView], active: &[&PodView], plan: &mut Plan<'a>) {
    let (job, now) = (snapshot.job, snapshot.now);
    let completions = job.spec.completions.unwrap_or_default();
    let tracked = || pods.iter().copied().filter(|pod| is_tracked(pod));
    let before = job.status.completed_indexes.as_deref().unwrap_or_default();
    plan.succeeded_before = Indexes::parse(before, completions);
    let new = tracked().filter(|pod| pod.phase() == "Succeeded").filter_map(|pod| valid_index(job, pod));
    plan.succeeded_indexes = plan.succeeded_before.union(&new.collect());
    plan.counts.succeeded = plan.succeeded_indexes.total();
    let fails = |reason: &str, message: &str| Some(condition("FailureTarget", reason, message, now));
    if let Some(limit) = job.spec.backoff_limit_per_index {
        let before = Indexes::parse(job.status.failed_indexes.as_deref().unwrap_or_default(), completions);
        let new = tracked().filter(|pod| index_has_failed(job, pod, limit)).filter_map(|pod| valid_index(job, pod));
        let failed = before.union(&new.collect());
        if plan.finished.is_none() {
            if job.spec.max_failed_indexes.is_some_and(|most| failed.total() > most) {
                plan.finished = fails(
                    "MaxFailedIndexesExceeded",
                    "Job has exceeded the specified maximal number of failed indexes",
                );
            } else if !failed.is_empty() && failed.total() + plan.succeeded_indexes.total() >= completions {
                plan.finished = fails("FailedIndexes", "Job has failed indexes");
            }
        }
        plan.awaiting_successor = awaiting_successor(job, tracked(), active, &plan.succeeded_indexes.union(&failed));
        plan.failed_indexes = Some(failed);
    }
    if plan.finished.is_none() {
        let met = policy::success(job.spec.success_policy.as_ref(), completions, &plan.succeeded_indexes);
        plan.finished = met.map(|message| condition("SuccessCriteriaMet", "SuccessPolicy", &message, now));
    }
}

fn index_has_failed(job: &JobView, pod: &PodView, limit: i32) -> bool {
    if !has_failed(job, pod) {
        return false;
    }
    match policy::failure(job.spec.pod_failure_policy.as_ref(), pod) {
        Failure::FailsIndex => true,
        Failure::Ignored => false,
        Failure::Counts | Failure::FailsJob(_) => earlier_failures(pod).0 >= limit,
    }
}

fn awaiting_successor<'a>(
    job: &JobView,
    tracked: impl Iterator<Item = &'a PodView>,
    active: &[&PodView],
    done: &Indexes,
) -> BTreeMap<i32, &'a PodView> {
    let at_work: Indexes = active.iter().filter_map(|pod| index(pod)).collect();
    let mut last: BTreeMap<i32, &PodView> = BTreeMap::new();
    for pod in tracked.filter(|pod| has_failed(job, pod)) {
        let Some(index) = valid_index(job, pod).filter(|index| !done.has(*index) && !at_work.has(*index)) else {
            continue;
        };
        let age = |pod: &PodView| (all_failures(pod), backoff::finished_at(pod));
        let (failures, finished) = age(pod);
        let newer = last.get(&index).is_none_or(|known| {
            let (known_failures, known_finished) = age(known);
            known_failures <= failures && finished >= known_finished
        });
        if newer {
            last.insert(index, pod);
        }
    }
    last
}

fn all_failures(pod: &PodView) -> i32 {
    let (counted, ignored) = earlier_failures(pod);
    counted.saturating_add(ignored)
}

/// Which pods are made or removed so that the right number is at work.
fn manage(snapshot: &Snapshot<'_>, pods: &[&PodView], active: Vec<&PodView>, plan: &mut Plan<'_>) -> Action {
    let job = snapshot.job;
    if job.is_suspended() {
        let all = active.len();
        return Action::Remove(removal::victims(job, active, all));
    }
    let parallelism = job.spec.parallelism.unwrap_or(1);
    let wanted = match job.spec.completions {
        // Once one has succeeded, those that run are let run, and none follows.
        None if plan.counts.succeeded > 0 => plan.counts.active,
        None => parallelism,
        Some(completions) => (completions - plan.counts.succeeded).min(parallelism).max(0),
    };
    let excess = usize::try_from(plan.counts.active - wanted).unwrap_or(0);
    let at_work: Indexes = active.iter().filter_map(|pod| index(pod)).collect();
    let mut victims = removal::victims(job, active, excess);
    if !victims.is_empty() {
        victims.truncate(AT_ONCE);
        return Action::Remove(victims);
    }
    let going = if job.replaces_only_failed_pods() { plan.counts.terminating } else { 0 };
    let missing = usize::try_from(wanted - going - plan.counts.active).unwrap_or(0).min(AT_ONCE);
    create(snapshot, pods, missing, &at_work, plan)
}

fn create(
    snapshot: &Snapshot<'_>,
    pods: &[&PodView],
    missing: usize,
    at_work: &Indexes,
    plan: &mut Plan<'_>,
) -> Action {
    let (job, now) = (snapshot.job, snapshot.now);
    let per_index = job.spec.backoff_limit_per_index.is_some();
    let wait = if per_index || missing == 0 { Duration::ZERO } else { plan.backoff.remaining(now) };
    if !wait.is_zero() {
        plan.wake = Some(earlier(plan.wake, wait.max(EARLIEST)));
        return Action::Create(Vec::new());
    }
    if !job.is_indexed() {
        return Action::Create(vec![NewPod { index: None, failures: None }; missing]);
    }
    let mut taken = plan.succeeded_indexes.union(at_work);
    if job.replaces_only_failed_pods() {
        taken = taken.union(&pods.iter().filter(|pod| is_terminating(pod)).filter_map(|pod| index(pod)).collect());
    }
    if let Some(failed) = &plan.failed_indexes {
        taken = taken.union(failed);
    }
    let indexes = taken.first_absent(missing, job.spec.completions.unwrap_or_default());
    if !per_index {
        return Action::Create(
            indexes.into_iter().map(|index| NewPod { index: Some(index), failures: None }).collect(),
        );
    }
    let mut new = Vec::new();
    let mut shortest: Option<Duration> = None;
    for index in indexes {
        let last = plan.awaiting_successor.get(&index).copied();
        let wait = last.map_or(Duration::ZERO, |pod| {
            let failures = u32::try_from(all_failures(pod)).unwrap_or(0).saturating_add(1);
            backoff::remaining(failures, backoff::finished_at(pod), now)
        });
        if wait.is_zero() {
            new.push(NewPod { index: Some(index), failures: Some(next_failures(job, last)) });
        } else {
            shortest = Some(earlier(shortest, wait));
        }
    }
    if let Some(wait) = shortest {
        plan.wake = Some(earlier(plan.wake, wait.max(EARLIEST)));
    }
    Action::Create(new)
}

fn earlier(known: Option<Duration>, other: Duration) -> Duration {
    known.map_or(other, |known| known.min(other))
}

/// The failure counts of the successor of a failed pod.
fn next_failures(job: &JobView, last: Option<&PodView>) -> (i32, i32) {
    let Some(last) = last else { return (0, 0) };
    let (counted, ignored) = earlier_failures(last);
    match policy::failure(job.spec.pod_failure_policy.as_ref(), last) {
        Failure::Ignored => (counted, ignored.saturating_add(1)),
        _ => (counted.saturating_add(1), ignored),
    }
}
