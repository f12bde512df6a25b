//! Sidecars that have ended, and of which the kubelet reports nothing else.

use k8s_openapi::api::core::v1::Event;
use pillion_rollout::{PodName, PodView};
use serde_json::{Value, json};

use super::fleet::{Fleet, Kind, conditions};

/// A rollout of a native sidecar that has reached the first pod.
fn rolling() -> Fleet {
    let mut fleet = Fleet::new(Kind::Native, "envoy:1", json!({"pauseOnFailure": true}), 3);
    fleet.settle();
    fleet.set_image("envoy:2");
    fleet.round();
    fleet
}

/// What a kubelet reports of a native sidecar between two processes of which the first ended with 0. It ran from the one second to the other.
fn end(fleet: &mut Fleet, restarts: u64, (from, to): (i64, i64)) {
    let pod = fleet.pods.get_mut("web-000").unwrap();
    pod["status"]["observedGeneration"] = pod["metadata"]["generation"].clone();
    pod["status"]["conditions"][0]["status"] = json!("False");
    let status = &mut pod["status"]["initContainerStatuses"][0];
    let at = |second: i64| jiff::Timestamp::from_second(second).unwrap().to_string();
    let terminated = json!({"exitCode": 0, "reason": "Completed", "startedAt": at(from), "finishedAt": at(to)});
    (status["state"], status["ready"]) = (json!({"terminated": terminated}), json!(false));
    (status["started"], status["restartCount"]) = (json!(false), json!(restarts));
}

fn event(pod: &PodView, seconds: i64, reason: &str, message: &str) -> Event {
    let about = json!({"kind": "Pod", "name": *pod.name, "uid": *pod.uid, "fieldPath": "spec.initContainers{proxy}"});
    let at = jiff::Timestamp::from_second(1000 + seconds).unwrap().to_string();
    let event: Value =
        json!({"metadata": {}, "involvedObject": about, "reason": reason, "message": message, "lastTimestamp": at});
    serde_json::from_value(event).unwrap()
}

fn state(fleet: &Fleet, view: &PodView) -> String {
    fleet.target().standing(view).unwrap().state.to_string()
}

const PULLS: (&str, &str) = ("BackOff", r#"Back-off pulling image "envoy:2": ErrImagePull: no such host"#);

#[test]
fn events_say_why_a_native_sidecar_does_not_start_after_its_update() {
    let mut fleet = rolling();
    end(&mut fleet, 0, (1000, 1000));
    let soon = fleet.plan();
    assert_eq!(soon.unexplained, [], "most containers start at once");
    assert_eq!(soon.requeue_after, Some(jiff::SignedDuration::from_secs(5)));
    fleet.wait(5);
    let plan = fleet.plan();
    let view = fleet.view("web-000");
    let name = PodName { namespace: "default".into(), name: "web-000".into(), uid: view.uid.to_string() };
    assert_eq!(plan.unexplained, [name]);
    assert_eq!(plan.requeue_after, Some(jiff::SignedDuration::from_secs(10)), "it is asked again");
    assert_eq!(plan.status.paused_revision, None, "the image may be on its way");

    let (target, (reason, message)) = (fleet.target(), PULLS);
    let explained = target.explained(&view, &[event(&view, 15, reason, message)]).unwrap();
    assert_eq!(state(&fleet, &explained), "proxy: ImagePullBackOff");
    let views = [explained, fleet.view("web-001"), fleet.view("web-002")];
    let plan = fleet.plan_for(&views);
    assert_eq!(plan.unexplained, []);
    assert!(plan.status.paused_revision.is_some());
    let said = conditions(&plan);
    assert!(said.contains("Blocked True PausedOnFailure"), "{said}");
    assert!(said.contains("default/web-000 (proxy: ImagePullBackOff)"), "{said}");
}

#[test]
fn events_that_are_old_or_about_something_else_explain_nothing() {
    let mut fleet = rolling();
    end(&mut fleet, 0, (1000, 1000));
    fleet.wait(60);
    let (target, view) = (fleet.target(), fleet.view("web-000"));
    let explains = |events: &[Event]| target.explained(&view, events).is_some();
    let (reason, message) = PULLS;
    let pulls = || event(&view, 15, reason, message);
    assert!(explains(&[pulls()]));
    let change = |change: fn(&mut Event)| {
        let mut event = pulls();
        change(&mut event);
        [event]
    };
    assert!(!explains(&change(|event| event.involved_object.uid = Some("other".into()))));
    assert!(!explains(&change(|event| event.involved_object.field_path = Some("spec.containers{app}".into()))));
    assert!(!explains(&[event(&view, -1, reason, message)]), "before the update");
    assert!(!explains(&[event(&view, 15, reason, r#"Back-off pulling image "envoy:0""#)]));
    assert!(!explains(&[event(&view, 15, "Pulling", r#"Pulling image "envoy:2""#)]));
    assert!(!explains(&[event(&view, 15, "Failed", "Error: ErrImagePull")]), "the next try may go well");
    assert!(!explains(&[event(&view, 16, "Pulled", ""), pulls()]), "it was pulled later");
    assert!(explains(&[event(&view, 14, "Pulled", ""), pulls()]));
    for (message, expected) in [
        ("Error: ImagePullBackOff", "proxy: ImagePullBackOff"),
        ("Error: ErrImageNeverPull", "proxy: ErrImageNeverPull"),
        ("Error: configmap \"settings\" not found", "proxy: CreateContainerError"),
    ] {
        let explained = target.explained(&view, &[event(&view, 15, "Failed", message)]).unwrap();
        assert_eq!(state(&fleet, &explained), expected);
    }
}

#[test]
fn a_native_sidecar_that_ends_with_0_again_and_again_crashes() {
    // It had been restarted once before the update; the process of the new image was the first of its own, or the second.
    for (restarts, seconds, expected) in [
        (2, (1000, 1001), "not ready"),
        (3, (1000, 1001), "proxy: CrashLoopBackOff"),
        (3, (1000, 1599), "proxy: CrashLoopBackOff"),
        (3, (1000, 1600), "not ready"),
    ] {
        let mut fleet = Fleet::new(Kind::Native, "envoy:1", json!({}), 3);
        fleet.settle();
        fleet.pods.get_mut("web-000").unwrap()["status"]["initContainerStatuses"][0]["restartCount"] = json!(1);
        fleet.set_image("envoy:2");
        fleet.round();
        fleet.kubelets();
        end(&mut fleet, restarts, seconds);
        assert_eq!(state(&fleet, &fleet.view("web-000")), expected, "{restarts} {seconds:?}");
        let is_paused = fleet.plan().status.paused_revision.is_some();
        assert_eq!(is_paused, expected.ends_with("CrashLoopBackOff"), "{restarts} {seconds:?}");
    }
}

#[test]
fn a_new_pod_whose_native_sidecar_ends_with_0_again_and_again_fails_as_well() {
    let mut fleet = Fleet::new(Kind::Native, "envoy:1", json!({}), 1);
    end(&mut fleet, 0, (1000, 1001));
    assert_eq!(state(&fleet, &fleet.view("web-000")), "not ready", "its first restart is not put off");
    end(&mut fleet, 1, (1002, 1003));
    assert_eq!(state(&fleet, &fleet.view("web-000")), "proxy: CrashLoopBackOff");
}
