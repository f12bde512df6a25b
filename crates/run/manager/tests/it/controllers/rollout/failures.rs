//! Images that fail, pods that cannot be updated, managers that are killed, and an API server that has bad days.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::controllers::rollout::cluster::{Cluster, condition, minutes, proxy, rolled_out};
use crate::controllers::rollout::faults::Faults;

/// Pods whose sidecar crashes with the image `envoy:bad`.
async fn fragile(replicas: usize, spec: Value) -> (Cluster, crate::controllers::rollout::cluster::Running) {
    let (cluster, running) = Cluster::managed().await;
    cluster.create_set("envoy:1", spec).await;
    let script = "proxy: 0s exit 1 with envoy:bad";
    cluster.create_deployment("web", replicas, json!({"annotations": {"pillion.dev/simulate": script}})).await;
    cluster.until_status(json!({"updatedReadyPods": replicas})).await;
    (cluster, running)
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_pauses_the_rollout_which_can_be_undone() {
    let (cluster, _manager) = fragile(6, json!({"updateStrategy": {"maxUnavailable": 2}})).await;
    cluster.set_image("envoy:bad").await;
    let message = cluster.until_condition("Blocked", "PausedOnFailure").await;
    let revision = cluster.latest_revision().await;
    assert!(message.contains(&revision) && message.contains("proxy: CrashLoopBackOff"), "{message}");
    assert!(message.contains(&format!("pillion.dev/resume: {revision}")), "{message}");
    minutes(30).await;
    assert_eq!(cluster.with_image("envoy:1").await, 4, "no further pod is touched");
    let set = cluster.set("mesh").await;
    assert_eq!(set["status"]["pausedRevision"], json!(revision));
    assert!(cluster.event_reasons().await.contains(&"RolloutPaused".to_owned()));
    assert_eq!(set["spec"]["updateStrategy"].get("paused"), None, "the spec is the user's");

    cluster.set_image("envoy:1").await;
    cluster.until_status(json!({"updatedReadyPods": 6})).await;
    let set = cluster.set("mesh").await;
    assert_eq!(
        (condition(&set, "Blocked")["status"].as_str(), set["status"].get("pausedRevision")),
        (Some("False"), None)
    );
}

/// A kubelet reports a native sidecar that has ended with 0 as completed, and says nothing of its back-off.
#[tokio::test(start_paused = true)]
async fn a_native_sidecar_that_ends_with_0_again_and_again_pauses_the_rollout_within_seconds() {
    let (cluster, _manager) = Cluster::managed().await;
    let native = json!([{"name": "proxy", "image": "envoy:1", "restartPolicy": "Always"}]);
    cluster.create_set("envoy:1", json!({"containers": null, "initContainers": native})).await;
    let script = "proxy: 0s exit 0 with envoy:bad";
    cluster.create_deployment("web", 3, json!({"annotations": {"pillion.dev/simulate": script}})).await;
    cluster.until_status(json!({"updatedReadyPods": 3})).await;
    cluster.set_image("envoy:bad").await;
    cluster.until("a pod is updated", async || cluster.with_image("envoy:bad").await == 1).await;
    let begin = tokio::time::Instant::now();
    let message = cluster.until_condition("Blocked", "PausedOnFailure").await;
    assert!(message.contains("proxy: CrashLoopBackOff"), "{message}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!(cluster.with_image("envoy:1").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_paused_itself_goes_on_when_it_is_resumed() {
    let (cluster, _manager) = fragile(3, json!({})).await;
    cluster.set_image("envoy:bad").await;
    cluster.until_condition("Blocked", "PausedOnFailure").await;
    let revision = cluster.latest_revision().await;
    cluster.patch_set("mesh", json!({"metadata": {"annotations": {"pillion.dev/resume": revision}}})).await;
    cluster
        .until("it is not paused", async || cluster.set("mesh").await["status"].get("pausedRevision").is_none())
        .await;
    let message = cluster.until_condition("Blocked", "MaxUnavailable").await;
    assert!(message.contains("maxUnavailable is 1"), "{message}");
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"updatedReadyPods": 3})).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_makes_no_progress_says_so_after_its_deadline() {
    let (cluster, _manager) = Cluster::managed().await;
    let strategy = json!({"progressDeadlineSeconds": 90, "pauseOnFailure": false});
    // Ready only after a while, so that one that ends at once never is.
    let probe = json!({"tcpSocket": {"port": 9901}, "initialDelaySeconds": 5});
    let proxy = json!({"name": "proxy", "image": "envoy:1", "readinessProbe": probe});
    cluster.create_set("envoy:1", json!({"updateStrategy": strategy, "containers": [proxy]})).await;
    let script = "proxy: 0s exit 1 with envoy:bad";
    cluster.create_deployment("web", 3, json!({"annotations": {"pillion.dev/simulate": script}})).await;
    cluster.until_status(json!({"updatedReadyPods": 3})).await;
    cluster.set_image("envoy:bad").await;
    cluster.until("a pod is updated", async || cluster.with_image("envoy:bad").await == 1).await;
    let begin = tokio::time::Instant::now();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(condition(&cluster.set("mesh").await, "Progressing")["status"], "True", "it is not late yet");
    let message = cluster.until_condition("Progressing", "ProgressDeadlineExceeded").await;
    let seconds = begin.elapsed().as_secs();
    assert!((85..100).contains(&seconds), "after {seconds} seconds");
    assert!(message.contains("2 left to update; waiting for 1 pod to become ready: default/web-"), "{message}");
    cluster.set_image("envoy:2").await;
    cluster.until_condition("Progressing", "Complete").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_may_not_be_updated_is_named_and_does_not_hold_the_others_up() {
    let (cluster, _manager) = rolled_out(4, json!({})).await;
    let pods = cluster.pods().await;
    let refused = pods[1]["metadata"]["name"].as_str().unwrap().to_owned();
    // A policy refuses changes of this pod.
    cluster.refuse_updates_of(&refused).await;
    cluster.set_image("envoy:2").await;
    let message = cluster.until_condition("Blocked", "UpdateRefused").await;
    assert!(message.contains(&format!("default/{refused}")) && message.contains("hands off"), "{message}");
    cluster.until_status(json!({"updatedReadyPods": 3})).await;
    let left: Vec<Value> = cluster.pods().await.into_iter().filter(|pod| proxy(pod)["image"] == "envoy:1").collect();
    assert_eq!(left.len(), 1);
    cluster.refuse_nothing().await;
    cluster.until_status(json!({"updatedReadyPods": 4})).await;
    cluster
        .until("nothing blocks", async || condition(&cluster.set("mesh").await, "Blocked")["status"] == "False")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_manager_that_is_killed_is_replaced_and_no_pod_is_updated_twice() {
    let cluster = Cluster::start().await;
    let replica =
        |name: &str| pillion_manager::Config { identity: Some(name.to_owned()), ..cluster.config(cluster.client()) };
    let first = cluster.manage(replica("a")).await;
    cluster.create_set("envoy:1", json!({})).await;
    cluster.create_deployment("web", 8, json!({})).await;
    cluster.until_status(json!({"updatedReadyPods": 8})).await;
    let second = cluster.manage(replica("b")).await;
    cluster.set_image("envoy:2").await;
    cluster.until("some pods are updated", async || cluster.with_image("envoy:2").await >= 3).await;
    first.kill();
    cluster.until_status(json!({"updatedReadyPods": 8})).await;
    assert_eq!(cluster.restarts().await, (8, 0));
    assert_eq!(cluster.revisions().await.len(), 2);
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_one_write_in_five_delays_a_rollout_and_nothing_else() {
    for seed in 0..3 {
        let cluster = Cluster::start().await;
        let faults = Faults::new(seed);
        let running = cluster.manage(cluster.config(faults.client(cluster.engine.server(), "a"))).await;
        cluster.create_set("envoy:1", json!({"updateStrategy": {"maxUnavailable": 2}})).await;
        cluster.create_deployment("web", 8, json!({})).await;
        cluster.until_status(json!({"updatedReadyPods": 8})).await;
        faults.start();
        cluster.set_image("envoy:2").await;
        cluster.until_status(json!({"updatedReadyPods": 8})).await;
        faults.stop();
        assert!(faults.count() > 0);
        assert_eq!(cluster.restarts().await, (8, 0), "seed {seed}");
        sleep(Duration::from_mins(2)).await;
        assert_eq!(cluster.revisions().await.len(), 2, "seed {seed}");
        running.kill();
    }
}
