//! The recommender and the updater beside an API server in memory.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod checkpoints;
mod kills;
mod prometheus;
mod statuses;
mod targets;
mod troubles;
mod updates;

use std::sync::atomic::{AtomicBool, Ordering};
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
use tokio::task::JoinHandle;

const PODS: &str = "/api/v1/namespaces/default/pods";
const AUTOSCALERS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers";

/// An API server, and what is written to it.
struct Rig {
    server: ApiServer,
    client: Client,
    /// Methods and paths, in order.
    written: Arc<Mutex<Vec<(Method, String)>>>,
    /// Whether it has no answer when it is asked for `scale`.
    is_away: Arc<AtomicBool>,
    /// What becomes of the next requests, by a part of their path.
    troubles: Arc<Mutex<Vec<(&'static str, Trouble)>>>,
}

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// It has no answer for ten minutes.
    Hangs,
    /// The answer is an error that may be over in a moment.
    Fails,
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
        let is_away: Arc<AtomicBool> = Arc::default();
        let troubles: Arc<Mutex<Vec<(&'static str, Trouble)>>> = Arc::default();
        let router = server.router().layer(middleware::from_fn({
            let (written, is_away, troubles) = (Arc::clone(&written), Arc::clone(&is_away), Arc::clone(&troubles));
            move |request: Request, next: Next| {
                let path = request.uri().path().to_owned();
                let is_refused = refused.is_some_and(|refused| path.ends_with(refused));
                let is_away = path.ends_with("/scale") && is_away.load(Ordering::Relaxed);
                let trouble = {
                    let mut troubles = troubles.lock().unwrap();
                    let found = troubles.iter().position(|(part, _)| path.contains(part));
                    found.map(|found| troubles.remove(found).1)
                };
                if request.method() != Method::GET {
                    written.lock().unwrap().push((request.method().clone(), path));
                }
                async move {
                    match trouble {
                        Some(Trouble::Hangs) => tokio::time::sleep(Duration::from_mins(10)).await,
                        Some(Trouble::Fails) => return (StatusCode::INTERNAL_SERVER_ERROR, "no").into_response(),
                        None => {}
                    }
                    if is_away {
                        return (StatusCode::SERVICE_UNAVAILABLE, "away").into_response();
                    }
                    if is_refused {
                        return (StatusCode::NOT_FOUND, "404 page not found").into_response();
                    }
                    next.run(request).await
                }
            }
        }));
        let client = Client::new(router, "default");
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let rig = Rig { server, client, written, is_away, troubles };
        rig.create(definitions, pillion_api::vpa::crd::vertical_pod_autoscaler()).await;
        rig.create(definitions, pillion_api::vpa::crd::checkpoint()).await;
        rig.create("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        rig
    }

    /// The next request to a path with this in it has trouble.
    fn trouble(&self, part: &'static str, trouble: Trouble) {
        self.troubles.lock().unwrap().push((part, trouble));
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
            self.create(PODS, json!({"metadata": metadata, "spec": spec})).await;
        }
    }

    /// A Deployment whose pods have a ReplicaSet each: none of them waits for the successor of another.
    async fn fleet_of(&self, name: &str, pods: usize) {
        let labels = json!({"app": name});
        let resources = json!({"requests": {"cpu": "100m", "memory": "100Mi"}});
        let container = |name: &str| json!({"name": name, "image": "x", "resources": resources});
        let mut spec = json!({"containers": [container("a"), container("b")]});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let object = |name: &str, owner: &Value| {
            let metadata = json!({"name": name, "labels": labels, "ownerReferences": owner});
            json!({"metadata": metadata, "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}})
        };
        let reference = |kind: &str, name: &str, object: &Value| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": object["metadata"]["uid"], "controller": true}]);
        let deployment = self.create("/apis/apps/v1/namespaces/default/deployments", object(name, &json!([]))).await;
        let owner = reference("Deployment", name, &deployment);
        spec["nodeName"] = json!("node");
        for pod in 0..pods {
            let name = format!("{name}-{pod}");
            let set = self.create("/apis/apps/v1/namespaces/default/replicasets", object(&name, &owner)).await;
            let metadata =
                json!({"name": name, "labels": labels, "ownerReferences": reference("ReplicaSet", &name, &set)});
            self.create(PODS, json!({"metadata": metadata, "spec": spec})).await;
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

    fn update(&self, config: Config) -> JoinHandle<()> {
        let cluster = Cluster::new(self.client.clone());
        tokio::spawn(async move { update(&cluster, &config).await })
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
        self.autoscaler_of(name, "apps/v1", "StatefulSet").await;
    }

    /// An autoscaler with the name of its target.
    async fn autoscaler_of(&self, name: &str, version: &str, kind: &str) {
        let target = json!({"apiVersion": version, "kind": kind, "name": name});
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Off"}}
        });
        self.create(AUTOSCALERS, object).await;
    }

    /// The containers that something is recommended for.
    async fn recommended_for(&self, name: &str) -> Vec<String> {
        let autoscaler = self.get(&format!("{AUTOSCALERS}/{name}")).await;
        let all = autoscaler["status"]["recommendation"]["containerRecommendations"].as_array().cloned();
        let name = |it: &Value| it["containerName"].as_str().unwrap().to_owned();
        all.unwrap_or_default().iter().map(name).collect()
    }

    /// The bytes of memory that are recommended for a container.
    async fn memory(&self, name: &str, container: &str) -> i128 {
        let autoscaler = self.get(&format!("{AUTOSCALERS}/{name}")).await;
        let all = autoscaler["status"]["recommendation"]["containerRecommendations"].as_array().cloned();
        let found = all.unwrap_or_default().into_iter().find(|it| it["containerName"] == container);
        let found = found.and_then(|it| it["target"]["memory"].as_str()?.parse::<pillion_quantity::Quantity>().ok());
        found.map_or(0, pillion_quantity::Quantity::value)
    }

    /// A condition of an autoscaler.
    async fn condition(&self, name: &str, condition: &str) -> Option<String> {
        let autoscaler = self.get(&format!("{AUTOSCALERS}/{name}")).await;
        let all = autoscaler["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|it| it["type"] == condition);
        found.map(|it| it["status"].as_str().unwrap().to_owned())
    }

    /// What a container status says of a container that was OOM killed now.
    fn killed(&self) -> Value {
        let at = self.server.clock().now();
        json!({"terminated": {"reason": "OOMKilled", "exitCode": 137, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": at}})
    }

    async fn delete(&self, path: &str) {
        let request = Request::delete(path).body(Vec::new()).unwrap();
        let _: Value = self.client.request(request).await.unwrap();
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

    fn recommend(&self, config: Config) -> JoinHandle<()> {
        let cluster = Cluster::new(self.client.clone());
        tokio::spawn(async move { recommend(&cluster, &config, std::future::pending()).await })
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
        merge(&self.client, path, patch).await;
    }

    /// A quota of the CPU that pods request, of which so much is used. Nothing counts it here.
    async fn quota(&self, hard: &str, used: &str) {
        let quotas = "/api/v1/namespaces/default/resourcequotas";
        let amounts = |amount: &str| json!({"requests.cpu": amount});
        self.create(quotas, json!({"metadata": {"name": "team"}, "spec": {"hard": amounts(hard)}})).await;
        let status = json!({"status": {"hard": amounts(hard), "used": amounts(used)}});
        self.merge(&format!("{quotas}/team/status"), status).await;
    }

    /// A budget of the pods of a StatefulSet that allows no eviction. Nothing counts the pods here.
    async fn exhausted_budget(&self, name: &str) {
        let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        let spec = json!({"minAvailable": 2, "selector": {"matchLabels": {"app": name}}});
        self.create(budgets, json!({"metadata": {"name": name}, "spec": spec})).await;
        let status = json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2, "expectedPods": 2});
        self.merge(&format!("{budgets}/{name}/status"), json!({"status": status})).await;
    }

    /// The successor of a pod of a StatefulSet without a controller, with half a core for each container. It runs.
    async fn successor(&self, set: &str, name: &str) {
        let found = self.get(&format!("/apis/apps/v1/namespaces/default/statefulsets/{set}")).await;
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set, "uid": found["metadata"]["uid"], "controller": true});
        let container = |name: &str| json!({"name": name, "image": "x", "resources": {"requests": {"cpu": "500m", "memory": "100Mi"}}});
        let metadata = json!({"name": name, "labels": {"app": set}, "ownerReferences": [owner]});
        let spec = json!({"nodeName": "node", "containers": [container("a"), container("b")]});
        self.create(PODS, json!({"metadata": metadata, "spec": spec})).await;
        let started = json!({"status": {"phase": "Running", "startTime": self.server.clock().now()}});
        self.merge(&format!("{PODS}/{name}/status"), started).await;
    }
}

async fn merge(client: &Client, path: &str, patch: Value) {
    let request = Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(serde_json::to_vec(&patch).unwrap()).unwrap();
    let _: Value = client.request(request).await.unwrap();
}
