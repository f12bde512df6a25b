//! The tables of upstream's `pkg/utils/vpa/capping_test.go`, and of the pull request for native sidecars (autoscaler 8498).

use pillion_api::pod::Pod;
use serde_json::{Value, json};

use super::*;
use crate::pod::Amounts;

const NATIVE: Gates = Gates { native_sidecar: true, ..Gates::NONE };

fn container(name: &str, requests: Value, limits: Value) -> Value {
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

fn view(containers: Value, sidecars: Value) -> PodView {
    let spec = json!({"containers": containers, "initContainers": sidecars});
    PodView::new(&Pod::new(json!({"spec": spec})).unwrap())
}

fn recommend(targets: &[(&str, Value)]) -> RecommendedPodResources {
    let of = |(name, target): &(&str, Value)| json!({"containerName": name, "target": target});
    serde_json::from_value(json!({"containerRecommendations": targets.iter().map(of).collect::<Vec<_>>()})).unwrap()
}

fn policy(policy: Value) -> PodResourcePolicy {
    serde_json::from_value(json!({"containerPolicies": [policy]})).unwrap()
}

fn item(min: Value, max: Value) -> LimitRangeItem {
    LimitRangeItem { min: Amounts::of(&min), max: Amounts::of(&max), default: Amounts::default() }
}

fn pod_range(min: Value, max: Value) -> LimitRanges {
    LimitRanges { pod: Some(item(min, max)), container: None }
}

fn targets(capped: &Capped) -> Value {
    let recommended = capped.recommendation.container_recommendations.iter();
    recommended.map(|it| json!({it.container_name.clone(): it.target})).collect()
}

fn notes(capped: &Capped, container: &str) -> Vec<String> {
    capped.notes.get(container).into_iter().flatten().map(ToString::to_string).collect()
}

/// `TestRecommendationNotAvailable`.
#[test]
fn a_container_that_the_pod_does_not_have_is_left_out() {
    let pod = view(json!([{"name": "ctr-name"}]), json!([]));
    let capped = cap(&recommend(&[("other", json!({"cpu": "100m"}))]), &pod, None, &LimitRanges::default(), NATIVE);
    assert_eq!(capped, Capped::default());
}

/// `TestRecommendationToLimitCapping`.
#[test]
fn with_requests_only_a_request_does_not_exceed_the_limit() {
    let pod = view(json!([container("c", json!({}), json!({"cpu": "30", "memory": "70k"}))]), json!([]));
    let mut recommendation = recommend(&[("c", json!({"cpu": "20", "memory": "80k"}))]);
    recommendation.container_recommendations[0].upper_bound =
        Some(serde_json::from_value(json!({"cpu": "100", "memory": "90k"})).unwrap());

    let free =
        cap(&recommendation, &pod, Some(&policy(json!({"containerName": "*"}))), &LimitRanges::default(), NATIVE);
    assert_eq!((targets(&free), notes(&free, "c").len()), (json!([{"c": {"cpu": "20", "memory": "80k"}}]), 0));

    let only = policy(json!({"containerName": "*", "controlledValues": "RequestsOnly"}));
    let capped = cap(&recommendation, &pod, Some(&only), &LimitRanges::default(), NATIVE);
    assert_eq!(targets(&capped), json!([{"c": {"cpu": "20", "memory": "70k"}}]));
    assert_eq!(notes(&capped, "c"), ["memory capped to container limit"]);
    let upper = capped.recommendation.container_recommendations[0].upper_bound.clone().unwrap();
    assert_eq!(json!(upper), json!({"cpu": "30", "memory": "70k"}));
}

/// `TestRecommendationCappedToMinMaxPolicy`.
#[test]
fn the_policy_bounds_target_and_bounds() {
    let pod = view(json!([{"name": "c"}]), json!([]));
    let mut recommendation = recommend(&[("c", json!({"cpu": "300", "memory": "50k"}))]);
    let list = |cpu: &str, memory: &str| serde_json::from_value(json!({"cpu": cpu, "memory": memory})).unwrap();
    recommendation.container_recommendations[0].lower_bound = Some(list("200", "43k"));
    recommendation.container_recommendations[0].upper_bound = Some(list("500", "55k"));
    let policy = policy(json!({
        "containerName": "c", "minAllowed": {"cpu": "400", "memory": "40k"}, "maxAllowed": {"cpu": "450", "memory": "45k"}
    }));
    let capped = cap(&recommendation, &pod, Some(&policy), &LimitRanges::default(), NATIVE);
    assert_eq!(targets(&capped), json!([{"c": {"cpu": "400", "memory": "45k"}}]));
    assert_eq!(notes(&capped, "c"), ["cpu capped to minAllowed", "memory capped to maxAllowed"]);
    let it = &capped.recommendation.container_recommendations[0];
    assert_eq!(it.lower_bound, Some(list("400", "43k")));
    assert_eq!(it.upper_bound, Some(list("450", "45k")));
}

/// `TestApplyCapsToLimitRange`, and the first cases of `TestApplyLimitRangeMinToRequest`.
#[test]
fn a_limit_range_for_containers_bounds_request_and_limit() {
    let pod = view(
        json!([container("c", json!({"cpu": "1", "memory": "1G"}), json!({"cpu": "1", "memory": "1G"}))]),
        json!([]),
    );
    let ranges = LimitRanges { container: Some(item(json!({"memory": "500M"}), json!({"cpu": "1"}))), pod: None };
    let capped = cap(&recommend(&[("c", json!({"cpu": "2", "memory": "200M"}))]), &pod, None, &ranges, NATIVE);
    assert_eq!(targets(&capped), json!([{"c": {"cpu": "1", "memory": "500M"}}]));
    assert_eq!(
        notes(&capped, "c"),
        ["cpu capped to fit Max in container LimitRange", "memory capped to fit Min in container LimitRange"]
    );

    // The limit is twice the request: the request may be half of the maximum, and not below the minimum itself.
    let pod = view(json!([container("c", json!({"memory": "50M"}), json!({"memory": "100M"}))]), json!([]));
    let within = |min: Value, max: Value, target: &str| {
        let ranges = LimitRanges { container: Some(item(min, max)), pod: None };
        targets(&cap(&recommend(&[("c", json!({"memory": target}))]), &pod, None, &ranges, NATIVE))
    };
    assert_eq!(within(json!({}), json!({"memory": "100M"}), "200M"), json!([{"c": {"memory": "50M"}}]));
    assert_eq!(within(json!({"memory": "500M"}), json!({}), "200M"), json!([{"c": {"memory": "500M"}}]));
}

#[test]
fn a_limit_range_and_then_the_containers_own_limit() {
    let pod = view(
        json!([container("c", json!({"cpu": "1", "memory": "50M"}), json!({"cpu": "1", "memory": "100M"}))]),
        json!([]),
    );
    let only = policy(json!({"containerName": "*", "controlledValues": "RequestsOnly"}));
    let ranges = LimitRanges { container: Some(item(json!({"memory": "500M"}), json!({}))), pod: None };
    let capped = cap(&recommend(&[("c", json!({"cpu": "1", "memory": "200M"}))]), &pod, Some(&only), &ranges, NATIVE);
    assert_eq!(targets(&capped), json!([{"c": {"cpu": "1", "memory": "100M"}}]));
    assert_eq!(
        notes(&capped, "c"),
        ["memory capped to fit Min in container LimitRange", "memory capped to container limit"]
    );
    let of_pod = cap(
        &recommend(&[("c", json!({"cpu": "1", "memory": "200M"}))]),
        &pod,
        Some(&only),
        &pod_range(json!({"memory": "500M"}), json!({})),
        NATIVE,
    );
    assert_eq!(notes(&of_pod, "c"), ["memory capped to container limit"]);
}

/// `TestApplyPodLimitRange`.
#[test]
fn a_limit_range_for_pods_scales_all_containers() {
    let one = || json!({"cpu": "1"});
    let two = view(json!([container("a", one(), one()), container("b", one(), one())]), json!([]));
    let recommended = recommend(&[("a", one()), ("b", one())]);
    let scaled = |min: Value, max: Value| targets(&cap(&recommended, &two, None, &pod_range(min, max), NATIVE));
    assert_eq!(scaled(json!({}), one()), json!([{"a": {"cpu": "500m"}}, {"b": {"cpu": "500m"}}]));
    assert_eq!(scaled(json!({"cpu": "4"}), json!({})), json!([{"a": {"cpu": "2"}}, {"b": {"cpu": "2"}}]));
    assert_eq!(scaled(json!({"cpu": "2"}), json!({"cpu": "2"})), json!([{"a": one()}, {"b": one()}]));
}

/// The end-to-end test "pod min 150m with 4m, 21m, 90m".
#[test]
fn a_minimum_of_pods_is_rounded_up_for_each_container() {
    let limited = |name: &str| container(name, json!({"cpu": "1m"}), json!({"cpu": "1m"}));
    let pod = view(json!([limited("a"), limited("b"), limited("c")]), json!([]));
    let recommended =
        recommend(&[("a", json!({"cpu": "4m"})), ("b", json!({"cpu": "21m"})), ("c", json!({"cpu": "90m"}))]);
    let capped = cap(&recommended, &pod, None, &pod_range(json!({"cpu": "150m"}), json!({})), NATIVE);
    assert_eq!(targets(&capped), json!([{"a": {"cpu": "6m"}}, {"b": {"cpu": "28m"}}, {"c": {"cpu": "118m"}}]));
}

/// "caps to pod limit if below pod limit one container with recommendation and one without".
#[test]
fn a_container_without_a_recommendation_takes_part_with_its_request() {
    let of = |name: &str| container(name, json!({"cpu": "1", "memory": "50M"}), json!({"cpu": "1", "memory": "100M"}));
    let pod = view(json!([of("a"), of("b")]), json!([]));
    let ranges = pod_range(json!({"memory": "500M"}), json!({}));
    let one = cap(&recommend(&[("a", json!({"cpu": "1", "memory": "200M"}))]), &pod, None, &ranges, NATIVE);
    assert_eq!(targets(&one), json!([{"a": {"cpu": "1", "memory": "400M"}}, {"b": {"cpu": "1", "memory": "100M"}}]));
    let both = [("a", json!({"cpu": "1", "memory": "200M"})), ("b", json!({"cpu": "1", "memory": "200M"}))];
    let two = cap(&recommend(&both), &pod, None, &ranges, NATIVE);
    assert_eq!(targets(&two), json!([{"a": {"cpu": "1", "memory": "250M"}}, {"b": {"cpu": "1", "memory": "250M"}}]));
}

/// Upstream panics here: the bounds of the container without a recommendation are nil.
#[test]
fn bounds_that_do_not_exist_are_not_scaled() {
    let one = || json!({"cpu": "1"});
    let pod = view(json!([container("a", one(), one()), container("b", one(), one()), {"name": "bare"}]), json!([]));
    let mut recommended = recommend(&[("a", one())]);
    recommended.container_recommendations[0].upper_bound = Some(serde_json::from_value(json!({"cpu": "8"})).unwrap());
    let capped = cap(&recommended, &pod, None, &pod_range(json!({}), one()), NATIVE);
    assert_eq!(targets(&capped), json!([{"a": {"cpu": "500m"}}, {"b": {"cpu": "500m"}}]));
    let bounds: Vec<_> =
        capped.recommendation.container_recommendations.iter().map(|it| json!(it.upper_bound)).collect();
    assert_eq!(bounds, [json!({"cpu": "1"}), Value::Null]);
}

/// `TestCapPodMemoryWithUnderByteSplit`. Upstream's minimum ends one byte short.
#[test]
fn memory_that_is_split_below_a_byte_stays_within_the_range() {
    let of = |name: &str| container(name, json!({"memory": "50M"}), json!({"memory": "50M"}));
    let pod = view(json!([of("a"), of("b")]), json!([]));
    let recommended = recommend(&[("a", json!({"memory": "1Gi"})), ("b", json!({"memory": "2Gi"}))]);
    let bytes = |min: Value, max: Value| -> Vec<i128> {
        let capped =
            cap(&recommended, &pod, None, &pod_range(min, max), NATIVE).recommendation.container_recommendations;
        capped.iter().map(|it| it.target.get("memory").unwrap().value()).collect()
    };
    assert_eq!(bytes(json!({}), json!({"memory": "1Gi"})), [357_913_941, 715_827_882]);
    let min = bytes(json!({"memory": "4Gi"}), json!({}));
    assert_eq!(min, [1_431_655_766, 2_863_311_531]);
    assert!(min.iter().sum::<i128>() >= 4 << 30);
}

#[test]
fn native_sidecars_take_part_only_with_the_gate_and_init_containers_never() {
    let one = || json!({"cpu": "1"});
    let mut sidecar = container("mesh", one(), one());
    sidecar["restartPolicy"] = json!("Always");
    let pod = view(json!([container("app", one(), one())]), json!([container("setup", one(), one()), sidecar]));
    let recommended = recommend(&[("app", one()), ("mesh", one()), ("setup", one())]);
    let ranges = pod_range(json!({}), one());
    let on = targets(&cap(&recommended, &pod, None, &ranges, NATIVE));
    assert_eq!(on, json!([{"app": {"cpu": "500m"}}, {"mesh": {"cpu": "500m"}}]));
    let off = targets(&cap(&recommended, &pod, None, &ranges, Gates::default()));
    assert_eq!(off, json!([{"app": {"cpu": "1"}}]));
}
