//! Pods with records that cannot be read.

use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_rollout::{PodUpdate, Step};
use serde_json::json;

use super::fleet::{Fleet, Kind, conditions};

fn rolling(kind: Kind, annotation: &str, text: &str) -> Fleet {
    let mut fleet = Fleet::new(kind, "envoy:1", json!({}), 2);
    fleet.settle();
    let annotations = &mut fleet.pods.get_mut("web-000").unwrap()["metadata"]["annotations"];
    annotations[annotation] = json!(text);
    annotations[names::INJECTED_LIST] = json!("mesh,other");
    fleet.set_image("envoy:2");
    fleet
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_holds_no_other_pod_back() {
    for (kind, annotation) in [
        (Kind::Cold, names::HASH),
        (Kind::Cold, names::HASH_WITHOUT_IMAGE),
        (Kind::Cold, names::IN_PLACE_UPDATE_STATE),
        (Kind::Hot, names::WORKING_HOT_UPGRADE_CONTAINER),
    ] {
        let mut fleet = rolling(kind, annotation, "{nonsense");
        let before = fleet.pods["web-000"].clone();
        let plan = fleet.settle();
        assert_eq!(fleet.count("envoy:2"), 1, "{annotation}: the other pod is updated");
        assert_eq!(fleet.pods["web-000"]["spec"], before["spec"], "{annotation}");
        assert_eq!(fleet.pods["web-000"]["metadata"]["annotations"], before["metadata"]["annotations"]);
        let said = conditions(&plan);
        assert!(said.contains("Blocked True UnreadableRecord"), "{annotation}: {said}");
        assert!(said.contains(&format!("default/web-000 (annotation {annotation})")), "{said}");
        assert!(!said.contains("Complete") && !said.contains("must be recreated"), "{said}");
        let view = fleet.view("web-000");
        let state = fleet.target().standing(&view).unwrap().state.to_string();
        assert_eq!(state, format!("annotation {annotation} cannot be read"));
    }
}

#[test]
fn a_pod_goes_on_when_its_record_can_be_read_again() {
    let mut fleet = rolling(Kind::Cold, names::IN_PLACE_UPDATE_STATE, "{nonsense");
    fleet.settle();
    let annotations = fleet.pods.get_mut("web-000").unwrap()["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.shift_remove(names::IN_PLACE_UPDATE_STATE);
    let said = conditions(&fleet.settle());
    assert!(said.contains("Progressing True Complete: 2 of 2") && said.contains("Blocked False"), "{said}");
}

#[test]
fn records_of_other_sets_are_never_written_over() {
    let unreadable = r#"{"other":{"hash":"x"},"mesh":5}"#;
    let fleet = rolling(Kind::Cold, names::HASH, unreadable);
    let pod = Pod::new(fleet.pods["web-000"].clone()).unwrap();
    let update = |step| {
        let (namespace, name) = ("default".to_owned(), "web-000".to_owned());
        PodUpdate { namespace, name, uid: fleet.view("web-000").uid.to_string(), step }
    };
    let steps = [
        Step::Update { revision: "mesh-1".to_owned(), images: Vec::new() },
        Step::Reset { images: Vec::new() },
        Step::SetUpgradable(false),
    ];
    for step in steps {
        let change = fleet.target().change(&update(step.clone()), &pod, fleet.now);
        assert!(change.is_empty(), "{step:?}: {change:?}");
    }
}

#[test]
fn the_record_of_hot_upgrades_matters_to_sets_with_hot_upgrades_alone() {
    let mut fleet = rolling(Kind::Cold, names::WORKING_HOT_UPGRADE_CONTAINER, "{nonsense");
    let said = conditions(&fleet.settle());
    assert!(said.contains("Progressing True Complete: 2 of 2"), "{said}");
}

#[test]
fn a_pod_that_has_the_latest_revision_and_is_ready_is_not_complained_about() {
    let mut fleet = Fleet::new(Kind::Cold, "envoy:1", json!({}), 1);
    fleet.settle();
    fleet.pods.get_mut("web-000").unwrap()["metadata"]["annotations"][names::HASH_WITHOUT_IMAGE] = json!("nonsense");
    let said = conditions(&fleet.settle());
    assert!(said.contains("Blocked False NotBlocked"), "{said}");
}
