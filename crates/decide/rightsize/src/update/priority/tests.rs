//! The tables of upstream's `pkg/updater/priority/priority_processor_test.go` and `update_priority_calculator_test.go`.

use pillion_api::pod::Pod;
use serde_json::{Value, json};

use super::*;

const NATIVE: Gates = Gates { native_sidecar: true, ..Gates::NONE };

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

fn autoscaler(spec: Value) -> VerticalPodAutoscaler {
    pillion_api::vpa::decode(
        json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "spec": spec}),
    )
    .unwrap()
}

/// Containers by name, with what they request.
fn pod(containers: &[(&str, Value)]) -> Value {
    let container = |(name, requests): &(&str, Value)| json!({"name": name, "resources": {"requests": requests}});
    json!({"spec": {"containers": containers.iter().map(container).collect::<Vec<_>>()}})
}

fn view(pod: Value) -> PodView {
    PodView::new(&Pod::new(pod).unwrap())
}

fn recommend(targets: &[(&str, Value)]) -> RecommendedPodResources {
    let of = |(name, target): &(&str, Value)| json!({"containerName": name, "target": target});
    serde_json::from_value(json!({"containerRecommendations": targets.iter().map(of).collect::<Vec<_>>()})).unwrap()
}

fn priority(pod: &PodView, recommendation: &RecommendedPodResources, gates: Gates) -> Priority {
    Priority::of(pod, recommendation, &autoscaler(json!({})), &UpdaterSettings::default(), gates, now())
}

fn assert_diff(requests: &[(&str, Value)], targets: &[(&str, Value)], diff: f64, scale_up: bool) {
    let it = priority(&view(pod(requests)), &recommend(targets), NATIVE);
    assert!((it.resource_diff - diff).abs() < 1e-9, "{requests:?} {targets:?}: {}", it.resource_diff);
    assert_eq!(it.scale_up, scale_up, "{requests:?} {targets:?}");
}

#[test]
fn the_change_is_relative_to_what_is_requested() {
    let cpu = |cpu: &str| json!({"cpu": cpu});
    let both = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    assert_diff(&[("a", cpu("2"))], &[("a", cpu("10"))], 4.0, true);
    assert_diff(&[("a", cpu("4"))], &[("a", cpu("2"))], 0.5, false);
    assert_diff(&[("a", cpu("10m"))], &[("a", cpu("900m"))], 89.0, true);
    assert_diff(&[("a", both("3", "10M"))], &[("a", both("6", "20M"))], 2.0, true);
    assert_diff(&[("a", both("4", "10M"))], &[("a", both("2", "20M"))], 1.5, true);
    assert_diff(&[("a", cpu("1")), ("b", cpu("2"))], &[("a", cpu("4")), ("b", cpu("8"))], 3.0, true);
    assert_diff(&[("a", cpu("3")), ("b", cpu("7"))], &[("a", cpu("1")), ("b", cpu("2"))], 0.7, false);
    assert_diff(
        &[("a", both("6", "10M")), ("b", both("4", "30M"))],
        &[("a", both("8", "20M")), ("b", both("7", "30M"))],
        0.75,
        true,
    );
}

/// Upstream adds requests and targets first, and sees no change here.
#[test]
fn opposite_changes_of_two_containers_do_not_cancel() {
    let cpu = |cpu: &str| json!({"cpu": cpu});
    assert_diff(&[("a", cpu("1")), ("b", cpu("3"))], &[("a", cpu("3")), ("b", cpu("1"))], 1.0, true);
}

#[test]
fn bounds_decide_what_is_outside() {
    let bounded = |target: &str, lower: &str, upper: &str| -> RecommendedPodResources {
        serde_json::from_value(json!({"containerRecommendations": [{
            "containerName": "a", "target": {"cpu": target}, "lowerBound": {"cpu": lower}, "upperBound": {"cpu": upper}
        }]}))
        .unwrap()
    };
    let of = |request: &str, recommendation: &RecommendedPodResources| {
        let it = priority(&view(pod(&[("a", json!({"cpu": request}))])), recommendation, NATIVE);
        (it.outside, it.resource_diff)
    };
    assert_eq!(of("4", &bounded("10", "6", "14")), (true, 1.5));
    assert_eq!(of("8", &bounded("2", "1", "3")), (true, 0.75));
    assert_eq!(of("8", &bounded("10", "6", "14")), (false, 0.25));
    let missing = priority(&view(pod(&[("a", json!({}))])), &bounded("10", "6", "14"), NATIVE);
    assert!(missing.outside && missing.scale_up);
}

#[test]
fn what_the_kubelet_reports_counts_and_what_was_not_observed_does_not() {
    let mut reported = pod(&[("a", json!({"cpu": "1"}))]);
    reported["status"] = json!({"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]});
    let target = recommend(&[("a", json!({"cpu": "4"}))]);
    assert_eq!(priority(&view(reported), &target, NATIVE).resource_diff.to_bits(), 1.0_f64.to_bits());

    let observed = |annotation: &str| {
        let mut it = pod(&[("a", json!({"cpu": "1"}))]);
        it["metadata"] = json!({"annotations": {"vpaObservedContainers": annotation}});
        priority(&view(it), &target, NATIVE).resource_diff > 0.0
    };
    assert!(observed("a") && observed("_malformed_") && !observed("b"));
}

#[test]
fn native_sidecars_count_only_with_the_gate_and_init_containers_never() {
    let resources = json!({"requests": {"cpu": "1"}});
    let pod = view(json!({"spec": {
        "containers": [{"name": "app", "resources": resources}],
        "initContainers": [
            {"name": "mesh", "restartPolicy": "Always", "resources": resources},
            {"name": "setup", "resources": resources}
        ]
    }}));
    let of = |name: &str, gates| priority(&pod, &recommend(&[(name, json!({"cpu": "4"}))]), gates).resource_diff > 0.0;
    assert!(of("app", Gates::default()) && of("mesh", NATIVE));
    assert!(!of("mesh", Gates::default()) && !of("setup", NATIVE));
}

#[test]
fn pods_that_grow_come_first_and_then_those_that_change_most() {
    let order = |diffs: &[(f64, bool)]| {
        let mut indices: Vec<usize> = (0..diffs.len()).collect();
        let of = |i: usize| Priority { scale_up: diffs[i].1, resource_diff: diffs[i].0, ..Priority::default() };
        indices.sort_by(|a, b| of(*a).order(&of(*b)));
        indices.into_iter().map(|i| i + 1).collect::<Vec<_>>()
    };
    assert_eq!(order(&[(4.0, true), (1.5, true), (9.0, true), (2.33, true)]), [3, 1, 4, 2]);
    assert_eq!(order(&[(0.25, true), (0.25, false), (0.5, false)]), [1, 3, 2]);
}

fn aged(hours: i64) -> PodView {
    let mut it = view(pod(&[("a", json!({"cpu": "1"}))]));
    it.start_time = Some(now() - SignedDuration::from_hours(hours));
    it
}

#[test]
fn pods_within_their_bounds_are_updated_when_they_are_old_and_change_much() {
    let settings = UpdaterSettings { update_threshold: 0.5, ..UpdaterSettings::default() };
    let check = |resource_diff: f64, outside: bool, hours: i64| {
        Priority { outside, resource_diff, ..Priority::default() }.check(&aged(hours), &settings, now())
    };
    assert_eq!(check(0.25, false, 13), Err(SkipReason::SmallChange));
    assert_eq!(check(4.0, false, 13), Ok(()));
    assert_eq!(check(0.25, true, 13), Ok(()));
    assert_eq!(check(4.0, false, 11), Err(SkipReason::ShortLived));
    assert_eq!(check(0.25, true, 11), Ok(()));
    let unknown = PodView { start_time: None, ..aged(1) };
    let within = Priority { resource_diff: 4.0, ..Priority::default() };
    assert_eq!(within.check(&unknown, &settings, now()), Err(SkipReason::NoStartTime));
}

fn killed(minutes: i64, hours_ago: i64, annotation: Option<&str>) -> Value {
    let finished = now() - SignedDuration::from_hours(hours_ago);
    let started = finished - SignedDuration::from_mins(minutes);
    let mut it = pod(&[("a", json!({"cpu": "1"}))]);
    it["status"] = json!({"containerStatuses": [{"name": "a", "lastState": {"terminated": {
        "reason": "OOMKilled", "startedAt": started.to_string(), "finishedAt": finished.to_string()
    }}}]});
    if let Some(annotation) = annotation {
        it["metadata"] = json!({"annotations": {"vpaObservedContainers": annotation}});
    }
    it
}

#[test]
fn a_quick_oom_kill_makes_a_pod_eligible_if_anything_changes() {
    let target = recommend(&[("a", json!({"cpu": "2"}))]);
    let of = |pod: Value| priority(&view(pod), &target, NATIVE).quick_oom;
    assert!(of(killed(2, 1, None)));
    assert!(!of(killed(57, 1, None)));
    assert!(!of(killed(2, 1, Some("b"))));
    let off = autoscaler(json!({"resourcePolicy": {"containerPolicies": [{"containerName": "a", "mode": "Off"}]}}));
    let pod = view(killed(2, 1, None));
    assert!(!Priority::of(&pod, &target, &off, &UpdaterSettings::default(), NATIVE, now()).quick_oom);

    let same = Priority { quick_oom: true, outside: true, ..Priority::default() };
    assert_eq!(same.check(&pod, &UpdaterSettings::default(), now()), Err(SkipReason::NothingChanges));
}

/// Upstream evicts a pod for an OOM kill of last month.
#[test]
fn an_old_oom_kill_no_longer_counts() {
    let target = recommend(&[("a", json!({"cpu": "2"}))]);
    assert!(!priority(&view(killed(2, 13, None)), &target, NATIVE).quick_oom);
}

#[test]
fn the_threshold_of_the_autoscaler_counts_only_with_the_gate() {
    let target = recommend(&[("a", json!({"cpu": "2"}))]);
    let hour = autoscaler(json!({"updatePolicy": {"updateMode": "Recreate", "evictAfterOOMSeconds": 3600}}));
    let of = |gates| {
        Priority::of(&view(killed(57, 1, None)), &target, &hour, &UpdaterSettings::default(), gates, now()).quick_oom
    };
    assert!(of(Gates { per_vpa_config: true, ..NATIVE }) && !of(NATIVE));
}
