//! The pair of containers of a hot upgrade.

use pillion_api::names;
use serde_json::{Value, json};

use super::fleet::{EMPTY, Fleet, Kind, counts, steps};

const POD: &str = "web-000";

fn versions(fleet: &Fleet) -> String {
    let version = |prefix: &str, container: &str| fleet.annotation(POD, &format!("{prefix}{container}")).to_owned();
    let both = |container| {
        let alternative = version(names::HOT_UPGRADE_VERSION_ALT_PREFIX, container);
        format!("{}/{alternative}", version(names::HOT_UPGRADE_VERSION_PREFIX, container))
    };
    format!("{} {}", both("proxy-1"), both("proxy-2"))
}

fn upgrading(to: &str) -> Fleet {
    let mut fleet = Fleet::new(Kind::Hot, "mesh:1", json!({}), 1);
    fleet.set_image(to);
    fleet
}

/// `TestUpdateHotUpgradeSidecar`: the status at the start of each round.
#[test]
fn the_idle_container_takes_over_and_the_other_is_reset() {
    let mut fleet = upgrading("mesh:2");
    assert_eq!(versions(&fleet), "1/0 0/1");
    let first = fleet.round();
    assert_eq!(
        (counts(&first), fleet.images(POD)),
        ([1, 0, 1, 0], vec!["proxy-1=mesh:1".into(), "proxy-2=mesh:2".into()])
    );
    assert_eq!(fleet.annotation(POD, names::WORKING_HOT_UPGRADE_CONTAINER), r#"{"proxy":"proxy-2"}"#);
    assert_eq!(versions(&fleet), "1/100 100/1");

    let second = fleet.round();
    assert_eq!((counts(&second), steps(&second)), ([1, 1, 0, 0], vec![]), "the kubelet has not started it");
    fleet.kubelets();
    let third = fleet.round();
    assert_eq!((counts(&third), steps(&third)), ([1, 1, 0, 0], vec![format!("{POD}: reset proxy-1 mesh:1 → {EMPTY}")]));
    assert_eq!(versions(&fleet), "0/100 100/0");
    assert_eq!(counts(&fleet.round()), [1, 1, 0, 0], "the kubelet has not restarted it");
    fleet.kubelets();
    assert_eq!(counts(&fleet.round()), [1, 1, 1, 1]);

    fleet.set_image("mesh:3");
    fleet.settle();
    assert_eq!(fleet.images(POD), ["proxy-1=mesh:3", &format!("proxy-2={EMPTY}")]);
}

#[test]
fn a_third_image_replaces_one_that_does_not_start() {
    let mut fleet = upgrading("bad:2");
    fleet.round();
    fleet.kubelets();
    assert_eq!(steps(&fleet.plan()), Vec::<String>::new(), "the container that worked keeps working");
    fleet.set_image("mesh:3");
    assert_eq!(steps(&fleet.round()), [format!("{POD}: update proxy-2 bad:2 → mesh:3")]);
    fleet.settle();
    assert_eq!(fleet.images(POD), [&format!("proxy-1={EMPTY}"), "proxy-2=mesh:3"]);
}

/// In Kruise the pod never becomes ready again.
#[test]
fn a_rollback_returns_to_the_container_that_never_stopped() {
    for broken in ["bad:2", "crash:2", "unready:2"] {
        let mut fleet = upgrading(broken);
        fleet.round();
        fleet.kubelets();
        fleet.round();
        fleet.set_image("mesh:1");
        fleet.round();
        assert_eq!(fleet.annotation(POD, names::WORKING_HOT_UPGRADE_CONTAINER), r#"{"proxy":"proxy-1"}"#);
        assert_eq!(fleet.images(POD)[0], "proxy-1=mesh:1", "it runs on");
        let plan = fleet.settle();
        assert_eq!(counts(&plan), [1, 1, 1, 1], "{broken}");
        assert_eq!(fleet.images(POD), ["proxy-1=mesh:1", &format!("proxy-2={EMPTY}")]);
    }
}

#[test]
fn a_new_revision_waits_until_the_pair_is_settled() {
    let mut fleet = upgrading("mesh:2");
    fleet.round();
    fleet.kubelets();
    fleet.set_image("mesh:3");
    assert_eq!(steps(&fleet.round()), [format!("{POD}: reset proxy-1 mesh:1 → {EMPTY}")]);
    fleet.settle();
    assert_eq!(fleet.images(POD), ["proxy-1=mesh:3", &format!("proxy-2={EMPTY}")]);
}

#[test]
fn a_paused_rollout_does_not_touch_a_pair_and_one_that_paused_itself_finishes_it() {
    let mut fleet = Fleet::new(Kind::Hot, "mesh:1", json!({"maxUnavailable": 2}), 3);
    fleet.set_image("mesh:2");
    fleet.round();
    fleet.kubelets();
    fleet.edit(|set| set["spec"]["updateStrategy"]["paused"] = json!(true));
    assert_eq!(fleet.plan().updates, []);
    fleet.edit(|set| set["spec"]["updateStrategy"]["paused"] = json!(false));
    let latest = fleet.plan().status.latest_revision.unwrap();
    fleet.edit(|set| {
        set["status"] = json!({"matchedPods": 3, "updatedPods": 2, "readyPods": 1, "pausedRevision": latest});
    });
    let steps = steps(&fleet.plan());
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(steps.iter().all(|step| step.contains(": reset ")), "{steps:?}");
}

#[test]
fn a_set_without_an_empty_image_resets_nothing() {
    let mut fleet = upgrading("mesh:2");
    fleet.round();
    fleet.kubelets();
    fleet.edit(|set| set["spec"]["containers"][0]["upgradeStrategy"]["hotUpgradeEmptyImage"] = Value::Null);
    assert!(steps(&fleet.plan()).iter().all(|step| !step.contains("reset")));
}

#[test]
fn a_hot_upgrade_is_finished_although_the_set_has_changed_in_more_than_the_image() {
    let mut fleet = upgrading("mesh:2");
    fleet.round();
    fleet.kubelets();
    fleet.edit(|set| set["spec"]["containers"][0]["env"] = json!([{"name": "NEW", "value": "1"}]));
    assert_eq!(steps(&fleet.round()).first(), Some(&format!("{POD}: reset proxy-1 mesh:1 → {EMPTY}")));
    fleet.kubelets();
    assert_eq!(fleet.images(POD), [format!("proxy-1={EMPTY}"), "proxy-2=mesh:2".to_owned()]);
    assert_eq!(fleet.plan().status.not_upgradable_pods, Some(1));
    // Another empty image is nothing to be finished.
    fleet.edit(|set| set["spec"]["containers"][0]["upgradeStrategy"]["hotUpgradeEmptyImage"] = json!("empty:2"));
    let plan = fleet.plan();
    assert!(!steps(&plan).iter().any(|step| step.contains("reset")), "{:?}", steps(&plan));
    assert_eq!(plan.status.ready_pods, 1);
}
