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

/// As a new pod has it.
fn cap(
    recommendation: &RecommendedPodResources,
    pod: &PodView,
    policy: Option<&PodResourcePolicy>,
    ranges: &LimitRanges,
    gates: Gates,
) -> Capped {
    super::cap(recommendation, pod, policy, ranges, gates, Unrecommended::Scaled)
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

/// What a recommender has written for a negative `maxAllowed`, and the policy itself.
#[test]
fn what_no_container_can_request_is_left_out() {
    let pod = view(json!([{"name": "c"}]), json!([]));
    let negative = recommend(&[("c", json!({"cpu": "-1", "memory": "50M"}))]);
    let capped = cap(&negative, &pod, None, &LimitRanges::default(), NATIVE);
    assert_eq!(targets(&capped), json!([{"c": {"memory": "50M"}}]));
    let recommended = recommend(&[("c", json!({"cpu": "2"}))]);
    for bounds in
        [json!({"maxAllowed": {"cpu": "-1"}}), json!({"minAllowed": {"cpu": "5"}, "maxAllowed": {"cpu": "3"}})]
    {
        let mut policy = bounds.clone();
        policy["containerName"] = json!("c");
        let capped = cap(&recommended, &pod, Some(&super::tests::policy(policy)), &LimitRanges::default(), NATIVE);
        assert_eq!(targets(&capped), json!([{"c": {"cpu": "2"}}]), "{bounds}");
    }
}

/// The API server counts them all; otherwise the pod would be evicted, and its successor refused.
#[test]
fn containers_that_are_not_sized_keep_what_they_have_under_a_limit_range_for_pods() {
    let amount = |cpu: &str| json!({"cpu": cpu});
    let limited = |name: &str, cpu: &str| container(name, amount(cpu), amount(cpu));
    let mut mesh = limited("mesh", "400m");
    mesh["restartPolicy"] = json!("Always");
    let ranges = pod_range(json!({}), json!({"cpu": "1"}));
    let recommended = recommend(&[("app", amount("2")), ("mesh", amount("3"))]);

    let pod = view(json!([limited("app", "100m")]), json!([mesh.clone()]));
    let off = cap(&recommended, &pod, None, &ranges, Gates::NONE);
    assert_eq!(targets(&off), json!([{"app": {"cpu": "600m"}}]), "the gate is off");
    let disabled = policy(json!({"containerName": "mesh", "mode": "Off"}));
    let off = cap(&recommended, &pod, Some(&disabled), &ranges, NATIVE);
    assert_eq!(targets(&off), json!([{"app": {"cpu": "600m"}}]), "its policy is off");
    let memory = policy(json!({"containerName": "mesh", "controlledResources": ["memory"]}));
    let of_app = recommend(&[("app", amount("2"))]);
    assert_eq!(targets(&cap(&of_app, &pod, Some(&memory), &ranges, NATIVE)), json!([{"app": {"cpu": "600m"}}]));

    // The app has no limit: it is what containers request together that is too much.
    let pod = view(json!([container("app", amount("100m"), json!({}))]), json!([mesh.clone()]));
    assert_eq!(targets(&cap(&recommended, &pod, None, &ranges, Gates::NONE)), json!([{"app": {"cpu": "600m"}}]));

    // Before the app starts, the sidecar runs beside the plain init container that comes after it.
    let pod = view(json!([limited("app", "100m")]), json!([limited("first", "900m"), mesh, limited("setup", "700m")]));
    let both = recommend(&[("app", amount("200m")), ("mesh", amount("600m"))]);
    let on = targets(&cap(&both, &pod, None, &ranges, NATIVE));
    assert_eq!(on, json!([{"app": {"cpu": "200m"}}, {"mesh": {"cpu": "300m"}}]));
}

/// Admission has scaled the container without a recommendation already.
#[test]
fn a_running_pod_has_what_admission_gave_it() {
    let limited = |name: &str, cpu: &str| container(name, json!({"cpu": cpu}), json!({"cpu": cpu}));
    let ranges = pod_range(json!({}), json!({"cpu": "450m"}));
    let recommended = recommend(&[("app", json!({"cpu": "800m"}))]);
    let template = view(json!([limited("app", "100m"), limited("log", "100m")]), json!([]));
    let admitted = targets(&cap(&recommended, &template, None, &ranges, NATIVE));
    assert_eq!(admitted, json!([{"app": {"cpu": "400m"}}, {"log": {"cpu": "50m"}}]));
    let running = view(json!([limited("app", "400m"), limited("log", "50m")]), json!([]));
    let again = super::cap(&recommended, &running, None, &ranges, NATIVE, Unrecommended::Kept);
    assert_eq!(targets(&again), json!([{"app": {"cpu": "400m"}}]));
}

/// The bounds are scaled on their own, and their shares may be others.
#[test]
fn a_target_that_was_scaled_is_within_its_bounds() {
    let one = || json!({"cpu": "1"});
    let pod = view(json!([container("a", one(), one()), container("b", one(), one())]), json!([]));
    let recommended: RecommendedPodResources = serde_json::from_value(json!({"containerRecommendations": [
        {"containerName": "a", "target": {"cpu": "1"}, "lowerBound": {"cpu": "1"}, "upperBound": {"cpu": "1"}},
        {"containerName": "b", "target": {"cpu": "1"}, "lowerBound": {"cpu": "100m"}, "upperBound": {"cpu": "9"}}
    ]}))
    .unwrap();
    let capped = cap(&recommended, &pod, None, &pod_range(json!({}), one()), NATIVE);
    for it in &capped.recommendation.container_recommendations {
        let cpu = |list: Option<&ResourceList>| list.and_then(|list| list.get("cpu")).unwrap();
        let target = cpu(Some(&it.target));
        assert!(cpu(it.lower_bound.as_ref()) <= target && target <= cpu(it.upper_bound.as_ref()), "{it:?}");
    }
}

#[test]
fn native_sidecars_are_scaled_only_with_the_gate_and_init_containers_never() {
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
