//! Garbage collection over an API server, in virtual time.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, settle};

const MAP: &str = "v1 ConfigMap";

fn map(name: &str, owners: &[&Value]) -> Value {
    let reference = |owner: &&Value| {
        let meta = &owner["metadata"];
        json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"],
            "blockOwnerDeletion": true,
        })
    };
    let owners: Vec<Value> = owners.iter().map(reference).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}})
}

#[tokio::test(start_paused = true)]
async fn dependents_go_after_their_owner_and_so_do_theirs() {
    let cluster = TestCluster::start().await;
    let owner = cluster.create(map("owner", &[])).await;
    let other = cluster.create(map("other", &[])).await;
    let child = cluster.create(map("child", &[&owner])).await;
    cluster.create(map("grandchild", &[&child])).await;
    cluster.create(map("shared", &[&owner, &other])).await;
    settle(1).await;
    cluster.delete(MAP, "owner", &DeleteParams::background()).await;
    settle(1).await;
    for gone in ["owner", "child", "grandchild"] {
        assert_eq!(cluster.get(MAP, gone).await, Value::Null, "{gone}");
    }
    let left = cluster.get(MAP, "shared").await["metadata"]["ownerReferences"].clone();
    assert_eq!(left.as_array().map(Vec::len), Some(1));
    assert_eq!(left[0]["name"], "other");
}

#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_dependents_that_block_it() {
    let cluster = TestCluster::start().await;
    let owner = cluster.create(map("owner", &[])).await;
    let mut child = map("child", &[&owner]);
    child["metadata"]["finalizers"] = json!(["example.com/keep"]);
    cluster.create(child).await;
    settle(1).await;
    cluster.delete(MAP, "owner", &DeleteParams::foreground()).await;
    settle(1).await;
    assert_eq!(cluster.get(MAP, "owner").await["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_ne!(cluster.get(MAP, "child").await["metadata"]["deletionTimestamp"], Value::Null);
    cluster.patch(MAP, "child", json!({"metadata": {"finalizers": null}})).await;
    settle(1).await;
    assert_eq!(cluster.get(MAP, "child").await, Value::Null);
    assert_eq!(cluster.get(MAP, "owner").await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_many_goes_after_the_last_of_them() {
    let cluster = TestCluster::start().await;
    let owner = cluster.create(map("owner", &[])).await;
    for number in 0..40 {
        let child = cluster.create(map(&format!("child-{number}"), &[&owner])).await;
        cluster.create(map(&format!("grandchild-{number}"), &[&child])).await;
    }
    settle(1).await;
    cluster.delete(MAP, "owner", &DeleteParams::foreground()).await;
    settle(5).await;
    let left = cluster.list(MAP, "default").await;
    let left: Vec<&Value> = left.iter().map(|map| &map["metadata"]["name"]).collect();
    assert_eq!(left, ["kube-root-ca.crt"]);
}

#[tokio::test(start_paused = true)]
async fn orphans_forget_their_owner() {
    let cluster = TestCluster::start().await;
    let owner = cluster.create(map("owner", &[])).await;
    cluster.create(map("child", &[&owner])).await;
    settle(1).await;
    cluster.delete(MAP, "owner", &DeleteParams::orphan()).await;
    settle(1).await;
    assert_eq!(cluster.get(MAP, "owner").await, Value::Null);
    assert_eq!(cluster.get(MAP, "child").await["metadata"]["ownerReferences"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_owner_never_was_or_lives_elsewhere_goes() {
    let cluster = TestCluster::start().await;
    let ghost = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "not-there"}});
    cluster.create(map("stray", &[&ghost])).await;
    cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}})).await;
    let mut far = map("owner", &[]);
    far["metadata"]["namespace"] = json!("far");
    let far = cluster.create(far).await;
    settle(1).await;
    cluster.create(map("misled", &[&far])).await;
    settle(1).await;
    assert_eq!(cluster.get(MAP, "stray").await, Value::Null);
    assert_eq!(cluster.get(MAP, "misled").await, Value::Null);
    assert!(cluster.events("misled").await[0].starts_with("Warning OwnerRefInvalidNamespace ownerRef ["));
}

#[tokio::test(start_paused = true)]
async fn objects_of_kinds_that_come_later_are_collected_too() {
    let cluster = TestCluster::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    cluster
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
                "versions": [version],
            },
        }))
        .await;
    settle(2).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let widget = cluster.create(widget).await;
    cluster.create(map("child", &[&widget])).await;
    settle(1).await;
    assert_ne!(cluster.get(MAP, "child").await, Value::Null);
    cluster.delete("example.com/v1 Widget", "w", &DeleteParams::background()).await;
    settle(1).await;
    assert_eq!(cluster.get(MAP, "child").await, Value::Null);
}
