//! What `updateStrategy` says happens, and nothing else.

use serde_json::json;

use crate::cluster::{Cluster, condition};

/// Pods with the sidecar `envoy:1` on a cluster with the only manager.
async fn rolled_out(replicas: usize, spec: serde_json::Value) -> (Cluster, crate::cluster::Running) {
    let (cluster, running) = Cluster::managed().await;
    cluster.create_set("envoy:1", spec).await;
    cluster.create_deployment("web", replicas, json!({})).await;
    cluster.until_status(json!({"matchedPods": replicas, "updatedReadyPods": replicas})).await;
    (cluster, running)
}

#[tokio::test(start_paused = true)]
async fn a_new_image_restarts_the_sidecars_and_nothing_else() {
    let (cluster, _manager) = rolled_out(5, json!({"updateStrategy": {"maxUnavailable": 2}})).await;
    let names =
        |pods: &[serde_json::Value]| -> Vec<_> { pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect() };
    let before = cluster.pods().await;
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"updatedPods": 5, "updatedReadyPods": 5})).await;
    assert_eq!(cluster.with_image("envoy:2").await, 5);
    assert_eq!(cluster.restarts().await, (5, 0));
    let after = cluster.pods().await;
    assert_eq!(names(&before), names(&after), "no pod is recreated");
    let latest = cluster.latest_revision().await;
    let set = cluster.set("mesh").await;
    assert_eq!((&set["status"]["latestRevision"], cluster.revisions().await.len()), (&json!(latest), 2));
    assert_eq!(condition(&set, "Progressing")["reason"], "Complete");
    for pod in &after {
        assert!(pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"].as_str().unwrap().contains(&latest));
        let upgradable =
            pod["status"]["conditions"].as_array().unwrap().iter().find(|it| it["type"] == "SidecarSetUpgradable");
        assert_eq!(upgradable.unwrap()["status"], "True");
    }
    // Nothing changes: nothing is written.
    tokio::time::sleep(std::time::Duration::from_mins(30)).await;
    assert_eq!(cluster.set("mesh").await["metadata"]["resourceVersion"], set["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_keeps_pods_on_the_old_revision() {
    let (cluster, _manager) = rolled_out(5, json!({"updateStrategy": {"partition": 3, "maxUnavailable": 5}})).await;
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"updatedReadyPods": 2})).await;
    cluster.until_condition("Progressing", "Complete").await;
    tokio::time::sleep(std::time::Duration::from_mins(10)).await;
    assert_eq!((cluster.with_image("envoy:1").await, cluster.with_image("envoy:2").await), (3, 2));
    cluster.patch_set("mesh", json!({"spec": {"updateStrategy": {"partition": "20%"}}})).await;
    cluster.until_status(json!({"updatedReadyPods": 4})).await;
    cluster.patch_set("mesh", json!({"spec": {"updateStrategy": {"partition": 0}}})).await;
    cluster.until_status(json!({"updatedReadyPods": 5})).await;
}
