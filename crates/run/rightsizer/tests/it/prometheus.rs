//! The recommender with history from a Prometheus that answers over HTTP, beside an API server in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse as _;
use axum::routing::get;
use jiff::Timestamp;
use kube::Client;
use pillion_apiserver::ApiServer;
use pillion_rightsizer::{Cluster, Config, HistorySource, Prometheus, recommend};
use serde_json::{Value, json};

const AUTOSCALERS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers";

/// A Prometheus that may be down, and how often it was asked.
async fn prometheus(is_up: Arc<AtomicBool>, asked: Arc<AtomicUsize>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |request: Request| {
        asked.fetch_add(1, Ordering::Relaxed);
        let query = request.uri().query().unwrap_or_default().to_owned();
        let is_up = is_up.load(Ordering::Relaxed);
        async move {
            if !is_up {
                return (StatusCode::SERVICE_UNAVAILABLE, "down").into_response();
            }
            let now = Timestamp::now().as_second();
            let values =
                |value: &str| -> Vec<Value> { (1..=48).rev().map(|hour| json!([now - hour * 3600, value])).collect() };
            // Much memory at first, and never again.
            let is_memory = query.contains("working");
            let values = |value: &str| {
                let mut values = values(value);
                if is_memory {
                    values[0][1] = json!("8589934592");
                }
                values
            };
            // One pod runs, the other is gone; both belong to the Deployment. The third is somebody else's.
            let of = |value: &str| {
                let pods = ["web-5d-a", "web-5d-gone", "api-1"];
                json!(pods.map(|pod| json!({"metric": {"namespace": "default", "pod_name": pod, "name": "app"}, "values": values(value)})))
            };
            let result = if query.contains("cpu") {
                of("0.5")
            } else if is_memory {
                of("1073741824")
            } else {
                let labels = |pod: &str, app: &str| {
                    let metric =
                        json!({"kubernetes_namespace": "default", "kubernetes_pod_name": pod, "pod_label_app": app});
                    json!({"metric": metric, "values": values("1")})
                };
                json!([labels("web-5d-gone", "web"), labels("api-1", "api")])
            };
            let answer = json!({"status": "success", "data": {"resultType": "matrix", "result": result}});
            axum::Json(answer).into_response()
        }
    };
    tokio::spawn(async move {
        axum::serve(listener, Router::new().route("/api/v1/query_range", get(answer))).await.unwrap();
    });
    address
}

async fn create(client: &Client, path: &str, object: Value) -> Value {
    let request = Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(&object).unwrap()).unwrap();
    client.request(request).await.unwrap()
}

async fn read(client: &Client, path: &str) -> Value {
    client.request(axum::http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

/// Waits as long as it takes: the machine may be slow, and a hanging test is ended by whoever runs it.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn nothing_is_recommended_before_prometheus_has_answered_and_then_from_its_history() {
    let server = ApiServer::new(pillion_apiserver::Config::in_memory());
    server.bootstrap().await.unwrap();
    let client = Client::new(server.router(), "default");
    for definition in [pillion_api::vpa::crd::vertical_pod_autoscaler(), pillion_api::vpa::crd::checkpoint()] {
        create(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    }
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "x"}]}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"selector": selector, "template": template}});
    let deployment = create(&client, "/apis/apps/v1/namespaces/default/deployments", deployment).await;
    let owned = |kind: &str, by: &Value| json!([{"apiVersion": "apps/v1", "kind": kind, "name": by["metadata"]["name"], "uid": by["metadata"]["uid"], "controller": true}]);
    let set = json!({"metadata": {"name": "web-5d", "ownerReferences": owned("Deployment", &deployment)}, "spec": {"selector": selector, "template": template}});
    let set = create(&client, "/apis/apps/v1/namespaces/default/replicasets", set).await;
    create(&client, "/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await;
    let pod = json!({
        "metadata": {"name": "web-5d-a", "labels": {"app": "web"}, "ownerReferences": owned("ReplicaSet", &set)},
        "spec": {"nodeName": "n", "containers": [{"name": "app", "image": "x"}]}
    });
    create(&client, "/api/v1/namespaces/default/pods", pod).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let autoscaler = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Off"}, "resourcePolicy": {"containerPolicies": [
            {"containerName": "app", "memoryAggregationIntervalSeconds": 3600}
        ]}}
    });
    until(async || {
        let request = axum::http::Request::post(AUTOSCALERS).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&autoscaler).unwrap()).unwrap();
        client.request::<Value>(request).await.is_ok()
    })
    .await;

    let (is_up, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let address = prometheus(Arc::clone(&is_up), Arc::clone(&asked)).await;
    let cluster = Cluster::new(client.clone());
    let mut config = Config {
        recommender_interval: Duration::from_millis(50),
        history: HistorySource::Prometheus(Box::new(Prometheus { address, ..Prometheus::default() })),
        ..Config::new(client.clone(), Arc::new(Timestamp::now))
    };
    config.gates.per_vpa_config = true;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let recommending = tokio::spawn(async move { recommend(&cluster, &config, async { drop(stopped.await) }).await });
    // It was asked more than once, each time in vain: passes went by.
    until(async || asked.load(Ordering::Relaxed) >= 3).await;
    assert!(read(&client, &format!("{AUTOSCALERS}/web")).await["status"].is_null());

    is_up.store(true, Ordering::Relaxed);
    until(async || !read(&client, &format!("{AUTOSCALERS}/web")).await["status"]["recommendation"].is_null()).await;
    let status = read(&client, &format!("{AUTOSCALERS}/web")).await["status"].clone();
    let app = &status["recommendation"]["containerRecommendations"][0];
    let cores: pillion_quantity::Quantity = app["target"]["cpu"].as_str().unwrap().parse().unwrap();
    assert!((550..=650).contains(&cores.milli_value()), "{status:#}");
    // Two days of two pods: the upper bound is close, which it is not with the samples of one pod for a day.
    let upper: pillion_quantity::Quantity = app["upperBound"]["cpu"].as_str().unwrap().parse().unwrap();
    assert!(upper.milli_value() < 20 * cores.milli_value(), "{status:#}");
    // By the policy a window is an hour: the first one is one of many, and not a day.
    let memory: pillion_quantity::Quantity = app["target"]["memory"].as_str().unwrap().parse().unwrap();
    assert!(memory.value() < 2 << 30, "{status:#}");
    drop(stop);
    recommending.await.unwrap();
    let checkpoints = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalercheckpoints";
    assert_eq!(read(&client, checkpoints).await["items"], json!([]), "Prometheus is the only memory");
}
