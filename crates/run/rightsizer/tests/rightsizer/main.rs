//! The recommender and the updater beside an API server in memory.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod checkpoints;
mod updates;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::IntoResponse as _;
use axum::routing::get;
use kube::Client;
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use pillion_rightsizer::{Cluster, Config, recommend, update};
use serde_json::{Value, json};

const AUTOSCALERS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers";

/// An API server, and what is written to it.
struct Rig {
    server: ApiServer,
    client: Client,
    /// Methods and paths, in order.
    written: Arc<Mutex<Vec<(Method, String)>>>,
}

impl Rig {
    async fn start() -> Rig {
        Rig::without(None).await
    }

    /// An API server that does not know a subresource.
    async fn without(refused: Option<&'static str>) -> Rig {
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let server = ApiServer::new(pillion_apiserver::Config { clock, ..pillion_apiserver::Config::in_memory() });
        server.bootstrap().await.unwrap();
        let written: Arc<Mutex<Vec<(Method, String)>>> = Arc::default();
        let router = server.router().layer(middleware::from_fn({
            let written = Arc::clone(&written);
            move |request: Request, next: Next| {
                let path = request.uri().path().to_owned();
                let is_refused = refused.is_some_and(|refused| path.ends_with(refused));
                if request.method() != Method::GET {
                    written.lock().unwrap().push((request.method().clone(), path));
                }
                async move {
                    if is_refused {
                        return (StatusCode::NOT_FOUND, "404 page not found").into_response();
                    }
                    next.run(request).await
                }
            }
        }));
        let client = Client::new(router, "default");
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let rig = Rig { server, client, written };
        rig.create(definitions, pillion_api::vpa::crd::vertical_pod_autoscaler()).await;
        rig.create(definitions, pillion_api::vpa::crd::checkpoint()).await;
        rig.create("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        rig
    }

    async fn create(&self, path: &str, object: Value) -> Value {
        let request = Request::builder().method(Method::POST).uri(path).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&object).unwrap()).unwrap();
        self.client.request(request).await.unwrap()
    }

    /// A StatefulSet with one pod of two containers.
    async fn workload(&self, name: &str) {
        self.workload_of(name, 1).await;
    }

    /// A StatefulSet with pods of two containers.
    async fn workload_of(&self, name: &str, pods: usize) {
        let labels = json!({"app": name});
        let resources = json!({"requests": {"cpu": "100m", "memory": "100Mi"}});
        let container = |name: &str| json!({"name": name, "image": "x", "resources": resources});
        let spec = json!({"containers": [container("a"), container("b")]});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let set = json!({"metadata": {"name": name}, "spec": {"replicas": pods, "serviceName": name, "selector": {"matchLabels": labels}, "template": template}});
        let set = self.create("/apis/apps/v1/namespaces/default/statefulsets", set).await;
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": set["metadata"]["uid"], "controller": true});
        let mut spec = spec;
        spec["nodeName"] = json!("node");
        for pod in 0..pods {
            let metadata = json!({"name": format!("{name}-{pod}"), "labels": labels, "ownerReferences": [owner]});
            self.create("/api/v1/namespaces/default/pods", json!({"metadata": metadata, "spec": spec})).await;
        }
    }

    /// Has pods run, which half a core is recommended for.
    async fn recommended(&self, name: &str, mode: &str, pods: usize) {
        for pod in 0..pods {
            let path = format!("/api/v1/namespaces/default/pods/{name}-{pod}/status");
            self.merge(&path, json!({"status": {"phase": "Running"}})).await;
        }
        self.mode(name, mode).await;
        let amount = json!({"cpu": "500m"});
        let recommend =
            |name: &str| json!({"containerName": name, "target": amount, "lowerBound": amount, "upperBound": amount});
        let status =
            json!({"status": {"recommendation": {"containerRecommendations": [recommend("a"), recommend("b")]}}});
        self.merge(&format!("{AUTOSCALERS}/{name}/status"), status).await;
        self.take_written();
    }

    async fn mode(&self, name: &str, mode: &str) {
        let policy = json!({"updateMode": mode, "minReplicas": 1});
        self.merge(&format!("{AUTOSCALERS}/{name}"), json!({"spec": {"updatePolicy": policy}})).await;
    }

    fn update(&self, config: Config) {
        let cluster = Cluster::new(self.client.clone());
        tokio::spawn(async move { update(&cluster, &config).await });
    }

    /// Reasons and messages of events.
    async fn events(&self) -> Vec<(String, String)> {
        let events: Value = self.get("/api/v1/namespaces/default/events").await;
        let text = |event: &Value, field: &str| event[field].as_str().unwrap().to_owned();
        events["items"].as_array().unwrap().iter().map(|it| (text(it, "reason"), text(it, "message"))).collect()
    }

    async fn get(&self, path: &str) -> Value {
        self.client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
    }

    /// How many evictions were asked for.
    fn take_evictions(&self) -> usize {
        self.take_written().iter().filter(|(_, path)| path.ends_with("/eviction")).count()
    }

    async fn autoscaler(&self, name: &str) {
        let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name});
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Off"}}
        });
        self.create(AUTOSCALERS, object).await;
    }

    /// Every container uses the same, at any time.
    fn serve_usage(&self, pods: &[String]) {
        let (pods, clock) = (pods.to_vec(), self.server.clock());
        let answer = move || {
            let container = |name: &str| json!({"name": name, "usage": {"cpu": "100m", "memory": "100Mi"}});
            let items: Vec<Value> = pods
                .iter()
                .map(|pod| {
                    json!({
                        "metadata": {"name": format!("{pod}-0"), "namespace": "default"},
                        "timestamp": clock.now().to_string(), "window": "15s", "containers": [container("a"), container("b")]
                    })
                })
                .collect();
            let list = json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items});
            async move { list.to_string() }
        };
        self.server.register_metrics(Router::new().route("/apis/metrics.k8s.io/v1beta1/pods", get(answer)));
    }

    fn config(&self) -> Config {
        let clock = self.server.clock();
        Config::new(self.client.clone(), Arc::new(move || clock.now()))
    }

    fn recommend(&self, config: Config) {
        let cluster = Cluster::new(self.client.clone());
        tokio::spawn(async move { recommend(&cluster, &config, std::future::pending()).await });
    }

    fn take_written(&self) -> Vec<(Method, String)> {
        std::mem::take(&mut *self.written.lock().unwrap())
    }

    /// The names of checkpoints that were written. One that did not exist was patched first, and then created.
    fn take_checkpoints(&self) -> Vec<String> {
        let written = self.take_written().into_iter();
        let patched = written.filter(|(method, path)| *method == Method::PATCH && path.contains("checkpoints/"));
        patched.filter_map(|(_, path)| path.rsplit('/').next().map(str::to_owned)).collect()
    }

    async fn merge(&self, path: &str, patch: Value) {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        let request = request.body(serde_json::to_vec(&patch).unwrap()).unwrap();
        let _: Value = self.client.request(request).await.unwrap();
    }
}
