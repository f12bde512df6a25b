//! Decisions over Jobs: the cases of Kubernetes' own tests of its controller.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::backoff::Backoff;
use super::plan::{Action, NewPod, Plan, Snapshot, plan};
use super::track::{Done, track};
use crate::job_view::JobView;
use crate::pod::PodView;

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

fn job(spec: Value, status: Value) -> JobView {
    let mut job = json!({
        "metadata": {"name": "j", "namespace": "default", "uid": "j"},
        "spec": {"parallelism": 2, "completions": 5, "backoffLimit": 6, "template": {"spec": {"restartPolicy": "Never"}}},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    serde_json::from_value(job).unwrap()
}

/// A pod that is not counted yet.
fn pod(name: &str, phase: &str, more: Value) -> Arc<PodView> {
    let mut pod = json!({
        "metadata": {
            "name": name, "uid": name, "finalizers": ["batch.kubernetes.io/job-tracking"],
            "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {},
        },
        "status": {"phase": phase},
    });
    for (path, value) in more.as_object().unwrap() {
        match path.as_str() {
            "index" => pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = value.clone(),
            "failures" => pod["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] = value.clone(),
            "deleted" => pod["metadata"]["deletionTimestamp"] = value.clone(),
            other => pod["status"][other] = value.clone(),
        }
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn pods(active: usize, succeeded: usize, failed: usize) -> Vec<Arc<PodView>> {
    let many =
        |count: usize, phase: &'static str| (0..count).map(move |n| pod(&format!("{phase}-{n}"), phase, json!({})));
    many(active, "Running").chain(many(succeeded, "Succeeded")).chain(many(failed, "Failed")).collect()
}

fn snapshot<'a>(job: &'a JobView, pods: &'a [Arc<PodView>]) -> Snapshot<'a> {
    Snapshot { job, pods, backoff: Backoff::default(), now: now() }
}

fn short(action: &Action) -> String {
    match action {
        Action::Leave => "leave".to_owned(),
        Action::Create(pods) => format!("+{}", pods.len()),
        Action::Remove(pods) => format!("-{}", pods.len()),
        Action::End(pods) => format!("end {}", pods.len()),
    }
}

fn reason<'a>(plan: &'a Plan<'_>) -> &'a str {
    plan.finished.as_ref().and_then(|condition| condition.reason.as_deref()).unwrap_or_default()
}

#[test]
fn the_right_number_of_pods_is_at_work() {
    let any = json!({"completions": null});
    for (what, spec, (active, succeeded, failed), action, why) in [
        ("a new Job", json!({}), (0, 0, 0), "+2", ""),
        ("a work queue", any.clone(), (0, 0, 0), "+2", ""),
        ("enough", json!({}), (2, 0, 0), "+0", ""),
        ("one succeeded", json!({}), (1, 1, 0), "+1", ""),
        ("few are left", json!({}), (1, 4, 0), "+0", ""),
        ("none is left", json!({}), (0, 5, 0), "+0", ""),
        ("too many", json!({"parallelism": 1}), (3, 0, 0), "-2", ""),
        ("more than are left", json!({"parallelism": 5}), (3, 4, 0), "-2", ""),
        ("a work queue with a success", any.clone(), (1, 1, 0), "+0", ""),
        ("a work queue with a success and no more", any, (0, 1, 0), "+0", ""),
        ("paused by parallelism", json!({"parallelism": 0}), (2, 0, 0), "-2", ""),
        ("suspended", json!({"suspend": true}), (2, 0, 0), "-2", ""),
        ("a failure long ago", json!({}), (1, 0, 1), "+1", ""),
        ("failures up to the limit", json!({"backoffLimit": 1}), (1, 0, 1), "+1", ""),
        ("failures beyond the limit", json!({"backoffLimit": 0}), (1, 0, 1), "end 1", "BackoffLimitExceeded"),
        ("at most so many at once", json!({"parallelism": 700, "completions": 900}), (0, 0, 0), "+500", ""),
    ] {
        let (job, pods) = (job(spec, json!({})), pods(active, succeeded, failed));
        let plan = plan(&snapshot(&job, &pods));
        assert_eq!((short(&plan.action).as_str(), reason(&plan)), (action, why), "{what}");
    }
}

#[test]
fn a_recent_failure_delays_the_next_pod() {
    let ended = json!([{"name": "a", "state": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:59:55Z"}}}]);
    let pods = [pod("p", "Failed", json!({"containerStatuses": ended}))];
    let job = job(json!({}), json!({}));
    let plan = plan(&snapshot(&job, &pods));
    assert_eq!(plan.action, Action::Create(Vec::new()));
    assert_eq!(plan.wake, Some(std::time::Duration::from_secs(5)));
}

#[test]
fn restarts_count_where_containers_are_restarted_in_place() {
    let on_failure = json!({"spec": {"restartPolicy": "OnFailure"}});
    let restarted = |containers: i32, sidecars: i32| {
        json!({
            "containerStatuses": [{"name": "a", "restartCount": containers}],
            "initContainerStatuses": [{"name": "s", "restartCount": sidecars}],
        })
    };
    for (limit, containers, sidecars, fails) in
        [(2, 1, 0, false), (2, 2, 0, true), (2, 1, 1, true), (0, 0, 0, false), (0, 1, 0, true)]
    {
        let job = job(json!({"backoffLimit": limit, "template": on_failure}), json!({}));
        let pods = [pod("p", "Running", restarted(containers, sidecars))];
        assert_eq!(plan(&snapshot(&job, &pods)).finished.is_some(), fails, "{limit} {containers} {sidecars}");
    }
}

#[test]
fn a_deadline_ends_the_job_unless_it_is_suspended() {
    for (started, suspended, why, wake) in [
        ("2026-01-01T00:59:00Z", false, "", Some(40)),
        ("2026-01-01T00:58:20Z", false, "DeadlineExceeded", None),
        ("2026-01-01T00:00:00Z", true, "", None),
    ] {
        let spec = json!({"activeDeadlineSeconds": 100, "suspend": suspended});
        let job = job(spec, json!({"startTime": started}));
        let pods = pods(2, 0, 0);
        let plan = plan(&snapshot(&job, &pods));
        assert_eq!((reason(&plan), plan.wake.map(|wake| wake.as_secs())), (why, wake), "{started}");
    }
}

#[test]
fn what_was_decided_before_stays() {
    let met = json!([{"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy"}]);
    let target = json!([{"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}]);
    for (conditions, kind, why) in
        [(met, "SuccessCriteriaMet", "SuccessPolicy"), (target, "Failed", "DeadlineExceeded")]
    {
        let job = job(json!({"backoffLimit": 0}), json!({"conditions": conditions}));
        let pods = pods(1, 0, 3);
        let plan = plan(&snapshot(&job, &pods));
        assert_eq!((plan.finished.as_ref().unwrap().type_.as_str(), reason(&plan)), (kind, why));
    }
}

#[test]
fn a_pod_that_goes_keeps_its_place_only_if_failed_pods_alone_are_replaced() {
    let going = json!({"deleted": "2026-01-01T00:59:59Z"});
    for (policy, created) in [("TerminatingOrFailed", 2), ("Failed", 1)] {
        let job = job(json!({"podReplacementPolicy": policy}), json!({}));
        let pods = [pod("p", "Running", going.clone())];
        let old = Snapshot { now: "2026-01-01T03:00:00Z".parse().unwrap(), ..snapshot(&job, &pods) };
        assert_eq!(short(&plan(&old).action), format!("+{created}"), "{policy}");
    }
}

fn indexed(more: Value) -> Value {
    let mut spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4});
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    spec
}

#[test]
fn indexes_without_a_pod_get_one() {
    let pods = [
        pod("a", "Succeeded", json!({"index": "0"})),
        pod("b", "Running", json!({"index": "2"})),
        pod("c", "Failed", json!({"index": "3"})),
    ];
    let job = job(indexed(json!({})), json!({}));
    let plan = plan(&snapshot(&job, &pods));
    let new = |index| NewPod { index: Some(index), failures: None };
    assert_eq!(plan.action, Action::Create(vec![new(1), new(3)]));
    assert_eq!(plan.succeeded_indexes.to_string(), "0");
}

#[test]
fn failures_of_each_index_have_their_own_limit() {
    let failed = |index: &str, failures: &str| pod(index, "Failed", json!({"index": index, "failures": failures}));
    let per_index = json!({"backoffLimitPerIndex": 1, "backoffLimit": 100});
    let pods = [failed("0", "0"), failed("1", "1"), pod("2", "Succeeded", json!({"index": "2"}))];
    let several = job(indexed(per_index), json!({}));
    let next = plan(&snapshot(&several, &pods));
    assert_eq!(next.failed_indexes.as_ref().unwrap().to_string(), "1");
    let new = |index, failures| NewPod { index: Some(index), failures: Some((failures, 0)) };
    assert_eq!(next.action, Action::Create(vec![new(0, 1), new(3, 0)]));
    assert_eq!(next.awaiting_successor.keys().collect::<Vec<_>>(), [&0]);

    for (more, pods, why) in [
        (json!({"maxFailedIndexes": 0}), vec![failed("1", "1")], "MaxFailedIndexesExceeded"),
        (json!({"completions": 1}), vec![failed("0", "1")], "FailedIndexes"),
        (json!({"completions": 2}), vec![failed("0", "1")], ""),
    ] {
        let mut spec = indexed(json!({"backoffLimitPerIndex": 1, "backoffLimit": 100}));
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        let job = job(spec, json!({}));
        assert_eq!(reason(&plan(&snapshot(&job, &pods))), why, "{more}");
    }
}

#[test]
fn a_success_policy_ends_the_job_early() {
    let policy = json!({"successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    let job = job(indexed(policy), json!({}));
    let pods = [pod("a", "Succeeded", json!({"index": "0"})), pod("b", "Running", json!({"index": "1"}))];
    let plan = plan(&snapshot(&job, &pods));
    assert_eq!((short(&plan.action).as_str(), reason(&plan)), ("end 1", "SuccessPolicy"));
}

#[test]
fn a_failure_policy_ends_the_job_or_forgives() {
    let rules = |action: &str| {
        let codes = json!({"operator": "In", "values": [7]});
        json!({"podFailurePolicy": {"rules": [{"action": action, "onExitCodes": codes}]}, "backoffLimit": 0})
    };
    let ended = json!([{"name": "a", "state": {"terminated": {"exitCode": 7, "finishedAt": "2026-01-01T00:00:00Z"}}}]);
    let pods = [pod("p", "Failed", json!({"containerStatuses": ended}))];
    for (action, why) in [("FailJob", "PodFailurePolicy"), ("Ignore", ""), ("Count", "BackoffLimitExceeded")] {
        let job = job(rules(action), json!({}));
        let snapshot = snapshot(&job, &pods);
        let plan = plan(&snapshot);
        assert_eq!(reason(&plan), why, "{action}");
        let tracking = track(&snapshot, &plan, Done::default());
        let named = tracking.status.uncounted_terminated_pods.unwrap().failed.map_or(0, |uids| uids.len());
        assert_eq!(named, usize::from(action != "Ignore"), "{action}");
    }
}

#[test]
fn pods_are_named_then_released_then_counted() {
    let job = job(json!({"completions": 2}), json!({"uncountedTerminatedPods": {"succeeded": ["gone"]}}));
    let pods = [pod("p", "Succeeded", json!({}))];
    let snapshot = snapshot(&job, &pods);
    let plan = plan(&snapshot);
    let tracking = track(&snapshot, &plan, Done::default());
    // One that has no finalizer any more is counted at once.
    assert_eq!(tracking.status.succeeded, Some(1));
    assert_eq!(tracking.status.uncounted_terminated_pods.as_ref().unwrap().succeeded, Some(vec!["p".to_owned()]));
    assert_eq!(tracking.release, [("p".to_owned(), "p".to_owned())]);

    let (refused, news) = tracking.conclude(tracking.status.clone(), &HashSet::new(), now(), Some(2));
    assert_eq!((refused.succeeded, news.len()), (Some(1), 0));
    let (done, news) = tracking.conclude(tracking.status.clone(), &HashSet::from(["p".to_owned()]), now(), Some(2));
    assert_eq!(done.succeeded, Some(2));
    assert_eq!(done.conditions.unwrap().last().unwrap().type_, "Complete");
    assert_eq!(news[0].message, "Job completed");
}

#[test]
fn a_job_that_could_not_end_its_pods_is_not_over() {
    let job = job(json!({"backoffLimit": 0}), json!({}));
    let pods = pods(2, 0, 1);
    let snapshot = snapshot(&job, &pods);
    let plan = plan(&snapshot);
    assert_eq!(short(&plan.action), "end 2");
    let partly = track(&snapshot, &plan, Done { pods: 1, ready: 0 });
    assert_eq!((partly.status.active, partly.status.conditions), (Some(1), None));
    let fully = track(&snapshot, &plan, Done { pods: 2, ready: 0 });
    assert_eq!((fully.status.active, fully.status.terminating), (None, Some(2)));
    // While pods are going, only the target is said.
    let released = pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
    let (status, news) = fully.conclude(fully.status.clone(), &released, now(), Some(5));
    assert_eq!(status.conditions.unwrap().len(), 1);
    assert!(news.is_empty());
}

#[test]
fn so_many_pods_at_most_are_named_at_once() {
    let job = job(json!({"completions": 600}), json!({}));
    let pods = pods(0, 600, 0);
    let snapshot = snapshot(&job, &pods);
    let tracking = track(&snapshot, &plan(&snapshot), Done::default());
    assert_eq!(tracking.release.len(), 500);
    let released = pods.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
    let (status, news) = tracking.conclude(tracking.status.clone(), &released, now(), Some(600));
    assert_eq!((status.succeeded, news.len()), (Some(500), 0));
    assert_eq!(status.conditions.unwrap().len(), 1, "the criteria are met, but the Job is not complete yet");
}
