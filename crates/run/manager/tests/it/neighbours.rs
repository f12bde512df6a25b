//! Other webhooks that change pods, before and after ours.

use axum::routing::post;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{Cluster, PODS, SIDECARSETS, names, pod, sidecarset};

/// A webhook that answers every review with the patch that it makes of the pod.
fn webhook(patch: impl Fn(&Value) -> Value + Clone + Send + Sync + 'static) -> Router {
    let answer = async move |Json(review): Json<Value>| {
        let patch = STANDARD.encode(patch(&review["request"]["object"]).to_string());
        let uid = &review["request"]["uid"];
        let response = json!({"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch});
        Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
    };
    Router::new().route("/", post(answer))
}

/// Registers a webhook for pods. The API server calls configurations in the order of their names.
async fn register(cluster: &Cluster, name: &str, router: Router) {
    let url = format!("https://{name}.invalid");
    cluster.server.register_webhook(&url, router);
    let entry = json!({
        "name": format!("{name}.example.com"), "clientConfig": {"url": format!("{url}/")}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "reinvocationPolicy": "IfNeeded",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    });
    let configuration = json!({"metadata": {"name": name}, "webhooks": [entry]});
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    cluster.create(path, configuration).await.object();
}

/// Adds a container at the end, once.
fn adds(name: &'static str) -> Router {
    webhook(move |pod| {
        let has = names(pod).contains(&name);
        let container = json!({"name": name, "image": format!("{name}:1")});
        if has { json!([]) } else { json!([{"op": "add", "path": "/spec/containers/-", "value": container}]) }
    })
}

/// Sorts the containers by name, the last first.
fn sorts() -> Router {
    webhook(|pod| {
        let mut containers = pod["spec"]["containers"].as_array().unwrap().clone();
        containers.sort_by_key(|container| std::cmp::Reverse(container["name"].as_str().unwrap().to_owned()));
        json!([{"op": "replace", "path": "/spec/containers", "value": containers}])
    })
}

/// A set that sizes its sidecar from the app, with an entry of its own, so that pods come to us twice.
fn mesh() -> Value {
    let policy = json!({"targetContainersMode": "sum", "targetContainersNameRegex": "^app$", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}}});
    let proxy = json!({"name": "proxy", "image": "envoy:1.30", "resourcesPolicy": policy});
    sidecarset("mesh", json!({"containers": [proxy], "injectionStrategy": {"failurePolicy": "Fail"}}))
}

async fn admitted(before: Option<Router>, after: Option<Router>) -> Value {
    let (cluster, manager) = Cluster::managed().await;
    tokio::spawn(async move { manager.run().await });
    cluster.create(SIDECARSETS, mesh()).await.object();
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    for (name, router) in [("a-first", before), ("z-last", after)] {
        if let Some(router) = router {
            register(&cluster, name, router).await;
        }
    }
    cluster.create(PODS, pod("web-0")).await.object()
}

fn proxy(pod: &Value) -> &Value {
    pod["spec"]["containers"].as_array().unwrap().iter().find(|container| container["name"] == "proxy").unwrap()
}

#[tokio::test(start_paused = true)]
async fn containers_that_others_add_are_kept_and_ours_stay_as_they_are() {
    let alone = admitted(None, None).await;
    let both = admitted(Some(adds("early")), Some(adds("late"))).await;
    assert_eq!(names(&both), ["proxy", "app", "early", "late"]);
    assert_eq!(proxy(&both)["resources"], proxy(&alone)["resources"]);
    assert_eq!(proxy(&both)["resources"]["limits"]["cpu"], "1");
    assert_eq!(both["metadata"]["annotations"], alone["metadata"]["annotations"]);
}

#[tokio::test(start_paused = true)]
async fn containers_that_others_reorder_stay_in_that_order_and_are_there_once() {
    let early = admitted(Some(sorts()), None).await;
    assert_eq!(names(&early), ["proxy", "app"]);
    let late = admitted(Some(adds("early")), Some(sorts())).await;
    assert_eq!(names(&late), ["proxy", "early", "app"]);
    assert_eq!(proxy(&late)["resources"]["limits"]["cpu"], "1");
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_claims_an_injection_is_not_believed() {
    let (cluster, _manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let injected = cluster.create(PODS, pod("web-0")).await.object();
    let mut claiming = pod("web-1");
    claiming["metadata"]["annotations"] = injected["metadata"]["annotations"].clone();
    let created = cluster.create(PODS, claiming).await.object();
    assert_eq!(names(&created), ["proxy", "app"]);
}
