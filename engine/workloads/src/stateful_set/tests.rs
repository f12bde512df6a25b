//! A StatefulSet on an API server, in virtual time.

use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, settle};
use crate::test_kubelet;

const KIND: &str = "apps/v1 StatefulSet";
const CLAIM: &str = "v1 PersistentVolumeClaim";

fn set(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "serviceName": "nginx",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
        },
    })
}

async fn start() -> TestCluster {
    let cluster = TestCluster::start().await;
    test_kubelet::start(cluster.client.clone(), cluster.clock);
    cluster
}

async fn images(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.list("v1 Pod", "default").await;
    pods.iter().map(|pod| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_come_in_order_with_their_claims() {
    let cluster = start().await;
    let mut set = set(3);
    let claim = json!({"metadata": {"name": "www"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    set["spec"]["volumeClaimTemplates"] = json!([claim]);
    cluster.create(set).await;
    settle(1).await;
    assert_eq!(cluster.pods().await, ["web-0"]);
    settle(20).await;
    assert_eq!(cluster.pods().await, ["web-0", "web-1", "web-2"]);
    let claims = cluster.list(CLAIM, "default").await;
    let names: Vec<_> = claims.iter().map(|claim| claim["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["www-web-0", "www-web-1", "www-web-2"]);
    let pod = cluster.get("v1 Pod", "web-1").await;
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("web-1"), &json!("nginx")));
    let events = cluster.events("web").await;
    assert_eq!(
        events[..2],
        [
            "Normal SuccessfulCreate Create Claim www-web-0 Pod web-0 in StatefulSet web success",
            "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
        ]
    );
    let mut status = cluster.get(KIND, "web").await["status"].clone();
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    for field in ["currentRevision", "updateRevision"] {
        status.as_object_mut().unwrap().shift_remove(field);
    }
    insta::assert_json_snapshot!(status, @r#"
    {
      "observedGeneration": 1,
      "replicas": 3,
      "readyReplicas": 3,
      "currentReplicas": 3,
      "updatedReplicas": 3,
      "collisionCount": 0,
      "availableReplicas": 3
    }
    "#);
}

#[tokio::test(start_paused = true)]
async fn an_update_goes_from_the_end_to_the_partition_and_then_on() {
    let cluster = start().await;
    let mut set = set(3);
    set["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    cluster.create(set).await;
    settle(20).await;
    let new = json!([{"name": "main", "image": "web:2"}]);
    cluster.patch(KIND, "web", json!({"spec": {"template": {"spec": {"containers": new}}}})).await;
    settle(20).await;
    assert_eq!(images(&cluster).await, ["web:1", "web:1", "web:2"]);
    let status = cluster.get(KIND, "web").await["status"].clone();
    assert_ne!(status["currentRevision"], status["updateRevision"]);
    assert_eq!((&status["currentReplicas"], &status["updatedReplicas"]), (&json!(2), &json!(1)));
    cluster.patch(KIND, "web", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})).await;
    settle(20).await;
    assert_eq!(images(&cluster).await, ["web:2", "web:2", "web:2"]);
    let status = cluster.get(KIND, "web").await["status"].clone();
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    let revisions = cluster.list("apps/v1 ControllerRevision", "default").await;
    assert_eq!(
        revisions
            .iter()
            .map(|revision| revision["revision"].as_i64().unwrap())
            .collect::<std::collections::BTreeSet<_>>(),
        [1, 2].into()
    );
}

#[tokio::test(start_paused = true)]
async fn scaling_down_takes_the_last_pod_first_and_its_claims_if_asked() {
    let cluster = start().await;
    let mut set = set(2);
    let claim = json!({"metadata": {"name": "www"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    set["spec"]["volumeClaimTemplates"] = json!([claim]);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    cluster.create(set).await;
    settle(20).await;
    let uid = cluster.get("v1 Pod", "web-1").await["metadata"]["uid"].clone();
    let owners = |claim: &Value| claim["metadata"]["ownerReferences"].clone();
    assert_eq!(owners(&cluster.get(CLAIM, "www-web-1").await), Value::Null);
    // The finalizer holds the claim back from garbage collection, so that its owner can be seen.
    let held = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    cluster.patch(CLAIM, "www-web-1", held(json!(["example.com/hold"]))).await;
    cluster.patch(KIND, "web", json!({"spec": {"replicas": 1}})).await;
    settle(20).await;
    assert_eq!(cluster.pods().await, ["web-0"]);
    let claim = cluster.get(CLAIM, "www-web-1").await;
    assert_eq!((&owners(&claim)[0]["kind"], &owners(&claim)[0]["uid"]), (&json!("Pod"), &uid));
    assert!(claim["metadata"]["deletionTimestamp"].is_string(), "{claim}");
    cluster.patch(CLAIM, "www-web-1", held(Value::Null)).await;
    assert_eq!(cluster.get(CLAIM, "www-web-1").await, Value::Null);
    assert!(cluster.get(CLAIM, "www-web-0").await.is_object());
}

#[tokio::test(start_paused = true)]
async fn a_failed_pod_is_replaced_under_its_name() {
    let cluster = start().await;
    cluster.create(set(1)).await;
    settle(5).await;
    let before = cluster.get("v1 Pod", "web-0").await["metadata"]["uid"].clone();
    cluster.report("web-0", json!({"phase": "Failed"})).await;
    settle(10).await;
    let after = cluster.get("v1 Pod", "web-0").await;
    assert_ne!(after["metadata"]["uid"], before);
    assert_eq!(after["status"]["phase"], "Running");
    let version = cluster.get(KIND, "web").await["metadata"]["resourceVersion"].clone();
    settle(3600).await;
    assert_eq!(cluster.get(KIND, "web").await["metadata"]["resourceVersion"], version, "nothing to write");
}
