//! A ReplicaSet on an API server, in virtual time.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, settle};
use crate::test_kubelet;

fn set(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web"}]}},
        },
    })
}

fn pod(name: &str) -> Value {
    let spec = json!({"containers": [{"name": "main", "image": "web"}]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})
}

async fn status(cluster: &TestCluster) -> Value {
    cluster.get("apps/v1 ReplicaSet", "web").await["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn pods_are_created_scaled_and_recorded() {
    let cluster = TestCluster::start().await;
    test_kubelet::start(cluster.client.clone(), cluster.clock);
    cluster.create(set(3)).await;
    settle(5).await;
    let pods = cluster.pods().await;
    assert_eq!(pods.len(), 3);
    assert!(pods.iter().all(|pod| pod.starts_with("web-") && pod.len() == "web-".len() + 5), "{pods:?}");
    insta::assert_json_snapshot!(status(&cluster).await, @r#"
    {
      "replicas": 3,
      "fullyLabeledReplicas": 3,
      "readyReplicas": 3,
      "availableReplicas": 3,
      "terminatingReplicas": 0,
      "observedGeneration": 1
    }
    "#);
    cluster.patch("apps/v1 ReplicaSet", "web", json!({"spec": {"replicas": 1}})).await;
    settle(5).await;
    let left = cluster.pods().await;
    assert_eq!((left.len(), &status(&cluster).await["replicas"]), (1, &json!(1)));
    let mut expected: Vec<String> =
        pods.iter().map(|pod| format!("Normal SuccessfulCreate Created pod: {pod}")).collect();
    let gone = pods.iter().filter(|pod| !left.contains(pod));
    expected.extend(gone.map(|pod| format!("Normal SuccessfulDelete Deleted pod: {pod}")));
    let mut events = cluster.events("web").await;
    events.sort();
    expected.sort();
    assert_eq!(events, expected);
}

#[tokio::test(start_paused = true)]
async fn an_orphan_is_adopted_and_a_relabelled_pod_let_go() {
    let cluster = TestCluster::start().await;
    cluster.create(pod("orphan")).await;
    cluster.create(set(2)).await;
    settle(2).await;
    assert_eq!(cluster.pods().await.len(), 2);
    let orphan = cluster.get("v1 Pod", "orphan").await;
    assert_eq!(orphan["metadata"]["ownerReferences"][0]["name"], "web");
    cluster.patch("v1 Pod", "orphan", json!({"metadata": {"labels": {"app": "debug"}}})).await;
    settle(2).await;
    let released = cluster.get("v1 Pod", "orphan").await;
    assert_eq!(released["metadata"].get("ownerReferences"), None);
    assert_eq!(cluster.pods().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_or_is_deleted_is_replaced() {
    let cluster = TestCluster::start().await;
    test_kubelet::start(cluster.client.clone(), cluster.clock);
    cluster.create(set(2)).await;
    settle(3).await;
    let pods = cluster.pods().await;
    cluster.report(&pods[0], json!({"phase": "Failed"})).await;
    cluster.delete("v1 Pod", &pods[1], &DeleteParams::default()).await;
    settle(3).await;
    assert_eq!(status(&cluster).await["readyReplicas"], 2);
    let now = cluster.pods().await;
    assert!(now.contains(&pods[0]) && !now.contains(&pods[1]) && now.len() == 3, "{now:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_count_as_available_once_they_have_been_ready_for_long_enough() {
    let cluster = TestCluster::start().await;
    test_kubelet::start(cluster.client.clone(), cluster.clock);
    let mut set = set(2);
    set["spec"]["minReadySeconds"] = 30.into();
    cluster.create(set).await;
    settle(20).await;
    assert_eq!(status(&cluster).await["readyReplicas"], 2);
    assert_eq!(status(&cluster).await.get("availableReplicas"), None);
    settle(20).await;
    assert_eq!(status(&cluster).await["availableReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_in_the_status_and_in_an_event() {
    let cluster = TestCluster::start().await;
    let mut set = set(3);
    set["spec"]["template"]["spec"]["serviceAccountName"] = "nobody".into();
    cluster.create(set).await;
    settle(2).await;
    let condition = status(&cluster).await["conditions"][0].clone();
    let message = condition["message"].as_str().unwrap().to_owned();
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("ReplicaFailure"), &json!("FailedCreate")));
    let why = "is forbidden: error looking up service account default/nobody: serviceaccount \"nobody\" not found";
    assert!(message.starts_with("pods \"web-") && message.ends_with(why), "{message}");
    let events = cluster.events("web").await;
    assert!(events[0].starts_with("Warning FailedCreate Error creating: pods \"web-"), "{events:?}");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}});
    cluster.create(account).await;
    settle(60).await;
    assert_eq!((cluster.pods().await.len(), status(&cluster).await.get("conditions")), (3, None));
}

#[tokio::test(start_paused = true)]
async fn many_pods_come_and_go() {
    let cluster = TestCluster::start().await;
    test_kubelet::start(cluster.client.clone(), cluster.clock);
    cluster.create(set(120)).await;
    settle(10).await;
    assert_eq!(status(&cluster).await["availableReplicas"], 120);
    cluster.patch("apps/v1 ReplicaSet", "web", json!({"spec": {"replicas": 0}})).await;
    settle(10).await;
    assert_eq!(cluster.pods().await.len(), 0);
}
