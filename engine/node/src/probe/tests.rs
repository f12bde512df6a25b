use std::collections::BTreeMap;

use pillion_lifecycle::{Attempt, Hook};
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(container: Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}})).unwrap()
}

fn running(since: i64, started: bool) -> BTreeMap<String, ContainerFacts> {
    let state = State::Running { since: at(since), post_start: Hook::NotBegun, started, ready: false, unhealthy: None };
    let attempt = Attempt {
        number: 0,
        tries: 1,
        id: "x".into(),
        image: "i".into(),
        image_id: "i".into(),
        resources: None,
        state,
        stopping: None,
        held: None,
        in_earlier_sandbox: false,
    };
    BTreeMap::from([("main".to_owned(), ContainerFacts { current: Some(attempt), ..ContainerFacts::default() })])
}

#[test]
fn the_first_look_at_a_container_depends_on_the_kind() {
    let spec = Spec { initial_delay_seconds: Some(15), period_seconds: Some(10), ..Spec::default() };
    for (kind, expected) in [(Kind::Startup, 122), (Kind::Readiness, 122), (Kind::Liveness, 120)] {
        assert_eq!(timing(&spec).first_look(kind.first_look(), at(100), at(112)), at(expected), "{kind:?}");
    }
}

#[test]
fn readiness_and_liveness_wait_for_startup() {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 5});
    let pod = pod(json!({"name": "main", "startupProbe": probe, "readinessProbe": probe, "livenessProbe": probe}));
    let mut probes = Vec::new();
    let due = schedule(&mut probes, &pod, &running(100, false), at(100));
    assert_eq!(due, Due { now: vec![("main".into(), 0, Kind::Startup)], next: None });
    assert_eq!(schedule(&mut probes, &pod, &running(100, false), at(100)), Due::default(), "one is under way");
    let due = schedule(&mut probes, &pod, &running(100, true), at(112));
    assert_eq!(due, Due { now: vec![("main".into(), 0, Kind::Readiness)], next: Some(at(115)) });
}

#[test]
fn verdicts_come_with_the_threshold_and_results_in_a_row_count() {
    let spec =
        Spec { success_threshold: Some(2), failure_threshold: Some(3), period_seconds: Some(10), ..Spec::default() };
    let results = [
        (Some(true), None),
        (Some(true), Some(Verdict::Ready(true))),
        (Some(false), None),
        (Some(false), None),
        (None, None),
        (Some(false), Some(Verdict::Ready(false))),
        (Some(true), None),
        (Some(false), None),
        (Some(true), None),
        (Some(true), Some(Verdict::Ready(true))),
    ];
    let mut probes = Vec::new();
    let probe = entry(&mut probes, "main", 0, Kind::Readiness);
    for (passed, expected) in results {
        probe.state = Progress::UnderWay;
        probe.next = Some(at(100));
        assert_eq!(finish(probe, &spec, passed, false, at(103)), expected, "{passed:?}");
        assert_eq!((probe.state, probe.next), (Progress::Scheduled, Some(at(110))));
    }
}

#[test]
fn a_condemned_container_is_probed_no_more() {
    let spec = Spec { failure_threshold: Some(1), ..Spec::default() };
    for (kind, passed, expected, over) in [
        (Kind::Liveness, false, Some(Verdict::NotAlive), Progress::Over),
        (Kind::Liveness, true, None, Progress::Scheduled),
        (Kind::Startup, false, Some(Verdict::NotStarted), Progress::Over),
        (Kind::Startup, true, Some(Verdict::Started), Progress::Over),
    ] {
        let mut probes = Vec::new();
        let probe = entry(&mut probes, "main", 0, kind);
        probe.state = Progress::UnderWay;
        assert_eq!(finish(probe, &spec, Some(passed), false, at(1)), expected);
        assert_eq!(probe.state, over);
    }
}

#[test]
fn only_readiness_is_asked_of_a_pod_that_ends() {
    let probe = json!({"exec": {"command": ["x"]}, "periodSeconds": 5});
    let mut pod = pod(json!({"name": "main", "readinessProbe": probe, "livenessProbe": probe}));
    pod.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(101)));
    let due = schedule(&mut Vec::new(), &pod, &running(100, false), at(110));
    assert_eq!(due, Due { now: vec![("main".into(), 0, Kind::Readiness)], next: None });
}
