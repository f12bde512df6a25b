//! What containers use, as the kubelet says.

use std::ops::Range;

use anyhow::Context as _;
use axum::http::Request;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{UNTIL_TERM, app, is_running, shell, sidecar, with};
use crate::{Namespace, wait};

/// `/metrics/resource` of the kubelet, through the API server's node proxy, knows native sidecars as well. Memory is the working set: what
/// a process holds counts, and what the kernel only keeps of files does not.
pub async fn the_kubelet_reports_the_usage_of_every_container(namespace: &Namespace) -> anyhow::Result<()> {
    // Some work first, so that there is something to report.
    let work = format!("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; {UNTIL_TERM}");
    let holding = format!("fill=$(head -c 20000000 /dev/zero | tr '\\0' x); {work}");
    let writing = format!("head -c 200000000 /dev/zero > /cache/file; {work}");
    let main = with(shell("main", &writing), json!({"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}));
    let pod = app(json!({
        "volumes": [{"name": "cache", "emptyDir": {}}],
        "initContainers": [sidecar("sidecar", &holding)], "containers": [main]
    }));
    namespace.create::<Pod>(pod).await?;
    let pod =
        namespace.wait_for_pod("app", "running", |pod| is_running(pod, "sidecar") && is_running(pod, "main")).await?;
    let node = pod.spec.and_then(|spec| spec.node_name).context("a running pod has a node")?;
    let path = format!("/api/v1/nodes/{node}/proxy/metrics/resource");
    wait::until("the usage of both containers", async || {
        let metrics = namespace.client().request_text(Request::get(&path).body(Vec::new())?).await?;
        let used = |metric: &str, container: &str| {
            let is_it = |line: &&str| {
                line.starts_with(metric)
                    && line.contains(&format!("container=\"{container}\""))
                    && line.contains(&format!("namespace=\"{}\"", namespace.name()))
            };
            metrics.lines().find(is_it).and_then(value).unwrap_or_default()
        };
        let is_plausible = |container: &str, memory: Range<f64>| {
            // A shell needs some pages and some milliseconds, and the machine has not run for a day since the pod began.
            (0.005..86_400.0).contains(&used("container_cpu_usage_seconds_total", container))
                && memory.contains(&used("container_memory_working_set_bytes", container))
        };
        Ok((is_plausible("main", 50e3..50e6) && is_plausible("sidecar", 20e6..150e6)).then_some(()))
    })
    .await
}

/// The value of a line of Prometheus' text format: `name{labels} value timestamp`.
fn value(line: &str) -> Option<f64> {
    line.rsplit_once('}')?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn a_line_has_its_value_after_the_labels() {
        assert_eq!(
            value(r#"container_cpu_usage_seconds_total{container="a b",pod="c"} 0.25 1767225600000"#),
            Some(0.25)
        );
        assert_eq!(value(r#"container_memory_working_set_bytes{container="a"} 1.048576e+06"#), Some(1_048_576.0));
        assert_eq!(value("# HELP container_cpu_usage_seconds_total"), None);
    }
}
