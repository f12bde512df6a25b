//! What Kruise's own tests say about the choice of pods: `sidecarset_strategy_test.go` and `sidecarset_processor_test.go`.

use pillion_api::names;
use serde_json::{Value, json};

use super::fleet::{Fleet, Kind, counts, steps};

fn updated(fleet: &Fleet) -> usize {
    steps(&fleet.plan()).iter().filter(|step| step.contains(": update ")).count()
}

/// Pods, how many of them are updated, and how many of those are ready again.
fn fleet(pods: usize, upgraded: usize, ready: usize, strategy: Value) -> Fleet {
    let mut fleet = Fleet::new(Kind::Cold, "envoy:1", json!({"maxUnavailable": "100%"}), pods);
    fleet.set_image("envoy:2");
    fleet.edit(|set| set["spec"]["updateStrategy"] = json!({"maxUnavailable": upgraded}));
    fleet.round();
    for pod in fleet.pods.keys().take(ready).cloned().collect::<Vec<_>>() {
        fleet.kubelet(&pod);
    }
    fleet.edit(|set| set["spec"]["updateStrategy"] = strategy);
    fleet
}

#[test]
fn as_many_pods_are_updated_as_partition_and_max_unavailable_allow() {
    for (pods, upgraded, ready, strategy, expected) in [
        (100, 30, 26, json!({"maxUnavailable": 10}), 6),
        (100, 30, 26, json!({"maxUnavailable": "10%"}), 6),
        (100, 30, 25, json!({"maxUnavailable": "5%"}), 0),
        (100, 30, 27, json!({"maxUnavailable": 100}), 70),
        (100, 80, 76, json!({"maxUnavailable": 10, "partition": 18}), 2),
        (100, 80, 76, json!({"maxUnavailable": 10, "partition": 10}), 6),
        (100, 80, 76, json!({"maxUnavailable": 10, "partition": "18%"}), 2),
        (100, 80, 76, json!({"maxUnavailable": 10, "partition": "10%"}), 6),
        (5, 0, 0, json!({"maxUnavailable": "5%"}), 1),
        (5, 0, 0, json!({"maxUnavailable": 5, "partition": "99%"}), 1),
        (5, 0, 0, json!({"maxUnavailable": 5, "partition": "1%"}), 4),
        (5, 0, 0, json!({"maxUnavailable": 5, "partition": "100%"}), 0),
        (5, 0, 0, json!({"maxUnavailable": 0}), 0),
        (5, 0, 0, json!({}), 1),
        (5, 0, 0, json!({"type": "NotUpdate", "maxUnavailable": 5}), 0),
        (5, 0, 0, json!({"paused": true, "maxUnavailable": 5}), 0),
    ] {
        let fleet = fleet(pods, upgraded, ready, strategy.clone());
        assert_eq!(updated(&fleet), expected, "{upgraded} of {pods} updated, {ready} ready, {strategy}");
    }
}

#[test]
fn only_selected_pods_are_updated() {
    let mut fleet = fleet(20, 0, 0, json!({"maxUnavailable": 20, "selector": {"matchLabels": {"canary": "yes"}}}));
    for pod in fleet.pods.values_mut().take(3) {
        pod["metadata"]["labels"]["canary"] = json!("yes");
    }
    assert_eq!(updated(&fleet), 3);
    // Kruise counts as many pods as are left to update for a partition; here every pod that stays old counts.
    assert_eq!(counts(&fleet.plan()), [20, 0, 20, 0]);
}

#[test]
fn pods_that_differ_in_more_than_images_are_left_alone() {
    let mut fleet = fleet(10, 0, 0, json!({"maxUnavailable": "50%"}));
    for pod in fleet.pods.values_mut().take(5) {
        let key = names::HASH_WITHOUT_IMAGE;
        pod["metadata"]["annotations"][key] = json!(r#"{"mesh":{"hash":"other"}}"#);
    }
    let plan = fleet.plan();
    assert_eq!(updated(&fleet), 5);
    assert_eq!(plan.status.not_upgradable_pods, Some(5));
    assert_eq!(steps(&plan).iter().filter(|step| step.ends_with("upgradable false")).count(), 5);
    fleet.settle();
    assert_eq!((fleet.count("envoy:1"), fleet.count("envoy:2")), (5, 5));
}

/// `TestUpdateColdUpgradeSidecar`: the status at the start of each round.
#[test]
fn a_cold_update_goes_pod_by_pod() {
    for kind in [Kind::Cold, Kind::Native] {
        let mut fleet = Fleet::new(kind, "envoy:1", json!({"maxUnavailable": 1}), 2);
        fleet.set_image("envoy:2");
        let first = fleet.round();
        assert_eq!((counts(&first), fleet.count("envoy:2")), ([2, 0, 2, 0], 1));
        assert_eq!(counts(&fleet.round()), [2, 1, 1, 0]);
        fleet.kubelets();
        let third = fleet.round();
        assert_eq!((counts(&third), fleet.count("envoy:2")), ([2, 1, 2, 1], 2));
        assert_eq!(counts(&fleet.round()), [2, 2, 1, 1]);
        fleet.kubelets();
        assert_eq!(counts(&fleet.round()), [2, 2, 2, 2]);
        assert_eq!(fleet.pod_writes, 4, "an update and a condition for each pod");
    }
}

#[test]
fn a_pod_that_is_not_ready_is_updated_whatever_is_unavailable() {
    let mut fleet = fleet(5, 0, 0, json!({"maxUnavailable": 0}));
    fleet.unready_apps = vec!["web-003".to_owned()];
    fleet.kubelets();
    assert_eq!(steps(&fleet.plan()), ["web-003: update proxy envoy:1 → envoy:2"]);
}

#[test]
fn pods_of_a_newer_readiness_go_first_and_equal_ones_by_name() {
    let mut fleet = fleet(4, 0, 0, json!({"maxUnavailable": 4}));
    let ready = |pod: &mut Value, time: &str| pod["status"]["conditions"][0]["lastTransitionTime"] = json!(time);
    ready(fleet.pods.get_mut("web-002").unwrap(), "2020-01-01T00:00:00Z");
    fleet.pods.get_mut("web-003").unwrap()["status"]["containerStatuses"][0]["restartCount"] = json!(3);
    let order: Vec<String> = steps(&fleet.plan()).iter().map(|step| step[..7].to_owned()).collect();
    assert_eq!(order, ["web-002", "web-003", "web-000", "web-001"]);
}

fn order(labels: &[(&str, &str)], strategy: Value) -> Vec<String> {
    let mut fleet = fleet(labels.len(), 0, 0, json!({"maxUnavailable": "100%"}));
    fleet.edit(|set| {
        set["spec"]["updateStrategy"].as_object_mut().unwrap().extend(strategy.as_object().unwrap().clone());
    });
    for (pod, (key, value)) in fleet.pods.values_mut().zip(labels) {
        if !key.is_empty() {
            pod["metadata"]["labels"][key] = json!(value);
        }
    }
    steps(&fleet.plan()).iter().map(|step| step[6..7].to_owned()).collect()
}

#[test]
fn weights_add_up_and_the_heaviest_goes_first() {
    let term =
        |weight: i32, key: &str, value: &str| json!({"weight": weight, "matchSelector": {"matchLabels": {key: value}}});
    let strategy = json!({"priorityStrategy": {"weightPriority": [
        term(20, "tier", "a"), term(50, "tier", "b"), term(40, "app", "web"),
    ]}});
    assert_eq!(order(&[("", ""), ("tier", "a"), ("tier", "b"), ("tier", "c")], strategy), ["2", "1", "0", "3"]);
}

/// It may stay where it is stored: pods with it do not go last, and it takes nothing from another weight.
#[test]
fn a_weight_that_was_stored_below_zero_counts_as_zero() {
    let term = |weight: i32, tier: &str| json!({"weight": weight, "matchSelector": {"matchLabels": {"tier": tier}}});
    let strategy = json!({"priorityStrategy": {"weightPriority": [
        term(-50, "a"), term(20, "b"), term(-15, "b"), term(10, "c"),
    ]}});
    let labels = [("tier", "a"), ("", ""), ("tier", "c"), ("tier", "b")];
    assert_eq!(order(&labels, strategy), ["3", "2", "0", "1"]);
}

#[test]
fn ordered_labels_go_by_the_number_at_the_end_and_pods_without_any_first() {
    let strategy = json!({"priorityStrategy": {"orderPriority": [{"orderedKey": "a"}, {"orderedKey": "b"}]}});
    assert_eq!(
        order(&[("b", "x-9"), ("a", "x-1"), ("a", "x-10"), ("", ""), ("b", "10")], strategy),
        ["3", "2", "1", "4", "0"]
    );
}

/// `scatter_sort_test.go`: five pods with a label and five without take turns, and the last with the label is the last of all.
#[test]
fn labelled_pods_are_spread_over_the_rollout() {
    let labels: Vec<(&str, &str)> = (0..10).map(|i| if i < 5 { ("zone", "a") } else { ("", "") }).collect();
    let strategy = json!({"scatterStrategy": [{"key": "zone", "value": "a"}]});
    assert_eq!(order(&labels, strategy).concat(), "0516273894");
}

#[test]
fn a_star_spreads_every_value() {
    let labels = [("zone", "a"), ("zone", "a"), ("zone", "b"), ("zone", "b"), ("zone", "c"), ("zone", "c")];
    let spread = order(&labels, json!({"scatterStrategy": [{"key": "zone", "value": "*"}]}));
    let zones: Vec<usize> = spread.iter().map(|pod| pod.parse::<usize>().unwrap() / 2).collect();
    assert_eq!(zones.len(), 6);
    assert!(zones.windows(3).all(|three| three[0] != three[1] || three[1] != three[2]), "{zones:?}");
}

#[test]
fn more_values_than_steps_are_spread_evenly() {
    let values: Vec<String> = (0..40).map(|i| format!("v{:02}", i / 2)).collect();
    let mut fleet =
        fleet(40, 0, 0, json!({"maxUnavailable": "100%", "scatterStrategy": [{"key": "zone", "value": "*"}]}));
    for (pod, value) in fleet.pods.values_mut().zip(&values) {
        pod["metadata"]["labels"]["zone"] = json!(value);
    }
    let order: Vec<usize> = steps(&fleet.plan()).iter().map(|step| step[4..7].parse().unwrap()).collect();
    let zones: Vec<usize> = order.iter().map(|pod| pod / 2).collect();
    let mut first_half = zones[..20].to_vec();
    first_half.sort_unstable();
    assert_eq!(first_half, (0..20).collect::<Vec<_>>(), "every zone has one pod in the first half");
}

#[test]
fn a_metadata_patch_follows_the_next_update_of_an_image() {
    let mut fleet = fleet(2, 0, 0, json!({"maxUnavailable": 2}));
    fleet.set_image("envoy:1");
    fleet.settle();
    fleet.edit(|set| {
        set["spec"]["patchPodMetadata"] = json!([{"annotations": {"team": "net"}, "patchPolicy": "Retain"}]);
    });
    let plan = fleet.settle();
    assert_eq!((counts(&plan), fleet.annotation("web-000", "team")), ([2, 2, 2, 2], ""));
    fleet.set_image("envoy:2");
    fleet.settle();
    assert_eq!(fleet.annotation("web-000", "team"), "net");
}

#[test]
fn pods_that_are_gone_or_not_injected_or_no_longer_selected_do_not_count() {
    let mut fleet = fleet(6, 0, 0, json!({"maxUnavailable": 6}));
    let mut pods = fleet.pods.values_mut();
    pods.next().unwrap()["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    pods.next().unwrap()["status"]["phase"] = json!("Succeeded");
    pods.next().unwrap()["metadata"]["annotations"][names::INJECTED_LIST] = json!("other");
    pods.next().unwrap()["metadata"]["labels"]["app"] = json!("db");
    assert_eq!((counts(&fleet.plan()), updated(&fleet)), ([2, 0, 2, 0], 2));
}

#[test]
fn a_set_that_adds_a_container_keeps_its_pods_and_says_that_they_must_be_recreated() {
    let mut fleet = fleet(2, 0, 0, json!({"maxUnavailable": 2}));
    fleet.edit(|set| {
        let containers = set["spec"]["containers"].as_array_mut().unwrap();
        containers.push(json!({"name": "logs", "image": "logs:1"}));
    });
    assert_eq!((counts(&fleet.plan()), updated(&fleet)), ([2, 0, 2, 0], 0));
    assert_eq!(fleet.plan().status.not_upgradable_pods, Some(2));
}

/// The keys and their order are those that Go writes; `wasReady` is ours.
#[test]
fn what_is_written_on_a_pod_can_be_read_by_kruise() {
    let mut fleet = fleet(1, 0, 0, json!({}));
    fleet.set.metadata.annotations.as_mut().unwrap().insert(names::HASH.to_owned(), "h2".to_owned());
    fleet.round();
    insta::assert_snapshot!(fleet.annotation("web-000", names::HASH), @r#"{"mesh":{"updateTimestamp":"1970-01-01T00:16:40Z","hash":"h2","sidecarSetName":"mesh","sidecarList":["proxy"],"controllerRevision":"mesh-6547dc98d5"}}"#);
    insta::assert_snapshot!(fleet.annotation("web-000", names::IN_PLACE_UPDATE_STATE), @r#"{"mesh":{"revision":"h2","updateTimestamp":"1970-01-01T00:16:40Z","lastContainerStatuses":{"proxy":{"imageID":"registry.test/envoy@sha256:envoy:1","restartCount":0}},"wasReady":true}}"#);
    insta::assert_snapshot!(fleet.pods["web-000"]["status"]["conditions"][1], @r#"{"type":"SidecarSetUpgradable","status":"True","lastProbeTime":null,"lastTransitionTime":"1970-01-01T00:16:40Z","reason":"AllSidecarsetUpgradable","message":"{\"mesh\":true}"}"#);
}
