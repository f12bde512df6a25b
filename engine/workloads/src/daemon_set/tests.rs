//! A DaemonSet on an API server, in virtual time.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, settle};
use crate::test_kubelet;

const KIND: &str = "apps/v1 DaemonSet";

fn set() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "log"},
        "spec": {
            "selector": {"matchLabels": {"app": "log"}},
            "template": {"metadata": {"labels": {"app": "log"}}, "spec": {"containers": [{"name": "main", "image": "log:1"}]}},
        },
    })
}

async fn start(nodes: &[&str]) -> TestCluster {
    let cluster = TestCluster::start().await;
    test_kubelet::start(cluster.client.clone(), cluster.clock);
    for name in nodes {
        add_node(&cluster, name).await;
    }
    cluster
}

async fn add_node(cluster: &TestCluster, name: &str) {
    cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await;
    // A new node is tainted until somebody says that it is ready.
    let nodes = cluster.api("v1 Node", "");
    let patch = kube::api::Patch::Merge(json!({"spec": {"taints": null}}));
    nodes.patch(name, &kube::api::PatchParams::default(), &patch).await.unwrap();
}

/// The node that each pod is for.
async fn targets(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.list("v1 Pod", "default").await;
    let pods: Vec<crate::pod::PodView> = pods.into_iter().map(|pod| serde_json::from_value(pod).unwrap()).collect();
    let mut targets: Vec<String> = pods.iter().map(|pod| super::node::of_pod(pod).unwrap()).collect();
    targets.sort();
    targets
}

#[tokio::test(start_paused = true)]
async fn nodes_that_come_get_a_pod_and_those_that_go_lose_it() {
    let cluster = start(&["one"]).await;
    cluster.create(set()).await;
    settle(5).await;
    assert_eq!(targets(&cluster).await, ["one"]);
    add_node(&cluster, "two").await;
    settle(5).await;
    assert_eq!(targets(&cluster).await, ["one", "two"]);
    insta::assert_json_snapshot!(cluster.get(KIND, "log").await["status"], @r#"
    {
      "currentNumberScheduled": 2,
      "numberMisscheduled": 0,
      "desiredNumberScheduled": 2,
      "numberReady": 2,
      "observedGeneration": 1,
      "updatedNumberScheduled": 2,
      "numberAvailable": 2
    }
    "#);
    cluster.api("v1 Node", "").delete("one", &DeleteParams::default()).await.unwrap();
    settle(5).await;
    assert_eq!(targets(&cluster).await, ["two"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_reaches_every_node() {
    let cluster = start(&["one", "two", "three"]).await;
    cluster.create(set()).await;
    settle(5).await;
    let new = json!([{"name": "main", "image": "log:2"}]);
    cluster.patch(KIND, "log", json!({"spec": {"template": {"spec": {"containers": new}}}})).await;
    settle(20).await;
    let pods = cluster.list("v1 Pod", "default").await;
    assert!(pods.len() == 3 && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "log:2"), "{pods:?}");
    let status = cluster.get(KIND, "log").await["status"].clone();
    assert_eq!((&status["updatedNumberScheduled"], &status["numberAvailable"]), (&json!(3), &json!(3)));
    assert_eq!(cluster.list("apps/v1 ControllerRevision", "default").await.len(), 2);
    let version = cluster.get(KIND, "log").await["metadata"]["resourceVersion"].clone();
    settle(3600).await;
    assert_eq!(cluster.get(KIND, "log").await["metadata"]["resourceVersion"], version, "nothing to write");
}
