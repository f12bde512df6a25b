//! The controller may end at any point: all that it knows is in the cluster.

use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_rollout::{PodView, Texts};
use serde_json::{Value, json};

use super::fleet::{Fleet, Kind, counts, steps};

/// What must be the same in the end: everything but times and versions.
fn end(fleet: &Fleet) -> Value {
    let pod = |(name, pod): (&String, &Value)| {
        let view = PodView::new(&Pod::new(pod.clone()).unwrap(), &mut Texts::default());
        let injected = view.injected("mesh").unwrap();
        let working = fleet.annotation(name, names::WORKING_HOT_UPGRADE_CONTAINER);
        (
            name.clone(),
            json!([fleet.images(name), *injected.hash, injected.revision.as_deref(), injected.is_upgradable, working]),
        )
    };
    let pods: serde_json::Map<String, Value> = fleet.pods.iter().map(pod).collect();
    let revisions: Vec<&Value> = fleet.revisions.iter().map(|it| &it["metadata"]["name"]).collect();
    let status = fleet.set.status.as_ref().unwrap();
    json!({"pods": pods, "revisions": revisions, "updated": status.updated_ready_pods, "latest": status.latest_revision})
}

fn start(kind: Kind) -> Fleet {
    let mut fleet = Fleet::new(kind, "mesh:1", json!({"maxUnavailable": 2}), 4);
    fleet.settle();
    fleet.set_image("mesh:2");
    fleet
}

/// Plays the rollout, and ends the controller after each of its first `killed` rounds' nth write.
fn play(kind: Kind, nth: usize, is_killed_inside: bool) -> (Value, usize) {
    let mut fleet = start(kind);
    let mut most = 0;
    for _ in 0..200 {
        let plan = fleet.plan();
        let writes = Fleet::writes(&plan);
        if writes.is_empty() {
            fleet.kubelets();
            if Fleet::writes(&fleet.plan()).is_empty() {
                return (end(&fleet), most);
            }
            continue;
        }
        most = most.max(writes.len());
        // At least one write succeeds, or nothing would ever happen.
        for (i, write) in writes.iter().take(nth.max(1)).enumerate() {
            fleet.write(&plan, write, is_killed_inside && i + 1 == nth);
        }
        fleet.kubelets();
    }
    panic!("the rollout does not come to an end");
}

#[test]
fn a_controller_that_ends_after_any_write_is_continued_to_the_same_end() {
    for kind in [Kind::Cold, Kind::Native, Kind::Hot, Kind::HotNative] {
        let (undisturbed, most) = play(kind, usize::MAX, false);
        assert_eq!(undisturbed["updated"], 4);
        for nth in 1..=most {
            for is_killed_inside in [false, true] {
                let (recovered, _) = play(kind, nth, is_killed_inside);
                assert_eq!(recovered, undisturbed, "{kind:?}, ended in write {nth}");
            }
        }
    }
}

#[test]
fn a_step_that_was_done_changes_nothing() {
    let mut fleet = start(Kind::Cold);
    let plan = fleet.plan();
    for write in Fleet::writes(&plan).iter().chain(&Fleet::writes(&plan)) {
        fleet.write(&plan, write, false);
    }
    assert_eq!(fleet.pod_writes, 4, "two pods, an update and a condition for each");
}

#[test]
fn a_step_is_not_taken_for_another_pod_of_the_same_name() {
    let mut fleet = start(Kind::Cold);
    let plan = fleet.plan();
    fleet.set_image("mesh:1");
    fleet.create("web-000");
    fleet.set_image("mesh:2");
    let update = plan.updates.iter().find(|update| update.name == "web-000").unwrap();
    let change = fleet.target().change(update, &Pod::new(fleet.pods["web-000"].clone()).unwrap(), fleet.now);
    assert!(change.is_empty());
}

#[test]
fn a_patch_is_refused_when_the_pod_has_changed() {
    let fleet = start(Kind::Cold);
    let plan = fleet.plan();
    let pod = Pod::new(fleet.pods["web-000"].clone()).unwrap();
    let change = fleet.target().change(&plan.updates[0], &pod, fleet.now);
    let patch = serde_json::to_value(&change.patch).unwrap();
    assert_eq!(
        patch[0],
        json!({"op": "add", "path": "/metadata/resourceVersion", "value": pod.as_value()["metadata"]["resourceVersion"]})
    );
    let paths: Vec<&str> = patch.as_array().unwrap().iter().skip(1).filter_map(|it| it["path"].as_str()).collect();
    insta::assert_debug_snapshot!(paths, @r#"
    [
        "/metadata/annotations/kruise.io~1sidecarset-hash",
        "/metadata/annotations/kruise.io~1sidecarset-inplace-update-state",
        "/spec/containers/0/image",
    ]
    "#);
}

#[test]
fn a_rollout_that_is_changed_goes_straight_to_the_newest_revision() {
    let mut fleet = start(Kind::Cold);
    fleet.round();
    fleet.set_image("mesh:3");
    assert_eq!(steps(&fleet.plan()), Vec::<String>::new(), "both pods that are in flight count as unavailable");
    fleet.kubelets();
    fleet.settle();
    assert_eq!((fleet.count("mesh:3"), fleet.count("mesh:2")), (4, 0));
}

/// An image that was replaced before its container started is not what the update waits for.
#[test]
fn a_container_that_still_starts_with_the_image_before_is_not_taken_for_the_new_one() {
    let mut fleet = start(Kind::Cold);
    fleet.edit(|set| set["spec"]["updateStrategy"]["maxUnavailable"] = json!(4));
    fleet.round();
    let proxy = |fleet: &mut Fleet, change: &dyn Fn(&mut Value)| {
        let statuses = fleet.pods.get_mut("web-000").unwrap()["status"]["containerStatuses"].as_array_mut().unwrap();
        change(statuses.iter_mut().find(|it| it["name"] == "proxy").unwrap());
    };
    // The container has stopped, and the image is being pulled.
    proxy(&mut fleet, &|it| it["ready"] = json!(false));
    fleet.set_image("mesh:3");
    fleet.round();
    assert!(fleet.images("web-000").contains(&"proxy=mesh:3".to_owned()));
    // The kubelet was about to start the one before.
    proxy(&mut fleet, &|it| {
        (it["image"], it["imageID"], it["ready"]) =
            (json!("mesh:2"), json!("registry.test/mesh@sha256:mesh:2"), json!(true));
    });
    assert_eq!(fleet.plan().status.updated_ready_pods, Some(0));
    fleet.kubelet("web-000");
    assert_eq!(fleet.plan().status.updated_ready_pods, Some(1));
}

#[test]
fn one_image_with_two_tags_is_updated_too() {
    let mut fleet = start(Kind::Cold);
    fleet.round();
    let report = |fleet: &mut Fleet, image: &str, restarts: u32| {
        let pod = fleet.pods.get_mut("web-000").unwrap();
        pod["status"]["observedGeneration"] = pod["metadata"]["generation"].clone();
        let proxy = pod["status"]["containerStatuses"].as_array_mut().unwrap();
        let proxy = proxy.iter_mut().find(|it| it["name"] == "proxy").unwrap();
        (proxy["image"], proxy["restartCount"]) = (json!(image), json!(restarts));
        fleet.plan().status.updated_ready_pods
    };
    // containerd reports the first of an image's names, whichever was asked for.
    for reported in ["docker.io/library/mesh:1", "docker.io/library/mesh:2"] {
        assert_eq!(report(&mut fleet, reported, 0), Some(0), "the container of before still runs");
        assert_eq!(report(&mut fleet, reported, 1), Some(1), "the image ID is the one before");
    }
}

#[test]
fn an_image_that_goes_back_before_the_kubelet_saw_the_new_one_is_done_without_a_restart() {
    let mut fleet = start(Kind::Cold);
    fleet.edit(|set| set["spec"]["updateStrategy"]["maxUnavailable"] = json!(4));
    fleet.round();
    // The container stopped being ready for another reason, so that the pod can be changed again.
    let statuses = fleet.pods.get_mut("web-000").unwrap()["status"]["containerStatuses"].as_array_mut().unwrap();
    statuses.iter_mut().find(|it| it["name"] == "proxy").unwrap()["ready"] = json!(false);
    fleet.set_image("mesh:1");
    fleet.round();
    assert!(fleet.images("web-000").contains(&"proxy=mesh:1".to_owned()));
    fleet.kubelet("web-000");
    assert_eq!(fleet.pods["web-000"]["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(fleet.plan().status.updated_ready_pods, Some(1));
}

#[test]
fn a_record_that_cannot_be_read_is_written_anew() {
    let mut fleet = start(Kind::Cold);
    for pod in fleet.pods.values_mut() {
        pod["metadata"]["annotations"][names::IN_PLACE_UPDATE_STATE] = json!("nonsense");
    }
    let plan = fleet.plan();
    assert_eq!((counts(&plan), steps(&plan).len()), ([4, 0, 0, 0], 0), "as in Kruise, whether it is done is unknown");
    for pod in fleet.pods.values_mut() {
        pod["metadata"]["annotations"][names::HASH] = json!("nonsense");
        pod["metadata"]["annotations"][names::IN_PLACE_UPDATE_STATE] = json!("");
    }
    fleet.settle();
    assert_eq!(fleet.count("mesh:2"), 4);
}

#[test]
fn a_pod_that_an_update_made_unready_counts_until_it_is_ready_or_the_deadline_has_passed() {
    let mut fleet = Fleet::new(Kind::Cold, "mesh:1", json!({"maxUnavailable": 1}), 2);
    fleet.unready_apps = vec!["web-000".to_owned()];
    for image in ["mesh:2", "mesh:3", "mesh:4"] {
        fleet.set_image(image);
        fleet.round();
        fleet.kubelet("web-000");
        assert_eq!((fleet.count(image), fleet.count("mesh:1")), (1, 1), "web-000 goes first, and web-001 waits for it");
    }
    fleet.set_image("mesh:5");
    fleet.wait(600);
    fleet.round();
    assert_eq!(fleet.count("mesh:5"), 2);
}

#[test]
fn a_pod_of_an_older_revision_that_stays_broken_does_not_block_a_rollout_for_ever() {
    let mut fleet = Fleet::new(Kind::Cold, "mesh:1", json!({"maxUnavailable": 1, "pauseOnFailure": false}), 3);
    fleet.set_image("mesh:2");
    fleet.settle();
    // Its sidecar stops working, and the next rollout is for others.
    let pod = fleet.pods.get_mut("web-000").unwrap();
    pod["metadata"]["labels"]["canary"] = json!("no");
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    let statuses = pod["status"]["containerStatuses"].as_array_mut().unwrap();
    statuses.iter_mut().find(|it| it["name"] == "proxy").unwrap()["ready"] = json!(false);
    fleet.edit(|set| {
        let term = json!({"key": "canary", "operator": "DoesNotExist"});
        set["spec"]["updateStrategy"]["selector"] = json!({"matchExpressions": [term]});
    });
    fleet.set_image("mesh:3");
    assert_eq!(steps(&fleet.plan()), Vec::<String>::new(), "the update may be the reason");
    fleet.wait(600);
    fleet.settle();
    assert_eq!((fleet.count("mesh:3"), fleet.count("mesh:2")), (2, 1));
}

#[test]
fn a_pod_without_a_node_that_gets_another_tag_of_the_same_image_is_done_when_it_runs() {
    let mut fleet = start(Kind::Cold);
    let pod = fleet.pods.get_mut("web-000").unwrap();
    let reported = pod["status"].clone();
    pod["status"] = json!({"phase": "Pending", "conditions": []});
    pod["spec"]["nodeName"] = json!("");
    fleet.round();
    assert!(fleet.images("web-000").contains(&"proxy=mesh:2".to_owned()));
    let pod = fleet.pods.get_mut("web-000").unwrap();
    pod["spec"]["nodeName"] = json!("node");
    pod["status"] = reported;
    pod["status"]["observedGeneration"] = pod["metadata"]["generation"].clone();
    // containerd reports the first of the image's names.
    assert_eq!(fleet.plan().status.updated_ready_pods, Some(1));
}
