//! What the status says in words.

use serde_json::json;

use super::fleet::{Fleet, Kind, conditions};

fn rolling(pods: usize, strategy: serde_json::Value) -> Fleet {
    let mut fleet = Fleet::new(Kind::Cold, "envoy:1", strategy, pods);
    fleet.settle();
    fleet.set_image("envoy:2");
    fleet
}

#[test]
fn a_rollout_says_how_far_it_is() {
    let mut fleet = rolling(4, json!({"partition": 1, "maxUnavailable": 2}));
    insta::assert_snapshot!(conditions(&fleet.round()), @"
    Progressing True Updating: 0 of 4 pods have revision mesh-6547dc98d5, 3 left to update, the partition keeps 1
    Available True EnoughPodsReady: 4 of 4 pods are ready
    Blocked False NotBlocked
    ");
    insta::assert_snapshot!(conditions(&fleet.round()), @"
    Progressing True Updating: 2 of 4 pods have revision mesh-6547dc98d5, 1 left to update, the partition keeps 1; waiting for 2 pods to become ready: default/web-000, default/web-001
    Available True EnoughPodsReady: 2 of 4 pods are ready
    Blocked False NotBlocked
    ");
    insta::assert_snapshot!(conditions(&fleet.settle()), @"
    Progressing True Complete: 3 of 4 pods have revision mesh-6547dc98d5, the partition keeps 1
    Available True EnoughPodsReady: 4 of 4 pods are ready
    Blocked False NotBlocked
    ");
}

#[test]
fn one_pod_is_ready_and_several_are() {
    let said = conditions(&rolling(1, json!({})).settle());
    assert!(said.contains("Available True EnoughPodsReady: 1 of 1 pod is ready"), "{said}");
}

#[test]
fn a_pause_and_pods_that_must_be_recreated_block() {
    let mut fleet = rolling(2, json!({"paused": true}));
    insta::assert_snapshot!(conditions(&fleet.round()), @"
    Progressing Unknown Paused: 0 of 2 pods have revision mesh-6547dc98d5, 2 left to update
    Available True EnoughPodsReady: 2 of 2 pods are ready
    Blocked True Paused: updateStrategy.paused is true, 2 pods left to update
    ");
    fleet.edit(|set| {
        set["spec"]["updateStrategy"]["paused"] = json!(false);
        set["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "1"}]);
    });
    let plan = fleet.round();
    insta::assert_snapshot!(conditions(&plan), @"
    Progressing False NotUpgradable: 0 of 2 pods have revision mesh-9694bb784
    Available True EnoughPodsReady: 2 of 2 pods are ready
    Blocked True NotUpgradable: 2 pods must be recreated to get revision mesh-9694bb784, which changes more than images (proxy.env): default/web-000, default/web-001
    ");
    insta::assert_snapshot!(plan.notes[0], @r#"SidecarSet "mesh": 2 pods cannot be updated in place"#);
    assert_eq!(fleet.round().notes, [], "said once");
    fleet.edit(|set| set["spec"]["updateStrategy"]["type"] = json!("NotUpdate"));
    insta::assert_snapshot!(conditions(&fleet.round()), @"
    Progressing Unknown NotUpdate: 0 of 2 pods have revision mesh-9694bb784
    Available True EnoughPodsReady: 2 of 2 pods are ready
    Blocked False NotBlocked
    ");
}

#[test]
fn a_revision_that_fails_stops_by_itself_until_it_is_resumed_or_undone() {
    let mut fleet = rolling(30, json!({"maxUnavailable": 12}));
    fleet.set_image("bad:2");
    fleet.round();
    fleet.kubelets();
    let plan = fleet.round();
    insta::assert_snapshot!(conditions(&plan), @"
    Progressing False PausedOnFailure: 12 of 30 pods have revision mesh-9b488f49c, 18 left to update
    Available True EnoughPodsReady: 18 of 30 pods are ready
    Blocked True PausedOnFailure: revision mesh-9b488f49c fails on 12 pods: default/web-000 (proxy: ImagePullBackOff), default/web-001 (proxy: ImagePullBackOff), default/web-002 (proxy: ImagePullBackOff), default/web-003 (proxy: ImagePullBackOff), default/web-004 (proxy: ImagePullBackOff), default/web-005 (proxy: ImagePullBackOff), default/web-006 (proxy: ImagePullBackOff), default/web-007 (proxy: ImagePullBackOff), default/web-008 (proxy: ImagePullBackOff), default/web-009 (proxy: ImagePullBackOff) and 2 more. Set the annotation pillion.dev/resume: mesh-9b488f49c to go on, or change the set
    ");
    insta::assert_snapshot!(plan.notes[0], @r#"SidecarSet "mesh": revision mesh-9b488f49c fails on 12 pods: default/web-000 (proxy: ImagePullBackOff), default/web-001 (proxy: ImagePullBackOff), default/web-002 (proxy: ImagePullBackOff), default/web-003 (proxy: ImagePullBackOff), default/web-004 (proxy: ImagePullBackOff), default/web-005 (proxy: ImagePullBackOff), default/web-006 (proxy: ImagePullBackOff), default/web-007 (proxy: ImagePullBackOff), default/web-008 (proxy: ImagePullBackOff), default/web-009 (proxy: ImagePullBackOff) and 2 more. Set the annotation pillion.dev/resume: mesh-9b488f49c to go on, or change the set"#);
    let latest = plan.status.latest_revision.clone().unwrap();
    assert_eq!(plan.status.paused_revision.as_ref(), Some(&latest));
    assert_eq!(fleet.count("bad:2"), 12);
    assert_eq!(Fleet::writes(&fleet.plan()).len(), 0, "it stays so without a write");

    fleet.edit(|set| set["metadata"]["annotations"]["pillion.dev/resume"] = json!(latest));
    assert_eq!(fleet.round().status.paused_revision, None);
    fleet.edit(|set| set["metadata"]["annotations"]["pillion.dev/resume"] = json!("another"));
    assert_eq!(fleet.round().status.paused_revision, Some(latest));

    fleet.set_image("envoy:1");
    let undone = fleet.round();
    assert_eq!(undone.status.paused_revision, None);
    assert_eq!(fleet.count("bad:2"), 0, "pods that are not ready cost nothing");
    insta::assert_snapshot!(conditions(&fleet.settle()), @"
    Progressing True Complete: 30 of 30 pods have revision mesh-c567788dd
    Available True EnoughPodsReady: 30 of 30 pods are ready
    Blocked False NotBlocked
    ");
}

#[test]
fn one_bad_pod_of_many_does_not_stop_a_rollout() {
    let mut fleet = rolling(30, json!({"maxUnavailable": 20}));
    fleet.round();
    fleet.kubelets();
    let failing = json!({"waiting": {"reason": "CrashLoopBackOff"}});
    let pod = fleet.pods.get_mut("web-000").unwrap();
    let proxy =
        pod["status"]["containerStatuses"].as_array_mut().unwrap().iter_mut().find(|it| it["name"] == "proxy").unwrap();
    (proxy["state"], proxy["ready"]) = (failing, json!(false));
    pod["status"]["conditions"][0]["status"] = json!("False");
    let plan = fleet.round();
    assert_eq!(plan.status.paused_revision, None);
    assert_eq!(fleet.count("envoy:2"), 30);
}

#[test]
fn failures_do_not_stop_a_rollout_without_pause_on_failure() {
    let mut fleet = rolling(3, json!({"maxUnavailable": 1, "pauseOnFailure": false}));
    fleet.set_image("crash:2");
    fleet.round();
    fleet.kubelets();
    let plan = fleet.round();
    assert_eq!(plan.status.paused_revision, None);
    insta::assert_snapshot!(conditions(&plan), @"
    Progressing True Updating: 1 of 3 pods have revision mesh-f6dd7f4b9, 2 left to update; waiting for 1 pod to become ready: default/web-000 (proxy: CrashLoopBackOff)
    Available True EnoughPodsReady: 2 of 3 pods are ready
    Blocked True MaxUnavailable: maxUnavailable is 1, and 1 pod is not ready: default/web-000 (proxy: CrashLoopBackOff)
    ");
}

#[test]
fn a_pod_that_was_ready_and_stays_unready_fails_after_the_deadline() {
    let mut fleet = rolling(3, json!({"maxUnavailable": 1, "progressDeadlineSeconds": 60}));
    fleet.set_image("unready:2");
    fleet.round();
    fleet.kubelets();
    let plan = fleet.round();
    assert_eq!(plan.requeue_after, Some(jiff::SignedDuration::from_secs(60)));
    assert_eq!(plan.status.paused_revision, None);
    fleet.wait(60);
    insta::assert_snapshot!(conditions(&fleet.round()), @"
    Progressing False PausedOnFailure: 1 of 3 pods have revision mesh-6884589d88, 2 left to update
    Available True EnoughPodsReady: 2 of 3 pods are ready
    Blocked True PausedOnFailure: revision mesh-6884589d88 fails on 1 pod: default/web-000 (not ready since it was updated). Set the annotation pillion.dev/resume: mesh-6884589d88 to go on, or change the set
    ");
}

#[test]
fn a_pod_that_was_not_ready_before_proves_nothing() {
    let mut fleet = rolling(3, json!({"maxUnavailable": 1, "progressDeadlineSeconds": 60}));
    fleet.unready_apps = vec!["web-001".to_owned()];
    fleet.kubelets();
    fleet.round();
    assert_eq!(fleet.count("envoy:2"), 2, "one that is ready, and the one that is not");
    fleet.kubelets();
    fleet.round();
    fleet.wait(60);
    let plan = fleet.round();
    assert_eq!(plan.status.paused_revision, None);
    insta::assert_snapshot!(conditions(&plan), @"
    Progressing False ProgressDeadlineExceeded: 2 of 3 pods have revision mesh-6547dc98d5, 1 left to update; waiting for 1 pod to become ready: default/web-001
    Available True EnoughPodsReady: 2 of 3 pods are ready
    Blocked True MaxUnavailable: maxUnavailable is 1, and 1 pod is not ready: default/web-001
    ");
    assert_eq!(plan.requeue_after, None);
}

#[test]
fn a_rollout_that_is_over_does_not_start_again() {
    let mut fleet = rolling(2, json!({"maxUnavailable": 2}));
    fleet.settle();
    fleet.unready_apps = vec!["web-001".to_owned()];
    fleet.kubelets();
    fleet.wait(10_000);
    let plan = fleet.round();
    insta::assert_snapshot!(conditions(&plan), @"
    Progressing True Complete: 2 of 2 pods have revision mesh-6547dc98d5
    Available True EnoughPodsReady: 1 of 2 pods are ready
    Blocked False NotBlocked
    ");
    assert_eq!(plan.requeue_after, None);
}

#[test]
fn max_unavailable_0_is_named_as_what_blocks() {
    let mut fleet = rolling(2, json!({"maxUnavailable": 0}));
    insta::assert_snapshot!(conditions(&fleet.round()), @"
    Progressing True Updating: 0 of 2 pods have revision mesh-6547dc98d5, 2 left to update
    Available True EnoughPodsReady: 2 of 2 pods are ready
    Blocked True MaxUnavailable: maxUnavailable is 0: no ready pod may be updated
    ");
}

#[test]
fn a_time_changes_only_with_its_status() {
    let mut fleet = rolling(2, json!({}));
    let first = fleet.round().status;
    fleet.kubelets();
    fleet.wait(100);
    let second = fleet.round().status;
    let times = |status: &pillion_api::sidecarset::SidecarSetStatus| -> Vec<_> {
        status.conditions.iter().map(|it| it.last_transition_time.clone()).collect()
    };
    assert_eq!(times(&first), times(&second));
    assert_ne!(first.last_progress_time, second.last_progress_time);
}
