//! ControllerRevisions: what is written, and what is trimmed.

use std::sync::Arc;

use pillion_api::names;
use pillion_api::sidecarset::revision;
use pillion_rollout::{Plan, PodView, RevisionWrite, Snapshot, StoredRevision, Target, Texts, plan};
use serde_json::{Value, json};

use super::fleet::{Fleet, Kind, text};

fn numbers(fleet: &Fleet) -> Vec<i64> {
    let mut numbers: Vec<i64> = fleet.revisions.iter().filter_map(|revision| revision["revision"].as_i64()).collect();
    numbers.sort_unstable();
    numbers
}

/// A set that was changed so often, with no pods.
fn changed(times: usize) -> Fleet {
    let mut fleet = Fleet::new(Kind::Cold, "envoy:1", json!({}), 0);
    fleet.round();
    for i in 2..=times {
        fleet.set_image(&format!("envoy:{i}"));
        fleet.round();
    }
    fleet
}

/// `TestRegisterLatestRevision` and the e2e test of fifteen changes.
#[test]
fn a_revision_is_created_once_and_a_return_renumbers_it() {
    let mut fleet = changed(2);
    assert_eq!(numbers(&fleet), [1, 2]);
    assert_eq!(fleet.plan().revisions, [], "nothing has changed");
    fleet.set_image("envoy:1");
    let back = fleet.round();
    assert!(matches!(&back.revisions[..], [RevisionWrite::Renumber { revision: 3, .. }]), "{:?}", back.revisions);
    assert_eq!(numbers(&fleet), [2, 3]);

    let mut fleet = changed(15);
    assert_eq!(numbers(&fleet), (6..=15).collect::<Vec<_>>());
    fleet.set_image("envoy:12");
    fleet.round();
    assert_eq!(numbers(&fleet), [6, 7, 8, 9, 10, 11, 13, 14, 15, 16]);
    assert_eq!(numbers(&changed(100)).len(), 10);
}

#[test]
fn what_changes_nothing_that_is_injected_makes_no_revision() {
    let mut fleet = changed(1);
    fleet.edit(|set| set["spec"]["updateStrategy"]["partition"] = json!(3));
    assert_eq!(fleet.plan().revisions, []);
    fleet.edit(|set| set["spec"]["volumes"] = json!([{"name": "tmp", "emptyDir": {}}]));
    assert!(
        matches!(&fleet.plan().revisions[..], [RevisionWrite::Create(_)]),
        "a volume is not hashed, and is injected"
    );
}

#[test]
fn a_custom_version_is_added_to_the_revision_that_is_stored() {
    let mut fleet = changed(1);
    let latest = fleet.plan().status.latest_revision.unwrap();
    fleet.edit(|set| set["spec"]["customVersion"] = json!("v1"));
    let write = RevisionWrite::SetCustomVersion { name: latest, custom_version: "v1".to_owned() };
    assert_eq!(fleet.round().revisions, [write]);
    assert_eq!(fleet.plan().revisions, []);
    fleet.edit(|set| set["spec"]["customVersion"] = Value::Null);
    assert_eq!(fleet.plan().revisions, [], "the label stays");
}

#[test]
fn a_name_that_another_revision_has_is_counted_up() {
    let mut fleet = changed(1);
    let mut other = fleet.revisions.remove(0);
    other["data"]["spec"]["volumes"] = json!([{"name": "x"}]);
    let taken = other["metadata"]["name"].clone();
    fleet.revisions = vec![other];
    let plan = fleet.round();
    let [RevisionWrite::Create(new)] = &plan.revisions[..] else { panic!("{:?}", plan.revisions) };
    assert_ne!(new["metadata"]["name"], taken);
    assert_eq!(plan.status.collision_count, Some(1));
    assert_eq!(new["metadata"]["name"].as_str(), plan.status.latest_revision.as_deref());
    assert_eq!(format!("mesh-{}", text(&new["metadata"]["labels"][names::REVISION_HASH])), taken, "as in Kruise");
    assert_eq!(fleet.plan().revisions, []);
}

/// Fifteen revisions, of which pods still have the oldest `in_use`.
fn trimmed(in_use: usize, used_elsewhere: &dyn Fn(&str) -> bool, edit: impl FnOnce(&mut Value)) -> (Fleet, Plan) {
    let mut fleet = changed(1);
    for i in 2..=15 {
        fleet.set_image(&format!("envoy:{i}"));
        let new = revision::new(&fleet.set, i, "kruise-system");
        fleet.revisions.push(new);
    }
    let names: Vec<String> = fleet.revisions.iter().map(|it| text(&it["metadata"]["name"]).to_owned()).collect();
    for name in names.iter().take(in_use) {
        fleet.create(name);
        let record = format!(r#"{{"mesh":{{"hash":"old","controllerRevision":"{name}"}}}}"#);
        fleet.pods.get_mut(name).unwrap()["metadata"]["annotations"][names::HASH] = json!(record);
    }
    fleet.edit(|set| {
        set["spec"]["updateStrategy"]["type"] = json!("NotUpdate");
        edit(set);
    });
    let target = Target::new(Arc::new(fleet.set.clone()));
    let revisions: Vec<StoredRevision<'_>> = fleet.revisions.iter().map(StoredRevision::of).collect();
    let snapshot = Snapshot {
        target: &target,
        revisions: &revisions,
        is_used_elsewhere: used_elsewhere,
        is_in_scope: &|_| false,
        refusals: &pillion_rollout::Refusals::default(),
        system_namespace: "kruise-system",
    };
    let plan = plan(&snapshot, &fleet.views(), fleet.now);
    (fleet, plan)
}

/// `TestTruncateHistory`, with pods that the set does not even match any more.
#[test]
fn the_oldest_revisions_go_unless_a_pod_has_them() {
    for (in_use, left) in [(0, 10), (8, 10), (9, 10), (10, 11), (11, 12), (14, 15), (15, 15)] {
        let (fleet, plan) = trimmed(in_use, &|_| false, |_| {});
        assert_eq!(fleet.revisions.len() - plan.trimmed.len(), left, "{in_use} in use");
        if in_use == 8 {
            let trimmed = |it: &&Value| plan.trimmed.iter().any(|name| it["metadata"]["name"] == name.as_str());
            let gone: Vec<i64> =
                fleet.revisions.iter().filter(trimmed).filter_map(|it| it["revision"].as_i64()).collect();
            assert_eq!(gone, [9, 10, 11, 12, 13]);
        }
    }
}

#[test]
fn a_pinned_revision_and_one_that_is_used_elsewhere_are_never_trimmed() {
    let (fleet, _) = trimmed(0, &|_| false, |_| {});
    let name = |i: usize| text(&fleet.revisions[i]["metadata"]["name"]).to_owned();
    let (pinned, used) = (name(2), name(3));
    let pin = |set: &mut Value| set["spec"]["injectionStrategy"] = json!({"revision": {"revisionName": pinned}});
    let (_, plan) = trimmed(0, &|name| name == used, pin);
    assert_eq!(plan.trimmed, [name(0), name(1), name(4), name(5), name(6)]);
    let short = |set: &mut Value| set["spec"]["injectStrategy"] = json!({"revision": pinned});
    let (_, plan) = trimmed(0, &|_| false, short);
    assert!(!plan.trimmed.contains(&pinned));
}

#[test]
fn the_latest_revision_is_kept_whatever_the_limit() {
    let (fleet, plan) = trimmed(0, &|_| false, |set| set["spec"]["revisionHistoryLimit"] = json!(0));
    assert_eq!(plan.trimmed.len(), 14);
    assert_eq!(plan.status.latest_revision.as_deref(), fleet.revisions[14]["metadata"]["name"].as_str());
}

#[test]
fn a_limit_that_was_stored_below_zero_counts_as_the_default() {
    let (fleet, plan) = trimmed(0, &|_| false, |set| set["spec"]["revisionHistoryLimit"] = json!(-1));
    assert_eq!(fleet.revisions.len() - plan.trimmed.len(), 10);
}

#[test]
fn revisions_of_other_sets_are_ignored() {
    let mut fleet = changed(1);
    for i in 0..20 {
        let mut other = fleet.revisions[0].clone();
        other["metadata"]["name"] = json!(format!("other-{i}"));
        other["metadata"]["labels"][names::REVISION_OWNER] = json!("other");
        other["revision"] = json!(100 + i);
        fleet.revisions.push(other);
    }
    let mut orphan = fleet.revisions[0].clone();
    orphan["metadata"]["ownerReferences"][0]["uid"] = json!("a set of the same name that was deleted");
    orphan["metadata"]["name"] = json!("mesh-old");
    orphan["revision"] = json!(50);
    fleet.revisions.push(orphan);
    let plan = fleet.plan();
    assert_eq!((plan.revisions, plan.trimmed), (vec![], Vec::<String>::new()));
}

#[test]
fn a_pod_records_the_revision_that_it_gets() {
    let mut fleet = Fleet::new(Kind::Cold, "envoy:1", json!({}), 1);
    fleet.set_image("envoy:2");
    let plan = fleet.round();
    let pod = pillion_api::pod::Pod::new(fleet.pods["web-000"].clone()).unwrap();
    let view = PodView::new(&pod, &mut Texts::default());
    let injected = view.injected("mesh").unwrap();
    assert_eq!(injected.revision.as_deref(), plan.status.latest_revision.as_deref());
    assert_eq!(*injected.hash, *fleet.set.current_hash());
}
