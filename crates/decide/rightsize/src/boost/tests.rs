//! The tables of upstream's `pkg/admission-controller/resource/pod/patch/resource_updates_test.go` for boosts, and of
//! `pkg/updater/inplace/resource_updates_test.go`.

use pillion_api::pod::Pod;
use pillion_api::vpa::GenericStartupBoost;

use super::*;
use crate::boosted_cpu::BoostError;

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

fn boost(value: Value) -> GenericStartupBoost {
    serde_json::from_value(value).unwrap()
}

fn autoscaler(spec: Value, target: Option<&str>) -> VerticalPodAutoscaler {
    let recommend = |name: &str| target.map(|cpu| json!({"containerName": name, "target": {"cpu": cpu}}));
    let recommended: Vec<Value> = ["c1", "c2"].into_iter().filter_map(recommend).collect();
    pillion_api::vpa::decode(json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "spec": spec,
        "status": {"recommendation": {"containerRecommendations": recommended}}
    }))
    .unwrap()
}

fn view(pod: Value) -> PodView {
    PodView::new(&Pod::new(pod).unwrap())
}

fn pod(requests: Value, limits: Value) -> PodView {
    view(json!({"spec": {"containers": [{"name": "c1", "resources": {"requests": requests, "limits": limits}}]}}))
}

/// Boosts a container: what it requests, its limit, and the annotation.
fn boosted(spec: Value, target: Option<&str>, pod: &PodView, most: Option<&str>) -> (String, String, Option<String>) {
    let autoscaler = autoscaler(spec, target);
    let targets = running_targets(&autoscaler, pod, &LimitRanges::default(), Gates::default());
    let mut it = targets.into_iter().next().unwrap_or_default();
    let annotation = apply_boost(&mut it, &pod.containers[0], &autoscaler, most.map(quantity));
    let shown = |amount: Option<Quantity>| amount.map(|amount| amount.to_string()).unwrap_or_default();
    (shown(it.requests.cpu), shown(it.limits.cpu), annotation.map(|(_, value)| value))
}

#[test]
fn a_factor_multiplies_and_a_quantity_is_added() {
    let base = quantity("100m");
    let factor = |factor: i32| boost(json!({"type": "Factor", "factor": factor}));
    assert_eq!(boosted_cpu(base, &factor(2), None), Ok(quantity("200m")));
    assert_eq!(boosted_cpu(base, &boost(json!({"type": "Quantity", "quantity": "500m"})), None), Ok(quantity("600m")));
    assert_eq!(boosted_cpu(quantity("20m"), &factor(3), Some(quantity("40m"))), Ok(quantity("40m")));
    assert_eq!(boosted_cpu(base, &factor(0), None).unwrap_err().to_string(), "boost factor must be >= 1");
    assert_eq!(
        boosted_cpu(base, &boost(json!({"type": "Invalid"})), None).unwrap_err().to_string(),
        "unsupported startup boost type: Invalid"
    );
    assert_eq!(boosted_cpu(base, &boost(json!({"type": "Quantity"})), None), Err(BoostError::NoQuantity));
}

/// Upstream's admission controller accepts a negative quantity, so that it may be stored.
#[test]
fn a_negative_boost_that_is_stored_is_ignored() {
    let plain = pod(json!({"cpu": "100m"}), json!({"cpu": "200m"}));
    for (cpu, error) in [
        (json!({"type": "Quantity", "quantity": "-50m"}), BoostError::Negative),
        (json!({"type": "Quantity", "quantity": "-1"}), BoostError::Negative),
        (json!({"type": "Factor", "factor": -2}), BoostError::Factor),
    ] {
        assert_eq!(boosted_cpu(quantity("100m"), &boost(cpu.clone()), None), Err(error), "{cpu}");
        let of_pod = json!({"startupBoost": {"cpu": cpu}});
        let policy = json!({"containerName": "c1", "startupBoost": {"cpu": cpu}});
        let of_container = json!({"resourcePolicy": {"containerPolicies": [policy]}});
        for spec in [of_pod, of_container] {
            assert_eq!(boosted(spec, Some("150m"), &plain, None), ("150m".into(), "300m".into(), None), "{cpu}");
        }
    }
}

#[test]
fn requests_and_limits_are_boosted_together() {
    let factor = |factor: i32| json!({"startupBoost": {"cpu": {"type": "Factor", "factor": factor}}});
    let equal = pod(json!({"cpu": "100m"}), json!({"cpu": "100m"}));
    let (request, limit, annotation) = boosted(factor(2), Some("100m"), &equal, None);
    assert_eq!((request.as_str(), limit.as_str()), ("200m", "200m"));
    assert_eq!(annotation.unwrap(), r#"{"requests":{"cpu":"100m"},"limits":{"cpu":"100m"}}"#);

    let tripled = pod(json!({"cpu": "100m"}), json!({"cpu": "300m"}));
    let (request, limit, _) = boosted(factor(2), Some("150m"), &tripled, None);
    assert_eq!((request.as_str(), limit.as_str()), ("300m", "900m"));

    let unlimited = pod(json!({"cpu": "100m"}), json!({}));
    let (request, limit, annotation) = boosted(factor(2), None, &unlimited, None);
    assert_eq!((request.as_str(), limit.as_str()), ("200m", ""));
    assert_eq!(annotation.unwrap(), r#"{"requests":{"cpu":"100m"},"limits":{}}"#);

    let quantity = json!({"startupBoost": {"cpu": {"type": "Quantity", "quantity": "200m"}}});
    assert_eq!(boosted(quantity, Some("500m"), &unlimited, None).0, "700m");
}

#[test]
fn with_requests_only_a_boost_stays_a_millicore_below_the_limit() {
    let spec = json!({
        "startupBoost": {"cpu": {"type": "Factor", "factor": 2}},
        "resourcePolicy": {"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]}
    });
    let (request, limit, _) = boosted(spec, Some("100m"), &pod(json!({"cpu": "100m"}), json!({"cpu": "150m"})), None);
    assert_eq!((request.as_str(), limit.as_str()), ("149m", ""));
}

#[test]
fn the_boost_of_a_container_wins_and_mode_off_means_none() {
    let spec = |policy: Value| json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2}}, "resourcePolicy": {"containerPolicies": [policy]}});
    let plain = pod(json!({"cpu": "100m"}), json!({}));
    let own = json!({"containerName": "c1", "startupBoost": {"cpu": {"type": "Factor", "factor": 3}}});
    assert_eq!(boosted(spec(own), Some("100m"), &plain, None).0, "300m");
    let off = json!({"containerName": "c1", "mode": "Off"});
    assert_eq!(boosted(spec(off), None, &plain, None), (String::new(), String::new(), None));
    // Upstream dereferences nil here.
    let empty = json!({"containerName": "c1", "startupBoost": {}});
    assert_eq!(boosted(spec(empty), Some("100m"), &plain, None), ("100m".into(), String::new(), None));
}

/// Two boosted containers, of which the first may be over.
fn boosted_pod(durations: Value) -> (VerticalPodAutoscaler, PodView) {
    let mut spec = json!({"resourcePolicy": {"containerPolicies": [
        {"containerName": "c1", "startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": durations[0]}}},
        {"containerName": "c2", "startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": durations[1]}}}
    ]}});
    spec["updatePolicy"] = json!({"updateMode": "Off"});
    let before = r#"{"requests":{"cpu":"100m"},"limits":{}}"#;
    let pod = view(json!({
        "metadata": {"annotations": {"vpaCpuStartupBoost/c1": before, "vpaCpuStartupBoost/c2": before}},
        "spec": {"containers": [{"name": "c1"}, {"name": "c2"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    }));
    (autoscaler(spec, Some("200m")), pod)
}

#[test]
fn a_boost_that_is_over_ends_and_the_others_stay() {
    let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
    let (mut autoscaler, pod) = boosted_pod(json!([10, 3600]));
    let of =
        |autoscaler: &VerticalPodAutoscaler| unboost(autoscaler, &pod, &LimitRanges::default(), Gates::default(), now);
    let off = of(&autoscaler).unwrap();
    assert_eq!(off.annotations, ["vpaCpuStartupBoost/c1"]);
    assert_eq!((off.targets.len(), off.targets[0].requests.cpu), (1, Some(quantity("100m"))));

    autoscaler.spec.update_policy.as_mut().unwrap().update_mode = Some(UpdateMode::InPlaceOrRecreate);
    assert_eq!(of(&autoscaler).unwrap().targets[0].requests.cpu, Some(quantity("200m")));
    autoscaler.status.recommendation = None;
    assert_eq!(of(&autoscaler).unwrap().targets[0].requests.cpu, Some(quantity("100m")));

    let (running, pod) = boosted_pod(json!([3600, 3600]));
    assert_eq!(unboost(&running, &pod, &LimitRanges::default(), Gates::default(), now), None);
}

#[test]
fn without_a_duration_a_boost_ends_when_the_pod_is_ready() {
    let (autoscaler, mut pod) = boosted_pod(json!([0, 0]));
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(unboost(&autoscaler, &pod, &LimitRanges::default(), Gates::default(), now).unwrap().targets.len(), 2);
    pod.ready_since = None;
    assert_eq!(unboost(&autoscaler, &pod, &LimitRanges::default(), Gates::default(), now), None);
}
