//! What containers use, as the kubelet says.

use anyhow::Context as _;
use axum::http::Request;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{UNTIL_TERM, is_running, shell};
use crate::{Namespace, wait};

/// `/metrics/resource` of the kubelet, through the API server's node proxy, knows native sidecars as well.
pub async fn the_kubelet_reports_the_usage_of_every_container(namespace: &Namespace) -> anyhow::Result<()> {
    let mut sidecar = shell("sidecar", UNTIL_TERM);
    sidecar["restartPolicy"] = json!("Always");
    let pod = json!({"metadata": {"name": "app"}, "spec": {
        "terminationGracePeriodSeconds": 1, "initContainers": [sidecar], "containers": [shell("main", UNTIL_TERM)]
    }});
    namespace.create::<Pod>(pod).await?;
    let pod =
        namespace.wait_for_pod("app", "running", |pod| is_running(pod, "sidecar") && is_running(pod, "main")).await?;
    let node = pod.spec.and_then(|spec| spec.node_name).context("a running pod has a node")?;
    let path = format!("/api/v1/nodes/{node}/proxy/metrics/resource");
    wait::until("the usage of both containers", async || {
        let metrics = namespace.client().request_text(Request::get(&path).body(Vec::new())?).await?;
        let reports = |metric: &str, container: &str| {
            metrics.lines().any(|line| {
                line.starts_with(metric)
                    && line.contains(&format!("container=\"{container}\""))
                    && line.contains(&format!("namespace=\"{}\"", namespace.name()))
            })
        };
        let all = ["container_cpu_usage_seconds_total", "container_memory_working_set_bytes"]
            .iter()
            .all(|metric| reports(metric, "main") && reports(metric, "sidecar"));
        Ok(all.then_some(()))
    })
    .await
}
