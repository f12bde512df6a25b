//! Rollouts that fail for a reason that only the events of a pod tell.

use std::time::Duration;

use pillion_manager::Manager;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, pod, sidecarset};

const EVENTS: &str = "/api/v1/namespaces/default/events";
const SETS: [&str; 2] = ["mesh", "logs"];

/// A cluster with a pod whose native sidecar has got the image `envoy:2`. Its kubelet reports that the old process has ended with 0, and no more.
async fn updated() -> (Cluster, Manager) {
    updated_by(&["proxy"]).await
}

/// The same with sidecars of several SidecarSets, each with a set of its own: `mesh` has the first one.
async fn updated_by(sidecars: &[&str]) -> (Cluster, Manager) {
    let cluster = Cluster::new().await;
    let manager = cluster.manage(cluster.config()).await;
    let running = manager.clone();
    tokio::spawn(async move { running.run().await });
    let native = |name: &str, image: &str| json!([{"name": name, "image": image, "restartPolicy": "Always"}]);
    for (i, name) in sidecars.iter().enumerate() {
        let set = sidecarset(SETS[i], json!({"containers": null, "initContainers": native(name, "envoy:1")}));
        cluster.create(SIDECARSETS, set).await.object();
    }
    sleep(Duration::from_secs(5)).await;
    let pod = cluster.create(PODS, pod("web")).await.object();
    report(&cluster, &pod, json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), "True").await;
    sleep(Duration::from_secs(5)).await;
    for (i, name) in sidecars.iter().enumerate() {
        let patch = json!({"spec": {"initContainers": native(name, "envoy:2")}});
        cluster.merge(&format!("{SIDECARSETS}/{}", SETS[i]), patch).await.object();
    }
    sleep(Duration::from_secs(5)).await;
    let pod = cluster.get(&format!("{PODS}/web")).await;
    assert!(sidecars_of(&pod).all(|sidecar| sidecar["image"] == "envoy:2"), "{pod}");
    let ended = json!({"exitCode": 0, "reason": "Completed", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:20Z"});
    report(&cluster, &pod, json!({"terminated": ended}), "False").await;
    (cluster, manager)
}

fn sidecars_of(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["spec"]["initContainers"].as_array().unwrap().iter()
}

/// What the kubelet reports of each sidecar; all other containers run.
async fn report(cluster: &Cluster, pod: &Value, state: Value, ready: &str) {
    let status = |name: &Value, state: Value| {
        let ready = state.get("running").is_some();
        json!({"name": name, "image": "envoy:1", "imageID": "sha256:1", "ready": ready, "restartCount": 0, "state": state})
    };
    let app = |container: &Value| status(&container["name"], json!({"running": {}}));
    let apps: Vec<Value> = pod["spec"]["containers"].as_array().unwrap().iter().map(app).collect();
    let sidecars: Vec<Value> = sidecars_of(pod).map(|sidecar| status(&sidecar["name"], state.clone())).collect();
    let status = json!({
        "phase": "Running", "conditions": [{"type": "Ready", "status": ready}],
        "initContainerStatuses": sidecars, "containerStatuses": apps,
    });
    cluster.merge(&format!("{PODS}/web/status"), json!({"status": status})).await.object();
}

/// An event about a sidecar of the pod, now.
async fn event(cluster: &Cluster, sidecar: &str, reason: &str, message: &str) {
    let pod = cluster.get(&format!("{PODS}/web")).await;
    let about = json!({
        "kind": "Pod", "namespace": "default", "name": "web", "uid": pod["metadata"]["uid"],
        "fieldPath": format!("spec.initContainers{{{sidecar}}}"),
    });
    let now = format!("{:.0}", cluster.server.clock().now());
    let event = json!({
        "metadata": {"name": format!("web.{sidecar}.{reason}")}, "involvedObject": about, "type": "Warning", "reason": reason,
        "message": message, "lastTimestamp": now,
    });
    cluster.create(EVENTS, event).await.object();
}

async fn blocked(cluster: &Cluster, set: &str) -> Value {
    let set = cluster.get(&format!("{SIDECARSETS}/{set}")).await;
    let mut conditions = set["status"]["conditions"].as_array().unwrap().iter();
    conditions.find(|condition| condition["type"] == "Blocked").unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_native_sidecar_whose_image_cannot_be_pulled_is_noticed_within_seconds_by_the_events_of_its_pod() {
    let (cluster, _manager) = updated().await;
    event(&cluster, "proxy", "Pulling", "Pulling image \"envoy:2\"").await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(blocked(&cluster, "mesh").await["status"], "False", "the image may be large");
    event(&cluster, "proxy", "BackOff", "Back-off pulling image \"envoy:2\": ErrImagePull: no such host").await;
    sleep(Duration::from_secs(15)).await;
    let blocked = blocked(&cluster, "mesh").await;
    assert_eq!(blocked["reason"], "PausedOnFailure");
    let message = blocked["message"].as_str().unwrap();
    assert!(message.contains("default/web (proxy: ImagePullBackOff)"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn two_sets_that_fail_in_one_pod_are_each_explained_and_stay_so() {
    let (cluster, _manager) = updated_by(&["proxy", "shipper"]).await;
    for sidecar in ["proxy", "shipper"] {
        event(&cluster, sidecar, "BackOff", "Back-off pulling image \"envoy:2\": ErrImagePull: no such host").await;
    }
    sleep(Duration::from_secs(30)).await;
    for _ in 0..12 {
        for set in SETS {
            assert_eq!(blocked(&cluster, set).await["reason"], "PausedOnFailure", "{set}");
        }
        sleep(Duration::from_secs(5)).await;
    }
}
