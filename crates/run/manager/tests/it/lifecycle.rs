//! Marked sidecars: what admission makes of them, and pods that the manager ends.

use std::time::Duration;

use axum::http::Method;
use pillion_gates::Gates;
use pillion_manager::{Config, Manager};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, sidecarset};

const POD: &str = "/api/v1/namespaces/default/pods/job";
const STATUS: &str = "/api/v1/namespaces/default/pods/job/status";

/// A cluster whose manager honours marks, and runs if `runs`.
async fn marking(runs: bool) -> (Cluster, Manager) {
    let cluster = Cluster::new().await;
    let gates = Gates::default().with(&"SidecarField=true".parse().unwrap());
    let manager = cluster.manage(Config { gates, ..cluster.config() }).await;
    if runs {
        run(&manager);
    }
    (cluster, manager)
}

fn run(manager: &Manager) {
    let manager = manager.clone();
    tokio::spawn(async move { manager.run().await });
}

fn job(annotations: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "job", "labels": {"app": "web"}, "annotations": annotations}, "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "main:1"}, {"name": "side", "image": "side:1"}],
    }})
}

fn status(name: &str, state: Value) -> Value {
    json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
}

/// What a kubelet writes when main has ended and the sidecar runs.
fn main_has_ended(code: i32) -> Value {
    let ended = json!({"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:10Z"}});
    let runs = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    json!({"status": {"phase": "Running", "containerStatuses": [status("main", ended), status("side", runs)]}})
}

async fn phase(cluster: &Cluster) -> Value {
    cluster.get(POD).await["status"]["phase"].clone()
}

#[tokio::test(start_paused = true)]
async fn marks_of_the_pod_and_of_sidecarsets_make_native_sidecars() {
    let (cluster, _manager) = marking(false).await;
    let agent = json!({"name": "agent", "image": "agent:1", "sidecar": true, "failPodOnSidecarError": true});
    cluster.create(SIDECARSETS, sidecarset("agent", json!({"containers": [agent]}))).await.object();
    let reply = cluster.create(PODS, job(json!({"pillion.dev/sidecars": "side"}))).await;
    assert_eq!(reply.warnings, Vec::<String>::new());
    let pod = reply.object();
    let names = |list: &str| -> Vec<String> {
        let containers = pod["spec"][list].as_array().unwrap().iter();
        containers.map(|container| container["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (names("initContainers"), names("containers")),
        (vec!["agent".into(), "side".into()], vec!["main".into()])
    );
    let record = pod["metadata"]["annotations"]["pillion.dev/sidecar-record"].as_str().unwrap();
    assert_eq!(record, r#"{"method":"Native","sidecars":["agent","side"],"failPod":["agent"]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_sidecars_alone_is_refused() {
    let (cluster, _manager) = marking(false).await;
    let reply = cluster.create(PODS, job(json!({"pillion.dev/sidecars": "main,side"}))).await;
    assert!(
        reply.body["message"].as_str().unwrap().contains("spec.containers: every container is marked as a sidecar")
    );
}

#[tokio::test(start_paused = true)]
async fn the_phase_is_written_with_an_annotation_until_it_holds() {
    let (cluster, _manager) = marking(true).await;
    cluster
        .create(PODS, job(json!({"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": "Strict"})))
        .await
        .object();
    sleep(Duration::from_secs(3)).await;
    assert_eq!(phase(&cluster).await, "Pending");
    cluster.merge(STATUS, main_has_ended(0)).await.object();
    sleep(Duration::from_secs(1)).await;
    let pod = cluster.get(POD).await;
    assert_eq!(pod["status"]["phase"], "Succeeded");
    let first = pod["metadata"]["annotations"]["pillion.dev/work-done"].clone();
    assert!(first.is_string());
    // A kubelet that has not looked takes it back.
    cluster.merge(STATUS, json!({"status": {"phase": "Running"}})).await.object();
    sleep(Duration::from_secs(5)).await;
    let pod = cluster.get(POD).await;
    assert_eq!(pod["status"]["phase"], "Succeeded");
    assert_ne!(pod["metadata"]["annotations"]["pillion.dev/work-done"], first);
    let version = pod["metadata"]["resourceVersion"].clone();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(cluster.get(POD).await["metadata"]["resourceVersion"], version, "what holds is not written again");
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_work_was_done_while_the_manager_was_down_is_ended_when_it_is_back() {
    let (cluster, manager) = marking(false).await;
    // Kruise's variable needs no webhook.
    let mut pod = job(json!({}));
    pod["spec"]["containers"][1]["env"] = json!([{"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}]);
    cluster.create(PODS, pod).await.object();
    cluster.merge(STATUS, main_has_ended(1)).await.object();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(phase(&cluster).await, "Running");
    run(&manager);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(phase(&cluster).await, "Failed");
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_record_that_cannot_be_read_is_left_alone() {
    let (cluster, _manager) = marking(true).await;
    cluster.create(PODS, job(json!({"pillion.dev/sidecar-record": "nonsense"}))).await.object();
    cluster.merge(STATUS, main_has_ended(0)).await.object();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(phase(&cluster).await, "Running");
    let deleted = cluster.request(Method::DELETE, POD, "", None).await;
    assert!(deleted.status.is_success());
}
