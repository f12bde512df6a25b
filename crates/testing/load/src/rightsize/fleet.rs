//! A fleet: pods that run, their controllers and autoscalers, and what the pods use.

use std::time::Duration;

use axum::extract::Request;
use pillion_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Containers of a pod, one of which is a native sidecar.
pub(super) const CONTAINERS: usize = 2;
/// Pods of one Deployment, which has an autoscaler.
pub(super) const PODS: usize = 10;

/// Pods that run, their controllers, and an autoscaler for each Deployment.
pub(super) async fn fill(server: &ApiServer, pods: usize) -> anyhow::Result<()> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(server, definitions, pillion_api::vpa::crd::vertical_pod_autoscaler()).await?;
    create(server, definitions, pillion_api::vpa::crd::checkpoint()).await?;
    create(server, "/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for group in 0..pods.div_ceil(PODS) {
        let name = format!("web-{group}");
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": spec()});
        let workload = json!({"replicas": PODS, "selector": {"matchLabels": labels}, "template": template});
        let deployment = json!({"metadata": {"name": name}, "spec": workload});
        let deployment = create(server, "/apis/apps/v1/namespaces/default/deployments", deployment).await?;
        let set = json!({"metadata": {"name": name, "ownerReferences": [owner("Deployment", &deployment)]}, "spec": workload});
        let set = create(server, "/apis/apps/v1/namespaces/default/replicasets", set).await?;
        let fixed = json!({"cpu": "500m", "memory": "500Mi"});
        let autoscaler = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                // What is recommended does not move, however the little history grows.
                "resourcePolicy": {"containerPolicies": [{"containerName": "*", "minAllowed": fixed, "maxAllowed": fixed}]}
            }
        });
        create(server, "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers", autoscaler).await?;
        for pod in (group * PODS)..((group + 1) * PODS).min(pods) {
            let name = format!("pod-{pod}");
            let metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner("ReplicaSet", &set)]});
            let mut spec = spec();
            spec["nodeName"] = json!("node");
            create(server, "/api/v1/namespaces/default/pods", json!({"metadata": metadata, "spec": spec})).await?;
            // Upstream does not look at pods that have not begun.
            let running = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}});
            merge(server, &format!("/api/v1/namespaces/default/pods/{name}/status"), &running).await?;
        }
    }
    Ok(())
}

pub(super) fn spec() -> Value {
    let container =
        |name: &str| json!({"name": name, "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}});
    let mut mesh = container("mesh");
    mesh["restartPolicy"] = json!("Always");
    json!({"containers": [container("app")], "initContainers": [mesh]})
}

pub(super) fn owner(kind: &str, object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "controller": true})
}

pub(super) async fn create(server: &ApiServer, path: &str, object: Value) -> anyhow::Result<Value> {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(axum::body::Body::from(object.to_string()))?;
    let response = server.router().oneshot(request).await?;
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await?;
    anyhow::ensure!(status.is_success(), "{path}: {}", String::from_utf8_lossy(&body));
    Ok(serde_json::from_slice(&body)?)
}

/// Changes an object by a merge patch.
pub(super) async fn merge(server: &ApiServer, path: &str, patch: &Value) -> anyhow::Result<()> {
    let request = Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(axum::body::Body::from(patch.to_string()))?;
    let status = server.router().oneshot(request).await?.status();
    anyhow::ensure!(status.is_success(), "{path}: {status}");
    Ok(())
}

/// The answer of the metrics API about all pods. Pods of one workload use three amounts: no percentile is on the border of two, where a
/// rounded weight would move it.
pub(super) fn answer(pods: usize, at: jiff::Timestamp) -> String {
    let pod = |i: usize| {
        let container = |name: &str, cpu: usize, memory: usize| {
            format!(r#"{{"name":"{name}","usage":{{"cpu":"{cpu}m","memory":"{memory}Mi"}}}}"#)
        };
        let (cpu, memory) = (50 + i / PODS % 100 + i % 3 * 40, 100 + i / PODS % 100 + i % 3 * 50);
        let containers = format!("{},{}", container("app", cpu, memory), container("mesh", 10, 40));
        format!(
            r#"{{"metadata":{{"name":"pod-{i}","namespace":"default"}},"timestamp":"{at}","window":"15s","containers":[{containers}]}}"#
        )
    };
    let items: Vec<String> = (0..pods).map(pod).collect();
    format!(
        r#"{{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{{}},"items":[{}]}}"#,
        items.join(",")
    )
}
