//! A fleet: pods that run, their controllers and autoscalers, and what the pods use.

mod noise;

use std::time::Duration;

use axum::extract::Request;
use jiff::Timestamp;
use pillion_apiserver::ApiServer;
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub(super) const AUTOSCALERS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers";
const CHECKPOINTS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalercheckpoints";
/// Containers of a pod.
pub(super) const CONTAINERS: usize = 2;
/// Pods of one Deployment, which has an autoscaler.
pub(super) const PODS: usize = 10;

/// What the pods of a fleet use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fleet {
    /// The same amounts at any time, and policies that allow one recommendation only. One container of each pod is a native sidecar.
    Flat,
    /// Other amounts in every sample, after two days of history that checkpoints have. Both containers of a pod are regular ones: upstream's
    /// recommender recommends for every container of the fleet.
    Noisy,
}

impl Fleet {
    pub(super) fn name(self) -> &'static str {
        match self {
            Fleet::Flat => "flat",
            Fleet::Noisy => "noisy",
        }
    }

    fn spec(self) -> Value {
        let container = |name: &str| json!({"name": name, "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}});
        if self == Fleet::Noisy {
            return json!({"containers": [container("app"), container("mesh")]});
        }
        let mut mesh = container("mesh");
        mesh["restartPolicy"] = json!("Always");
        json!({"containers": [container("app")], "initContainers": [mesh]})
    }

    fn policy(self) -> Value {
        let fixed = json!({"cpu": "500m", "memory": "500Mi"});
        match self {
            // What is recommended does not move, however the little history grows.
            Fleet::Flat => json!([{"containerName": "*", "minAllowed": fixed, "maxAllowed": fixed}]),
            Fleet::Noisy => json!([]),
        }
    }

    /// The answer of the metrics API about all pods, at the time of a sample. The first one has number 1.
    pub(super) fn answer(self, pods: usize, at: Timestamp, number: u64) -> String {
        let items: Vec<String> = (0..pods)
            .map(|pod| {
                let containers: Vec<String> = ["app", "mesh"]
                    .into_iter()
                    .map(|name| {
                        let (cpu, memory) = match self {
                            Fleet::Flat => flat(pod, name),
                            Fleet::Noisy => noise::usage(pod, name, number),
                        };
                        format!(r#"{{"name":"{name}","usage":{{"cpu":"{cpu}m","memory":"{memory}Ki"}}}}"#)
                    })
                    .collect();
                format!(
                    r#"{{"metadata":{{"name":"pod-{pod}","namespace":"default"}},"timestamp":"{at}","window":"15s","containers":[{}]}}"#,
                    containers.join(",")
                )
            })
            .collect();
        format!(
            r#"{{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{{}},"items":[{}]}}"#,
            items.join(",")
        )
    }
}

/// What a container of a flat fleet uses, in millicores and kibibytes. Pods of one workload use three amounts: no percentile is on the border
/// of two, where a rounded weight would move it.
fn flat(pod: usize, container: &str) -> (usize, usize) {
    if container == "mesh" {
        return (10, 40 << 10);
    }
    (50 + pod / PODS % 100 + pod % 3 * 40, (100 + pod / PODS % 100 + pod % 3 * 50) << 10)
}

/// Pods that run, their controllers, and an autoscaler for each Deployment, with what `fleet` has stored of the time before `start`.
pub(super) async fn fill(server: &ApiServer, fleet: Fleet, pods: usize, start: Timestamp) -> anyhow::Result<()> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(server, definitions, pillion_api::vpa::crd::vertical_pod_autoscaler()).await?;
    create(server, definitions, pillion_api::vpa::crd::checkpoint()).await?;
    create(server, "/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for group in 0..pods.div_ceil(PODS) {
        let name = format!("web-{group}");
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": fleet.spec()});
        let workload = json!({"replicas": PODS, "selector": {"matchLabels": labels}, "template": template});
        let deployment = json!({"metadata": {"name": name}, "spec": workload});
        let deployment = create(server, "/apis/apps/v1/namespaces/default/deployments", deployment).await?;
        let set = json!({"metadata": {"name": name, "ownerReferences": [owner("Deployment", &deployment)]}, "spec": workload});
        let set = create(server, "/apis/apps/v1/namespaces/default/replicasets", set).await?;
        let autoscaler = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "resourcePolicy": {"containerPolicies": fleet.policy()}
            }
        });
        create(server, AUTOSCALERS, autoscaler).await?;
        if fleet == Fleet::Noisy {
            for container in ["app", "mesh"] {
                create(server, CHECKPOINTS, noise::checkpoint(group, container, start)).await?;
            }
        }
        for pod in (group * PODS)..((group + 1) * PODS).min(pods) {
            let name = format!("pod-{pod}");
            let metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner("ReplicaSet", &set)]});
            let mut spec = fleet.spec();
            spec["nodeName"] = json!("node");
            create(server, "/api/v1/namespaces/default/pods", json!({"metadata": metadata, "spec": spec})).await?;
            // Upstream does not look at pods that have not begun.
            let running = json!({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}});
            merge(server, &format!("/api/v1/namespaces/default/pods/{name}/status"), &running).await?;
        }
    }
    Ok(())
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

/// Reads an object or a list.
pub(super) async fn read(server: &ApiServer, path: &str) -> anyhow::Result<Value> {
    let response = server.router().oneshot(Request::get(path).body(axum::body::Body::empty())?).await?;
    let status = response.status();
    anyhow::ensure!(status.is_success(), "{path}: {status}");
    Ok(serde_json::from_slice(&axum::body::to_bytes(response.into_body(), usize::MAX).await?)?)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two workloads.
    const ALL: usize = 2 * PODS;
    /// A recommender reads so many samples before and in the measured passes.
    const SAMPLES: u64 = 8;

    fn answer(fleet: Fleet, number: u64) -> String {
        fleet.answer(ALL, Timestamp::UNIX_EPOCH, number)
    }

    /// What each container uses in a sample, in millicores and kibibytes.
    fn usage(fleet: Fleet, number: u64) -> Vec<(u32, u32)> {
        let list: Value = serde_json::from_str(&answer(fleet, number)).unwrap();
        let amount = |value: &Value, unit: &str| value.as_str().unwrap().strip_suffix(unit).unwrap().parse().unwrap();
        let of = |usage: &Value| (amount(&usage["cpu"], "m"), amount(&usage["memory"], "Ki"));
        let containers = list["items"].as_array().unwrap().iter().flat_map(|pod| pod["containers"].as_array().unwrap());
        containers.map(|container| of(&container["usage"])).collect()
    }

    #[test]
    fn noisy_usage_moves_far_in_every_container_and_from_each_pass_to_the_next() {
        let passes: Vec<Vec<(u32, u32)>> = (1..=SAMPLES).map(|number| usage(Fleet::Noisy, number)).collect();
        for container in 0..ALL * CONTAINERS {
            let used: Vec<(u32, u32)> = passes.iter().map(|pass| pass[container]).collect();
            let moved = used.windows(2).all(|two| two[0].0 != two[1].0 && two[0].1 != two[1].1);
            let is_spread = |of: fn(&(u32, u32)) -> u32| {
                let (least, most) = (used.iter().map(of).min().unwrap(), used.iter().map(of).max().unwrap());
                most > least + least / 2
            };
            assert!(moved && is_spread(|it| it.0) && is_spread(|it| it.1), "container {container}: {used:?}");
        }
        assert!(
            (1..=SAMPLES).all(|number| usage(Fleet::Flat, number) == usage(Fleet::Flat, 1)),
            "flat usage does not move"
        );
    }

    #[test]
    fn no_two_containers_of_a_noisy_fleet_use_the_same_in_a_pass_and_those_of_a_pod_do_not_move_together() {
        let passes: Vec<Vec<(u32, u32)>> = (1..=SAMPLES).map(|number| usage(Fleet::Noisy, number)).collect();
        for pod in 0..ALL {
            let rises = |container: usize| -> Vec<bool> {
                passes.windows(2).map(|two| two[0][container].0 < two[1][container].0).collect()
            };
            assert_ne!(rises(pod * CONTAINERS), rises(pod * CONTAINERS + 1), "pod {pod}");
        }
        for (number, mut used) in (1..=SAMPLES).zip(passes) {
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), ALL * CONTAINERS, "sample {number}");
        }
    }

    /// Each recommender has a fleet of its own, and both ask in the same order.
    #[test]
    fn both_recommenders_read_the_same_noise_and_the_same_history() {
        let read = || -> (Vec<String>, Vec<Value>) {
            let start = Timestamp::UNIX_EPOCH;
            let stored = ["app", "mesh"].map(|name| noise::checkpoint(1, name, start));
            ((1..=SAMPLES).map(|number| answer(Fleet::Noisy, number)).collect(), stored.into())
        };
        assert_eq!(read(), read());
    }
}
