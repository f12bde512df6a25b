//! What a pod costs in a cache: `cargo run --release -p pillion-informer --example memory`. Linux only.
#![allow(clippy::unwrap_used, reason = "a measurement")]

use k8s_openapi::api::core::v1::Pod;
use pillion_informer::{Cache, View};
use serde_json::{Value, json};

const PODS: usize = 100_000;
/// Pods of one owner.
const REPLICAS: usize = 10;

/// Nothing of the pod: what the cache itself costs.
struct Nothing;

impl View for Nothing {
    type Object = Pod;

    fn of(_: Pod) -> Option<Nothing> {
        Some(Nothing)
    }
}

/// About what a controller of sidecars needs of a pod, with few allocations: each costs more than a short string.
#[expect(dead_code, reason = "it is only weighed")]
struct Compact {
    /// As a label selector: `app=web,tier=front`.
    labels: Box<str>,
    node: Box<str>,
    /// Name and image of each container.
    images: Box<str>,
    is_running: bool,
}

impl View for Compact {
    type Object = Pod;

    fn of(pod: Pod) -> Option<Compact> {
        let (spec, status) = (pod.spec?, pod.status?);
        let joined = |pairs: Vec<String>| pairs.join(",").into_boxed_str();
        let labels = pod.metadata.labels.into_iter().flatten().map(|(name, value)| format!("{name}={value}"));
        let images = spec.containers.into_iter().map(|one| format!("{}={}", one.name, one.image.unwrap_or_default()));
        Some(Compact {
            labels: joined(labels.collect()),
            node: spec.node_name.unwrap_or_default().into(),
            images: joined(images.collect()),
            is_running: status.phase.as_deref() == Some("Running"),
        })
    }
}

/// A pod as a Deployment makes it, with a sidecar.
fn pod(index: usize) -> Value {
    let (owner, namespace) = (index / REPLICAS, format!("team-{}", index / 1000));
    let name = format!("web-frontend-{owner:08x}-{index:05x}");
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{name}:v1.2.3"),
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "volumeMounts": [{"name": "kube-api-access", "mountPath": "/var/run/secrets", "readOnly": true}],
        })
    };
    json!({
        "metadata": {
            "name": name, "namespace": namespace, "uid": format!("{index:08x}-1111-2222-3333-444444444444"),
            "resourceVersion": (index + 1).to_string(),
            "labels": {"app": "web-frontend", "tier": "web", "pod-template-hash": format!("{owner:08x}")},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-frontend-{owner:08x}"),
                "uid": format!("{owner:08x}-5555-6666-7777-888888888888"), "controller": true,
            }],
        },
        "spec": {"nodeName": format!("node-{}", index % 500), "containers": [container("web"), container("proxy")]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// The bytes of memory that this process has in use.
fn resident() -> usize {
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = sizes.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn measure<V: View<Object = Pod>>(what: &str) {
    let before = resident();
    let cache: Cache<V> = Cache::new();
    for index in 0..PODS {
        cache.written(serde_json::from_value(pod(index)).unwrap());
    }
    println!("{what:>15}: {:>5} bytes for each of {} pods", (resident() - before) / PODS, cache.len());
}

/// Each measurement is a process of its own: none gets the memory that another has freed.
fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("nothing") => measure::<Nothing>("the cache alone"),
        Some("compact") => measure::<Compact>("a compact view"),
        Some("whole") => measure::<Pod>("whole pods"),
        _ => {
            for which in ["nothing", "compact", "whole"] {
                std::process::Command::new(std::env::current_exe().unwrap()).arg(which).status().unwrap();
            }
        }
    }
}
