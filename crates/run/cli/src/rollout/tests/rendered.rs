use std::sync::Arc;

use insta::assert_snapshot;
use jiff::Timestamp;
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::{SidecarSet, revision};
use pillion_rollout::{PodView, Refusals, Snapshot, StoredRevision, Target, Texts, plan};
use pillion_testkit::{mk_container, mk_image_id, mk_injected_pod, mk_set};
use serde_json::{Value, json};

use crate::rollout::history::{self, entries};
use crate::rollout::status::{Outcome, Status};
use crate::rollout::text;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn mk_mesh(image: &str) -> SidecarSet {
    let mut set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [{"name": "proxy", "image": image}]}));
    set.metadata.generation = Some(1);
    set
}

fn mk_web(name: &str, set: &SidecarSet, workload: &str) -> Value {
    let mut pod = mk_injected_pod(name, json!({"app": "web"}), [mk_container("app")], &[set]).into_value();
    pod["metadata"]["ownerReferences"] = json!([{"kind": "StatefulSet", "name": workload, "controller": true}]);
    pod
}

/// The pod does not get the image that it is to have.
fn fail(pod: &mut Value) {
    for status in pod["status"]["containerStatuses"].as_array_mut().unwrap() {
        if status["name"] == "proxy" {
            status["ready"] = json!(false);
            status["imageID"] = json!(mk_image_id("other"));
            status["state"] = json!({"waiting": {"reason": "ImagePullBackOff"}});
        }
    }
    pod["status"]["conditions"][0] =
        json!({"type": "Ready", "status": "False", "lastTransitionTime": at(3000).to_string()});
}

fn views(pods: &[Value]) -> Vec<PodView> {
    let mut texts = Texts::default();
    pods.iter().map(|pod| PodView::new(&Pod::new(pod.clone()).unwrap(), &mut texts)).collect()
}

/// A rollout half way, whose status the controller has written.
fn half_way() -> (Target, Vec<Value>, Vec<PodView>) {
    let (old, new) = (mk_mesh("envoy:1.30"), mk_mesh("envoy:\u{1b}[31m1.31"));
    let mut pods = vec![
        mk_web("web-0", &new, "web"),
        mk_web("web-1", &new, "web"),
        mk_web("web-2", &old, "web"),
        mk_web("api-0", &old, "api"),
    ];
    fail(&mut pods[1]);
    let revisions = vec![revision::new(&old, 1, "kruise-system"), revision::new(&new, 2, "kruise-system")];
    let pods = views(&pods);
    let mut target = Target::new(Arc::new(new.clone()));
    let stored: Vec<StoredRevision<'_>> = revisions.iter().map(StoredRevision::of).collect();
    let snapshot = Snapshot {
        target: &target,
        revisions: &stored,
        is_used_elsewhere: &|_| false,
        is_in_scope: &|_| true,
        refusals: &Refusals::default(),
        system_namespace: "kruise-system",
    };
    let status = plan(&snapshot, &pods, at(3000)).status;
    target = Target::new(Arc::new(SidecarSet { status: Some(status), ..new }));
    (target, revisions, pods)
}

#[test]
fn a_rollout_that_has_stopped_says_where_and_why() {
    let (target, revisions, pods) = half_way();
    let status = Status::of(&target, &revisions, &pods);
    assert_eq!(status.outcome, Outcome::Failed);
    assert_snapshot!(text::tables(&status, at(3090)), @"
    SidecarSet mesh: stopped: revision mesh-68d4c6c7b4 fails on 1 pod: default/web-1 (proxy: ImagePullBackOff). Set the annotation pillion.dev/resume: mesh-68d4c6c7b4 to go on, or change the set

      CONDITION    STATUS  REASON           SINCE  MESSAGE
      Progressing  False   PausedOnFailure  90s    2 of 4 pods have revision mesh-68d4c6c7b4, 2 left to update
      Available    True    EnoughPodsReady  90s    3 of 4 pods are ready
      Blocked      True    PausedOnFailure  90s    revision mesh-68d4c6c7b4 fails on 1 pod: default/web-1 (proxy: ImagePullBackOff). Set the annotation pillion.dev/resume: mesh-68d4c6c7b4 to go on, or change the set

      REVISION                  NUMBER  PODS  READY  IMAGES
      mesh-68d4c6c7b4 (latest)  2       2     1      proxy=envoy:^[[31m1.31
      mesh-7b7d4d5c59           1       2     2      proxy=envoy:1.30

      WORKLOAD                 UPDATED                   READY
      default/StatefulSet/api  ░░░░░░░░░░░░░░░░░░░░ 0/1  1/1
      default/StatefulSet/web  █████████████░░░░░░░ 2/3  2/3

      WAITING FOR    STATE                    SINCE
      default/web-1  proxy: ImagePullBackOff  90s

      `pillion rollout undo mesh` goes back, `pillion rollout resume mesh` goes on
    ");
    assert_snapshot!(text::tree(&status, at(3090), 40).join("\n"), @"
    mesh  ██████████░░░░░░░░░░ 2/4 updated, 3 ready
      revision mesh-68d4c6c7b4 fails on 1 pod: default/web-1 (proxy: ImagePullBackOff). Set the annotation pillion.dev/resume: mesh-68d4c6c7b4 to go on, or change the set
    ├─ mesh-68d4c6c7b4 (latest)  2 pods, 1 ready  proxy=envoy:^[[31m1.31
    │  └─ default/StatefulSet/web  ██████████░░░░░░░░░░ 1/2 ready
    │     ○ web-1  proxy: ImagePullBackOff  90s
    │     ● web-0  ready
    └─ mesh-7b7d4d5c59  2 pods, 2 ready  proxy=envoy:1.30
       ├─ default/StatefulSet/api  ████████████████████ 1/1 ready
       │  ● api-0  ready
       └─ default/StatefulSet/web  ████████████████████ 1/1 ready
          ● web-2  ready
    ");
    assert_snapshot!(text::line(&status), @"SidecarSet mesh: stopped: revision mesh-68d4c6c7b4 fails on 1 pod: default/web-1 (proxy: ImagePullBackOff). Set the annotation pillion.dev/resume: mesh-68d4c6c7b4 to go on, or change the set");
    assert_snapshot!(text::tree(&status, at(3090), 5).join("\n"), @"
    mesh  ██████████░░░░░░░░░░ 2/4 updated, 3 ready
      revision mesh-68d4c6c7b4 fails on 1 pod: default/web-1 (proxy: ImagePullBackOff). Set the annotation pillion.dev/resume: mesh-68d4c6c7b4 to go on, or change the set
    ├─ mesh-68d4c6c7b4 (latest)  2 pods, 1 ready  proxy=envoy:^[[31m1.31
    │  └─ default/StatefulSet/web  ██████████░░░░░░░░░░ 1/2 ready
    … and 7 more lines
    ");
}

#[test]
fn a_set_that_updates_nothing_is_at_its_end_only_with_pods_that_stay_old() {
    let (target, revisions, pods) = half_way();
    let mut set = target.set().clone();
    let conditions = &mut set.status.as_mut().unwrap().conditions;
    (conditions[0].status, conditions[0].reason) = ("Unknown".to_owned(), "NotUpdate".to_owned());
    let target = Target::new(Arc::new(set));
    let status = Status::of(&target, &revisions, &pods);
    assert_eq!(status.outcome.end(), Some(false));
    assert_eq!(
        status.message,
        "updateStrategy.type is NotUpdate: 2 pods stay on older revisions until they are recreated"
    );
    // Those with the latest revision, one of which is not ready yet.
    let status = Status::of(&target, &revisions, &pods[..2]);
    assert_eq!((status.outcome, status.outcome.end()), (Outcome::Updating, None));
}

#[test]
fn a_program_gets_every_pod() {
    let (target, revisions, pods) = half_way();
    let status = serde_json::to_value(Status::of(&target, &revisions, &pods)).unwrap();
    assert_eq!(status["pods"], json!({"matched": 4, "updated": 2, "ready": 3, "updatedReady": 1}));
    assert_eq!(
        status["revisions"][0]["workloads"][0],
        json!({"namespace": "default", "kind": "StatefulSet", "name": "web", "pods": [
            {"namespace": "default", "name": "web-1", "state": "proxy: ImagePullBackOff", "since": "1970-01-01T00:50:00Z"},
            {"namespace": "default", "name": "web-0", "state": "ready", "since": "1970-01-01T00:00:00Z"},
        ]})
    );
    assert_eq!(status["waitingFor"][0]["name"], "web-1");
}

#[test]
fn a_set_that_nobody_has_looked_at_is_not_taken_for_done() {
    let (target, revisions, pods) = half_way();
    let mut set = target.set().clone();
    set.metadata.generation = Some(2);
    let status = Status::of(&Target::new(Arc::new(set.clone())), &revisions, &pods);
    assert_eq!((status.outcome, status.outcome.end()), (Outcome::NotObserved, None));
    assert!(status.message.contains("generation 2"), "{}", status.message);
    (set.metadata.generation, set.status.as_mut().unwrap().matched_pods) = (Some(1), 0);
    let status = Status::of(&Target::new(Arc::new(set.clone())), &revisions, &pods);
    assert_eq!(status.outcome, Outcome::NotObserved, "it was written before there were pods");
    set.status = None;
    let status = Status::of(&Target::new(Arc::new(set)), &revisions, &pods);
    assert!(status.message.contains("no manager rolls this SidecarSet out"), "{}", status.message);
}

#[test]
fn revisions_are_shown_with_what_changed() {
    let mut sets = [mk_mesh("envoy:1.30"), mk_mesh("envoy:1.31"), mk_mesh("envoy:1.31")];
    sets[1].spec.custom_version = Some("v2".to_owned());
    sets[2].spec.containers[0].container.insert("args".to_owned(), json!(["--\u{1b}[31m"]));
    let revisions: Vec<Value> = (1..)
        .zip(&sets)
        .map(|(number, set)| {
            let mut revision = revision::new(set, number, "kruise-system");
            revision["metadata"]["creationTimestamp"] = json!(at(number * 100).to_string());
            revision
        })
        .collect();
    let mut latest = sets[2].clone();
    let pinned = json!({"revision": {"customVersion": "v2", "policy": "Always"}});
    latest.spec.injection_strategy = serde_json::from_value(pinned).unwrap();
    let target = Target::new(Arc::new(latest.clone()));
    let pods = views(&[mk_web("web-0", &sets[0], "web"), mk_web("web-1", &sets[2], "web")]);
    let entries = entries(&latest, &revisions, &target, &pods);
    let plain = |text: String| anstream::adapter::strip_str(&text).to_string();
    assert_snapshot!(plain(history::text(&latest, &entries, at(1000)).ok().unwrap()), @"
      NUMBER  REVISION                  VERSION  AGE  PODS  IMAGES
      1       mesh-7b7d4d5c59           -        15m  1     proxy=envoy:1.30
      2       mesh-5cdfcfb6d4 (pinned)  v2       13m  0     proxy=envoy:1.31
      3       mesh-685669668f (latest)  -        11m  1     proxy=envoy:1.31

    --- mesh-7b7d4d5c59
    +++ mesh-5cdfcfb6d4
    @@ -1,5 +1,5 @@
     containers:
    -- image: envoy:1.30
    +- image: envoy:1.31
       imagePullPolicy: IfNotPresent
       name: proxy
       podInjectPolicy: BeforeAppContainer

    --- mesh-5cdfcfb6d4
    +++ mesh-685669668f
    @@ -1,5 +1,7 @@
     containers:
    -- image: envoy:1.31
    +- args:
    +  - --^[[31m
    +  image: envoy:1.31
       imagePullPolicy: IfNotPresent
       name: proxy
       podInjectPolicy: BeforeAppContainer
    ");
    let gone = json!({"type": "PinnedRevisionFound", "status": "False", "reason": "Missing", "message": "mesh-1 does not exist",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let mut missing = latest.clone();
    missing.status = serde_json::from_value(json!({"conditions": [gone]})).unwrap();
    for entries in [&entries[..], &[]] {
        let text = plain(history::text(&missing, entries, at(1000)).ok().unwrap());
        assert!(text.contains("\n\nmesh-1 does not exist\n"), "{text}");
    }
    let place = history::place(&latest, &entries, "2").ok().unwrap();
    assert_snapshot!(plain(history::one(&entries, place).ok().unwrap()), @"
    mesh-5cdfcfb6d4 (pinned)
    --- mesh-7b7d4d5c59
    +++ mesh-5cdfcfb6d4
    @@ -1,5 +1,5 @@
     containers:
    -- image: envoy:1.30
    +- image: envoy:1.31
       imagePullPolicy: IfNotPresent
       name: proxy
       podInjectPolicy: BeforeAppContainer
    containers:
    - image: envoy:1.31
      imagePullPolicy: IfNotPresent
      name: proxy
      podInjectPolicy: BeforeAppContainer
      shareVolumePolicy:
        type: disabled
      terminationMessagePath: /dev/termination-log
      terminationMessagePolicy: File
      upgradeStrategy:
        upgradeType: ColdUpgrade
    ");
    assert_eq!(
        serde_json::to_value(&entries[1]).unwrap()["changes"],
        json!([{"path": "containers[proxy].image", "now": "envoy:1.30", "then": "envoy:1.31"}])
    );
    assert_eq!(entries[1].custom_version.as_deref(), Some("v2"));
    assert!(revisions[1]["metadata"]["labels"][names::CUSTOM_VERSION] == "v2");
    let missing = history::place(&latest, &entries, "mesh-nonsense").unwrap_err();
    assert!(format!("{missing:?}").contains("has no revision"), "{missing:?}");
}

#[test]
fn a_pod_whose_record_cannot_be_read_is_named_with_the_command_that_mends_it() {
    for (annotation, command) in [
        (names::HASH, "kubectl annotate pod -n default web-0 kruise.io/sidecarset-hash-"),
        (names::HASH_WITHOUT_IMAGE, "kubectl delete pod -n default web-0"),
    ] {
        let (old, new) = (mk_mesh("envoy:1.30"), mk_mesh("envoy:1.31"));
        let mut pod = mk_web("web-0", &old, "web");
        pod["metadata"]["annotations"][names::INJECTED_LIST] = json!("mesh,other");
        pod["metadata"]["annotations"][annotation] = json!("nonsense");
        let status = Status::of(&Target::new(Arc::new(new)), &[], &views(&[pod]));
        let tables = text::tables(&status, at(3010));
        let row = format!("default/web-0  annotation {annotation} cannot be read");
        assert!(tables.contains(&row), "{tables}");
        assert!(tables.contains(&format!("\n  {command}\n")), "{tables}");
    }
}
