//! Nodes: taints that follow their conditions, and the end of trust in a node that is silent.

mod plan;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::watcher;
use pillion_events::Recorder;
use pillion_informer::{Cache, Controller, NamespacedName};
use serde_json::json;

use crate::context::Context;
use crate::error::Error;
use crate::write;

/// Where the kubelets say that they live.
const LEASES: &str = "kube-node-lease";

/// Looks after all nodes, until dropped.
pub(crate) async fn run(context: Context) {
    let leases: Cache<Lease> = Cache::new();
    let watch = leases.clone().run(Api::namespaced(context.client.clone(), LEASES), watcher::Config::default());
    let renewed = leases
        .changes()
        .filter_map(async |change| change.new.map(|_| NamespacedName::cluster_scoped(change.name.name)));
    let recorder = context.recorder("node-controller");
    let nodes = context.nodes.clone();
    let reconcile = move |node| reconcile(context.clone(), leases.clone(), recorder.clone(), node);
    tokio::join!(watch, Controller::new(&nodes).reconcile_on(renewed).run(reconcile));
}

async fn reconcile(
    context: Context,
    leases: Cache<Lease>,
    recorder: Recorder,
    node: Arc<Node>,
) -> Result<Option<Duration>, Error> {
    let name = node.name_any();
    let lease = leases.get(LEASES, &name);
    let renewed = lease.as_ref().and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|time| time.0);
    let plan = plan::plan(&node, renewed, context.clock.now());
    let nodes: Api<Node> = Api::all(context.client.clone());
    if let Some(conditions) = plan.conditions {
        let status = NodeStatus { conditions: Some(conditions), ..node.status.clone().unwrap_or_default() };
        let silent = Node { status: Some(status), ..Node::clone(&node) };
        context.nodes.written(write::replace_status(&context.client, &silent).await?);
        let message = format!("Node {name} status is now: NodeNotReady");
        recorder.normal(&write::reference(node.as_ref()), "NodeNotReady", message);
        // Taints follow with the next look at what was just written.
        return Ok(None);
    }
    if let Some(taints) = plan.taints {
        let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
        context.nodes.written(nodes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?);
    }
    Ok(plan.wake)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::test_cluster::{TestCluster, settle};

    #[tokio::test(start_paused = true)]
    async fn a_new_node_takes_pods_when_it_is_ready_and_none_when_it_is_silent() {
        let cluster = TestCluster::start().await;
        let ready = json!({"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:01Z"});
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [ready]}});
        cluster.create(node).await;
        settle(1).await;
        assert_eq!(cluster.list("v1 Node", "").await[0]["spec"]["taints"], Value::Null);
        settle(55).await;
        let silent = cluster.list("v1 Node", "").await[0].clone();
        let condition = &silent["status"]["conditions"][0];
        assert_eq!((&condition["status"], &condition["reason"]), (&json!("Unknown"), &json!("NodeStatusUnknown")));
        assert_eq!(silent["spec"]["taints"][0]["key"], "node.kubernetes.io/unreachable");
    }
}
