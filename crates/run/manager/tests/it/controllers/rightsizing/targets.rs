//! Every kind of target, from usage to the pod.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::{AUTOSCALERS, Rig, request};

const BUSY: &str = "app: forever uses 400m 300Mi";

async fn autoscale(rig: &Rig, version: &str, kind: &str, mode: &str) {
    let object = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {
            "targetRef": {"apiVersion": version, "kind": kind, "name": "web"},
            "updatePolicy": {"updateMode": mode, "minReplicas": 1}
        }
    });
    rig.cluster.create(AUTOSCALERS, object).await.object();
}

fn template(script: &str) -> Value {
    let resources = json!({"requests": {"cpu": "100m", "memory": "100Mi"}});
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"pillion.dev/simulate": script}},
        "spec": {"containers": [{"name": "app", "image": "x", "resources": resources}]}
    })
}

async fn until_sized(rig: &Rig) {
    rig.until("a pod with what is recommended", async |rig| {
        rig.pods().await.iter().any(|pod| request(pod, "containers", "app", "memory") != "100Mi")
    })
    .await;
    assert!(rig.target("app", "cpu").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_learns_from_one_run_for_the_next() {
    let rig = Rig::start("").await;
    autoscale(&rig, "batch/v1", "CronJob", "Initial").await;
    let mut template = template("app: 4m uses 400m 300Mi");
    template["spec"]["restartPolicy"] = json!("Never");
    let job = json!({"spec": {"template": template}});
    let object = json!({"metadata": {"name": "web"}, "spec": {"schedule": "*/10 * * * *", "jobTemplate": job}});
    rig.cluster.create("/apis/batch/v1/namespaces/default/cronjobs", object).await.object();
    until_sized(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_daemon_set_are_evicted_by_how_many_are_ready() {
    let rig = Rig::start("").await;
    autoscale(&rig, "apps/v1", "DaemonSet", "Recreate").await;
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template(BUSY)});
    let object = json!({"metadata": {"name": "web"}, "spec": spec});
    rig.cluster.create("/apis/apps/v1/namespaces/default/daemonsets", object).await.object();
    until_sized(&rig).await;
    assert!(rig.count("EvictedByVPA").await >= 1);
}

/// A custom resource that makes its pods with a ReplicaSet, and says by which labels they are found; one that does not say it.
#[tokio::test(start_paused = true)]
async fn a_custom_resource_needs_a_scale_subresource_with_a_selector() {
    for (selector, is_supported) in [(json!({"labelSelectorPath": ".status.selector"}), true), (json!({}), false)] {
        let rig = Rig::start("").await;
        let mut scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        scale.as_object_mut().unwrap().extend(selector.as_object().unwrap().clone());
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version = json!({
            "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}, "scale": scale}
        });
        let definition = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "versions": [version],
                "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"}
            }
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        rig.cluster.create(definitions, definition).await.object();
        sleep(Duration::from_secs(10)).await;
        let widgets = "/apis/example.com/v1/namespaces/default/widgets";
        let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "web"}, "spec": {"replicas": 2}});
        let widget = rig.cluster.create(widgets, widget).await.object();
        let status = json!({"status": {"selector": "app=web", "replicas": 2}});
        rig.cluster.merge(&format!("{widgets}/web/status"), status).await.object();
        autoscale(&rig, "example.com/v1", "Widget", "Recreate").await;
        let owner = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "name": "web", "uid": widget["metadata"]["uid"], "controller": true
        });
        let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template(BUSY)});
        let set = json!({"metadata": {"name": "web-1", "ownerReferences": [owner]}, "spec": spec});
        rig.cluster.create("/apis/apps/v1/namespaces/default/replicasets", set).await.object();
        if is_supported {
            until_sized(&rig).await;
            continue;
        }
        sleep(Duration::from_mins(10)).await;
        let status = rig.cluster.get(&format!("{AUTOSCALERS}/web")).await["status"].take();
        let conditions = status["conditions"].as_array().unwrap();
        let unsupported = conditions.iter().find(|it| it["type"] == "ConfigUnsupported").unwrap();
        assert!(
            unsupported["message"].as_str().unwrap().ends_with("has an empty selector for scale sub-resource"),
            "{unsupported}"
        );
    }
}
