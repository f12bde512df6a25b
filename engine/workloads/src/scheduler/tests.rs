//! The scheduler over an API server, in virtual time.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, settle};

fn pod(name: &str, cpu: &str) -> Value {
    let container = json!({"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}})
}

async fn add_node(cluster: &TestCluster) {
    let resources = json!({"cpu": "2", "memory": "4Gi", "pods": "10"});
    let ready = json!({"type": "Ready", "status": "True"});
    let status = json!({"capacity": resources, "allocatable": resources, "conditions": [ready]});
    cluster
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "machine"}, "status": status}))
        .await;
}

async fn node_of(cluster: &TestCluster, pod: &str) -> Value {
    cluster.get("v1 Pod", pod).await["spec"]["nodeName"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_bound_and_its_owner_is_notified() {
    let cluster = TestCluster::start().await;
    add_node(&cluster).await;
    settle(1).await;
    cluster.create(pod("web", "1")).await;
    settle(1).await;
    assert_eq!(node_of(&cluster, "web").await, "machine");
    let bound = cluster.get("v1 Pod", "web").await;
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(bound["status"]["conditions"][0]["status"], "True");
    assert_eq!(cluster.events("web").await, ["Normal Scheduled Successfully assigned default/web to machine"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_until_there_is_room() {
    let cluster = TestCluster::start().await;
    cluster.create(pod("early", "1")).await;
    settle(1).await;
    assert_eq!(cluster.events("early").await, ["Warning FailedScheduling no nodes available to schedule pods"]);
    add_node(&cluster).await;
    settle(2).await;
    assert_eq!(node_of(&cluster, "early").await, "machine");

    for name in ["second", "third", "fourth"] {
        cluster.create(pod(name, "1")).await;
    }
    settle(5).await;
    assert_eq!(node_of(&cluster, "second").await, "machine");
    let third = cluster.get("v1 Pod", "third").await;
    assert_eq!(third["spec"]["nodeName"], Value::Null);
    let condition = &third["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("PodScheduled"), &json!("False"), &json!("Unschedulable"))
    );
    assert_eq!(
        condition["message"],
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
    cluster.report("early", json!({"phase": "Succeeded"})).await;
    cluster.delete("v1 Pod", "second", &DeleteParams::default().grace_period(0)).await;
    settle(3).await;
    assert_eq!(node_of(&cluster, "third").await, "machine");
    assert_eq!(node_of(&cluster, "fourth").await, "machine");
}

#[tokio::test(start_paused = true)]
async fn a_gated_pod_is_left_until_its_gates_are_gone() {
    let cluster = TestCluster::start().await;
    add_node(&cluster).await;
    let mut gated = pod("gated", "1");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    cluster.create(gated).await;
    settle(5).await;
    assert_eq!(node_of(&cluster, "gated").await, Value::Null);
    cluster.patch("v1 Pod", "gated", json!({"spec": {"schedulingGates": null}})).await;
    settle(1).await;
    assert_eq!(node_of(&cluster, "gated").await, "machine");
}
