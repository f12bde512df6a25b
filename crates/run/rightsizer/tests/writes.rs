//! What the recommender and the updater write, beside an API server in memory.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{self, Next};
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
        let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let server = ApiServer::new(pillion_apiserver::Config { clock, ..pillion_apiserver::Config::in_memory() });
        server.bootstrap().await.unwrap();
        let written: Arc<Mutex<Vec<(Method, String)>>> = Arc::default();
        let router = server.router().layer(middleware::from_fn({
            let written = Arc::clone(&written);
            move |request: Request, next: Next| {
                if request.method() != Method::GET {
                    written.lock().unwrap().push((request.method().clone(), request.uri().path().to_owned()));
                }
                next.run(request)
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
        let labels = json!({"app": name});
        let resources = json!({"requests": {"cpu": "100m", "memory": "100Mi"}});
        let container = |name: &str| json!({"name": name, "image": "x", "resources": resources});
        let spec = json!({"containers": [container("a"), container("b")]});
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let set = json!({"metadata": {"name": name}, "spec": {"serviceName": name, "selector": {"matchLabels": labels}, "template": template}});
        let set = self.create("/apis/apps/v1/namespaces/default/statefulsets", set).await;
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": set["metadata"]["uid"], "controller": true});
        let metadata = json!({"name": format!("{name}-0"), "labels": labels, "ownerReferences": [owner]});
        let mut spec = spec;
        spec["nodeName"] = json!("node");
        self.create("/api/v1/namespaces/default/pods", json!({"metadata": metadata, "spec": spec})).await;
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

/// The autoscalers of checkpoints.
fn autoscalers(written: &[String]) -> BTreeSet<&str> {
    written.iter().filter_map(|name| name.rsplit_once('-')).map(|(autoscaler, _)| autoscaler).collect()
}

/// `TestStoreCheckpointsMakesProgressEvenForCancelledContext` in upstream's `pkg/recommender/checkpoint/checkpoint_writer_test.go`:
/// two workers, five autoscalers with two containers, and no time.
#[tokio::test(start_paused = true)]
async fn without_time_every_worker_stores_one_autoscaler_and_the_next_pass_goes_on() {
    let rig = Rig::start().await;
    let names: Vec<String> = (0..5).map(|i| format!("vpa-{i}")).collect();
    rig.serve_usage(&names);
    for name in &names {
        rig.workload(name).await;
        rig.autoscaler(name).await;
    }
    rig.recommend(Config { update_workers: 2, checkpoints_timeout: Duration::ZERO, ..rig.config() });
    tokio::time::sleep(Duration::from_secs(30)).await;
    let first = rig.take_checkpoints();
    assert_eq!((first.len(), autoscalers(&first).len()), (4, 2), "{first:?}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let second = rig.take_checkpoints();
    assert_eq!((second.len(), autoscalers(&second).len()), (4, 2), "{second:?}");
    assert!(autoscalers(&first).is_disjoint(&autoscalers(&second)), "{first:?} {second:?}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let third = rig.take_checkpoints();
    let last: Vec<&str> =
        autoscalers(&third).difference(&(&autoscalers(&first) | &autoscalers(&second))).copied().collect();
    assert_eq!(last.len(), 1, "{third:?}");
}

#[tokio::test(start_paused = true)]
async fn while_another_recommender_loads_history_no_checkpoint_is_written() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    rig.workload("web").await;
    rig.autoscaler("web").await;
    let fetching = async |status: &str| {
        let conditions = json!([{"type": "FetchingHistory", "status": status}]);
        rig.merge(&format!("{AUTOSCALERS}/web/status"), json!({"status": {"conditions": conditions}})).await;
    };
    fetching("True").await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(rig.take_checkpoints(), [""; 0]);
    fetching("False").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(autoscalers(&rig.take_checkpoints()), BTreeSet::from(["web"]));
}

#[tokio::test(start_paused = true)]
async fn a_resize_is_one_patch_and_one_event() {
    let rig = Rig::start().await;
    rig.workload("web").await;
    rig.autoscaler("web").await;
    rig.merge("/api/v1/namespaces/default/pods/web-0/status", json!({"status": {"phase": "Running"}})).await;
    let policy = json!({"updateMode": "InPlaceOrRecreate", "minReplicas": 1});
    rig.merge(&format!("{AUTOSCALERS}/web"), json!({"spec": {"updatePolicy": policy}})).await;
    let amount = json!({"cpu": "500m"});
    let recommend =
        |name: &str| json!({"containerName": name, "target": amount, "lowerBound": amount, "upperBound": amount});
    let status = json!({"status": {"recommendation": {"containerRecommendations": [recommend("a"), recommend("b")]}}});
    rig.merge(&format!("{AUTOSCALERS}/web/status"), status).await;
    rig.take_written();
    let (cluster, config) = (Cluster::new(rig.client.clone()), Config { needs_admission: false, ..rig.config() });
    tokio::spawn(async move { update(&cluster, &config).await });
    tokio::time::sleep(Duration::from_mins(10)).await;
    let shown: Vec<String> = rig.take_written().iter().map(|(method, path)| format!("{method} {path}")).collect();
    assert_eq!(shown, ["PATCH /api/v1/namespaces/default/pods/web-0/resize", "POST /api/v1/namespaces/default/events"]);
}
