//! Which targets are served.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pillion_rightsizer::Config;
use serde_json::{Value, json};

use crate::{AUTOSCALERS, PODS, Rig};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A custom resource, and pods of a ReplicaSet that it controls.
pub(crate) async fn widget(rig: &Rig, subresources: Value, pods: usize) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": subresources});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version],
        },
    });
    rig.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "web"},
        "spec": {"replicas": pods}, "status": {"replicas": pods, "selector": "app=web"},
    });
    let widget = rig.create(WIDGETS, object).await;
    let owned = |version: &str, kind: &str, by: &Value| json!([{"apiVersion": version, "kind": kind, "name": by["metadata"]["name"], "uid": by["metadata"]["uid"], "controller": true}]);
    let labels = json!({"app": "web"});
    let resources = json!({"requests": {"cpu": "100m", "memory": "100Mi"}});
    let container = |name: &str| json!({"name": name, "image": "x", "resources": resources});
    let mut spec = json!({"containers": [container("a"), container("b")]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let set = json!({
        "metadata": {"name": "web-5d", "ownerReferences": owned("example.com/v1", "Widget", &widget)},
        "spec": {"replicas": pods, "selector": {"matchLabels": labels}, "template": template},
    });
    let set = rig.create("/apis/apps/v1/namespaces/default/replicasets", set).await;
    spec["nodeName"] = json!("node");
    for pod in 0..pods {
        let owner = owned("apps/v1", "ReplicaSet", &set);
        let metadata = json!({"name": format!("web-{pod}"), "labels": labels, "ownerReferences": owner});
        rig.create(PODS, json!({"metadata": metadata, "spec": spec})).await;
    }
    rig.autoscaler_of("web", "example.com/v1", "Widget").await;
}

pub(crate) fn scalable() -> Value {
    json!({"scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"
    }})
}

#[tokio::test(start_paused = true)]
async fn nothing_is_recommended_for_a_custom_resource_that_cannot_be_scaled() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    widget(&rig, json!({}), 1).await;
    // An earlier version recommended all the same.
    rig.recommended("web", "Recreate", 1).await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(rig.condition("web", "ConfigUnsupported").await.as_deref(), Some("True"));
    assert_eq!(rig.condition("web", "RecommendationProvided").await.as_deref(), Some("False"));
    assert_eq!(rig.recommended_for("web").await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_takes_no_recommendation_away() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    widget(&rig, scalable(), 1).await;
    let first = rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(rig.recommended_for("web").await, ["a", "b"]);
    rig.is_away.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(rig.condition("web", "ConfigUnsupported").await, None);
    assert_eq!(rig.recommended_for("web").await, ["a", "b"]);
    // Nor one that is away when the recommender starts.
    first.abort();
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(rig.condition("web", "ConfigUnsupported").await, None);
    assert_eq!(rig.recommended_for("web").await, ["a", "b"]);
    rig.is_away.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(15)).await;
    assert_eq!(rig.recommended_for("web").await, ["a", "b"]);

    // A selector that is gone is an answer, and one that is back counts within two minutes.
    rig.merge(&format!("{WIDGETS}/web"), json!({"status": {"selector": ""}})).await;
    tokio::time::sleep(Duration::from_mins(12)).await;
    assert_eq!(rig.condition("web", "ConfigUnsupported").await.as_deref(), Some("True"));
    assert_eq!(rig.recommended_for("web").await, [""; 0]);
    rig.merge(&format!("{WIDGETS}/web"), json!({"status": {"selector": "app=web"}})).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(rig.condition("web", "ConfigUnsupported").await.as_deref(), Some("False"));
    assert_eq!(rig.recommended_for("web").await, ["a", "b"]);
}

/// A Deployment that was deleted, and is created again in a minute, is not a custom resource.
#[tokio::test(start_paused = true)]
async fn a_well_known_target_that_does_not_exist_keeps_what_was_recommended() {
    let rig = Rig::start().await;
    rig.autoscaler("web").await;
    rig.recommended("web", "Off", 0).await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(rig.condition("web", "ConfigUnsupported").await.as_deref(), Some("True"));
    assert_eq!(rig.recommended_for("web").await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_custom_resource_that_is_not_supported_are_not_updated() {
    let rig = Rig::start().await;
    widget(&rig, scalable(), 2).await;
    rig.recommended("web", "Recreate", 2).await;
    let set_unsupported = async |status: &str| {
        let conditions = json!([{"type": "ConfigUnsupported", "status": status}]);
        rig.merge(&format!("{AUTOSCALERS}/web/status"), json!({"status": {"conditions": conditions}})).await;
    };
    set_unsupported("True").await;
    rig.update(Config { needs_admission: false, ..rig.config() });
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(rig.take_evictions(), 0);
    set_unsupported("False").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(rig.take_evictions() > 0);
}
