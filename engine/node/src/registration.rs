//! The Node object: who the node is, what it has, and that it is well.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::config::Config;
use crate::events;

/// The Kubernetes whose ways this node has.
const KUBELET_VERSION: &str = "v1.35.8";

/// Between reports that nothing has changed.
const REPORT_PERIOD: Duration = Duration::from_mins(5);

/// Between attempts to be registered.
const PAUSE: Duration = Duration::from_secs(1);

/// Each condition of a healthy node: type, status, reason, message, and the event that reports it.
const CONDITIONS: [(&str, &str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
        "NodeHasSufficientMemory",
    ),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status", "NodeReady"),
];

/// Registers the node, however long that takes. The answer is the uid of its object.
pub(crate) async fn register(config: &Config, runtime_version: &str) -> String {
    let about = events::node(&config.name);
    config.recorder.normal(&about, "Starting", "Starting kubelet.");
    loop {
        match try_register(config, runtime_version).await {
            Ok(node) => {
                for (.., event) in CONDITIONS {
                    config.recorder.normal(&about, event, format!("Node {} status is now: {event}", config.name));
                }
                return node.uid().unwrap_or_default();
            }
            Err(error) => {
                tracing::warn!(%error, node = config.name, "the node is not registered yet");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn try_register(config: &Config, runtime_version: &str) -> kube::Result<Node> {
    let nodes: Api<Node> = Api::all(config.client.clone());
    let Some(known) = nodes.get_opt(&config.name).await? else {
        return nodes.create(&PostParams::default(), &node(config, runtime_version, None)).await;
    };
    let labels = json!({"metadata": {"labels": labels(config)}});
    nodes.patch(&config.name, &PatchParams::default(), &Patch::Merge(labels)).await?;
    write_status(config, runtime_version, &known).await
}

/// Reports that the node is well, for ever.
pub(crate) async fn keep(config: &Config, runtime_version: &str) {
    let nodes: Api<Node> = Api::all(config.client.clone());
    loop {
        tokio::time::sleep(REPORT_PERIOD).await;
        let reported = match nodes.get_opt(&config.name).await {
            Ok(Some(known)) => write_status(config, runtime_version, &known).await.map(drop),
            // Somebody has deleted it: it comes back, as kubelets do.
            Ok(None) => try_register(config, runtime_version).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = reported {
            tracing::debug!(%error, "the status of the node was not written");
        }
    }
}

async fn write_status(config: &Config, runtime_version: &str, known: &Node) -> kube::Result<Node> {
    let nodes: Api<Node> = Api::all(config.client.clone());
    let status = node(config, runtime_version, known.status.as_ref()).status;
    let patch = Patch::Strategic(json!({"status": status}));
    nodes.patch_status(&config.name, &PatchParams::default(), &patch).await
}

fn node(config: &Config, runtime_version: &str, known: Option<&NodeStatus>) -> Node {
    let capacity = BTreeMap::from([
        ("cpu".to_owned(), Quantity(config.capacity.cpu.to_string())),
        ("ephemeral-storage".to_owned(), Quantity(config.capacity.ephemeral_storage.to_string())),
        ("memory".to_owned(), Quantity(config.capacity.memory.to_string())),
        ("pods".to_owned(), Quantity(config.capacity.pods.to_string())),
    ]);
    let address = |kind: &str, address: String| NodeAddress { type_: kind.to_owned(), address };
    let status = NodeStatus {
        addresses: Some(vec![
            address("InternalIP", config.address.to_string()),
            address("Hostname", config.name.clone()),
        ]),
        allocatable: Some(capacity.clone()),
        capacity: Some(capacity),
        conditions: Some(conditions(known, config.clock.now())),
        node_info: Some(NodeSystemInfo {
            architecture: architecture().to_owned(),
            operating_system: "linux".into(),
            kubelet_version: KUBELET_VERSION.into(),
            container_runtime_version: runtime_version.to_owned(),
            os_image: "pillion".into(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    };
    let mut node = Node { status: Some(status), ..Node::default() };
    node.metadata.name = Some(config.name.clone());
    node.metadata.labels = Some(labels(config));
    node
}

/// A condition keeps the time of its last change.
fn conditions(known: Option<&NodeStatus>, now: Timestamp) -> Vec<NodeCondition> {
    let condition = |(kind, status, reason, message, _): (&str, &str, &str, &str, &str)| {
        let before = known.and_then(|known| known.conditions.as_ref()?.iter().find(|one| one.type_ == kind));
        let since =
            before.filter(|before| before.status == status).and_then(|before| before.last_transition_time.clone());
        NodeCondition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: Some(since.unwrap_or(Time(now))),
        }
    };
    CONDITIONS.into_iter().map(condition).collect()
}

fn labels(config: &Config) -> BTreeMap<String, String> {
    let mut labels = config.labels.clone();
    for (name, value) in [
        ("kubernetes.io/hostname", config.name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
    ] {
        labels.insert(name.to_owned(), value.to_owned());
    }
    labels
}

/// The machine in the words of Go.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
