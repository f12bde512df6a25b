//! What all controllers have in common: an object whose requests hang delays no other, and pods are watched once.

mod agents;
mod lifecycle;
mod quiet;
mod repair;
mod rightsizing;
mod rollout;
mod rollout_events;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use axum::middleware::{self, Next};
use futures::StreamExt as _;
use kube::Client;
use pillion_gates::{Gate, Gates};
use pillion_manager::{Config, ControllerName, Manager};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, URL, asked, pod, sidecarset};

/// Longer than anything takes that does not hang.
const SOON: Duration = Duration::from_secs(5);
/// Longer than the deadline of a request, and the back-off after it.
const AFTER_THE_DEADLINE: Duration = Duration::from_secs(40);

/// A manager whose first request of a kind hangs.
async fn hanging(cluster: &Cluster, method: Method, path: &str) -> Manager {
    let client = cluster.client_that_hangs(method, path);
    let manager = cluster.manage(Config { client, ..cluster.config() }).await;
    let running = manager.clone();
    tokio::spawn(async move { running.run().await });
    manager
}

fn status_of(set: &str) -> String {
    format!("{SIDECARSETS}/{set}/status")
}

/// The value of a metric of a controller.
async fn measured(manager: &Manager, metric: &str, controller: &str) -> f64 {
    let (_, metrics) = asked(manager, "/metrics").await;
    let line = format!("{metric}{{controller=\"{controller}\"}} ");
    let value = metrics.lines().find_map(|known| known.strip_prefix(&line));
    value.unwrap_or_else(|| panic!("{line} is not in\n{metrics}")).parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_status_cannot_be_written_delays_no_other_rollout() {
    let cluster = Cluster::new().await;
    let manager = hanging(&cluster, Method::PATCH, &status_of("set-00")).await;
    let names: Vec<String> = (0..40).map(|i| format!("set-{i:02}")).collect();
    for name in &names {
        let selector = json!({"selector": {"matchLabels": {"app": name}}});
        cluster.create(SIDECARSETS, sidecarset(name, selector)).await.object();
    }
    let is_reported =
        async |name: &str| cluster.get(&format!("{SIDECARSETS}/{name}")).await["status"]["latestRevision"].is_string();
    sleep(SOON).await;
    assert!(!is_reported("set-00").await);
    for name in &names[1..] {
        assert!(is_reported(name).await, "{name}");
    }
    sleep(AFTER_THE_DEADLINE).await;
    assert!(is_reported("set-00").await);
    assert!(measured(&manager, "pillion_reconcile_errors_total", "rollout").await > 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_set_whose_missed_pods_cannot_be_reported_delays_no_other() {
    let cluster = Cluster::new().await;
    cluster.create(PODS, pod("missed")).await.object();
    let client = cluster.client_that_hangs(Method::PATCH, &status_of("first"));
    let parts = vec![ControllerName::Webhook, ControllerName::Repair];
    let manager = cluster.manage(Config { client, parts, ..cluster.config() }).await;
    for name in ["first", "second"] {
        let containers = json!([{"name": name, "image": "envoy:1.30"}]);
        let older = json!({"containers": containers, "injectionStrategy": {"repair": {"includeOlder": true}}});
        cluster.create(SIDECARSETS, sidecarset(name, older)).await.object();
    }
    tokio::spawn(async move { manager.run().await });
    let missed = async |set: &str| cluster.get(&format!("{SIDECARSETS}/{set}")).await["status"]["missedPods"].clone();
    sleep(SOON).await;
    assert_eq!((missed("first").await, missed("second").await), (Value::Null, json!(1)));
    sleep(AFTER_THE_DEADLINE).await;
    assert_eq!(missed("first").await, json!(1));
}

#[tokio::test(start_paused = true)]
async fn a_set_that_asks_whether_the_webhooks_answer_delays_no_other_eviction() {
    let cluster = Cluster::new().await;
    let _webhooks = cluster.manage(cluster.config()).await;
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true});
    for name in ["first", "second"] {
        let mut pod = pod(name);
        pod["metadata"]["ownerReferences"] = json!([owner]);
        pod["metadata"]["labels"] = json!({"app": name});
        cluster.create(PODS, pod).await.object();
    }
    let configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion";
    let client = cluster.client_that_hangs(Method::GET, configuration);
    let parts = vec![ControllerName::Repair];
    let repair = Manager::new(Config { client, parts, installs_definition: false, ..cluster.config() });
    repair.start().await.unwrap();
    for name in ["first", "second"] {
        let strategy = json!({"repair": {"policy": "Evict", "includeOlder": true}});
        let spec = json!({"selector": {"matchLabels": {"app": name}}, "injectionStrategy": strategy});
        cluster.create(SIDECARSETS, sidecarset(name, spec)).await.object();
    }
    tokio::spawn(async move { repair.run().await });
    let pods = async || cluster.get(PODS).await["items"].as_array().unwrap().len();
    sleep(SOON).await;
    assert_eq!(pods().await, 1);
    sleep(AFTER_THE_DEADLINE).await;
    assert_eq!(pods().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_in_which_nothing_can_be_written_delays_no_other_agent() {
    let cluster = Cluster::new().await;
    let maps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    hanging(&cluster, Method::POST, &maps("games")).await;
    for namespace in ["games", "shop"] {
        cluster.namespace(namespace, json!({})).await;
        let mut pod = pod("web-0");
        pod["metadata"]["labels"] = json!({"pillion.dev/agent": "enabled"});
        cluster.create(&format!("/api/v1/namespaces/{namespace}/pods"), pod).await.object();
    }
    let metadata = json!({"name": "agents", "labels": {"pillion.dev/mirror": "true"}});
    let source = json!({"metadata": metadata, "data": {"config.yaml": "plugins: []"}});
    cluster.create(&maps("kube-system"), source).await.object();
    let mirrored = async |namespace: &str| cluster.get(&maps(namespace)).await["items"].as_array().unwrap().len();
    sleep(SOON).await;
    assert_eq!((mirrored("games").await, mirrored("shop").await), (0, 1));
    sleep(AFTER_THE_DEADLINE).await;
    assert_eq!(mirrored("games").await, 1);
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_bounded_by_the_objects_while_the_api_server_does_not_answer() {
    let cluster = Cluster::new().await;
    let (client, answers) = cluster.client_that_stops_answering();
    let manager = cluster.manage(Config { client, gates: all_gates(), ..cluster.config() }).await;
    let running = manager.clone();
    tokio::spawn(async move { running.run().await });
    for name in ["first", "second"] {
        let containers = json!([{"name": name, "image": "envoy:1.30"}]);
        cluster.create(SIDECARSETS, sidecarset(name, json!({"containers": containers}))).await.object();
    }
    for i in 0..5 {
        cluster.create(PODS, pod(&format!("web-{i}"))).await.object();
    }
    sleep(SOON).await;
    answers.send_replace(false);
    for round in 0..400 {
        for i in 0..5 {
            let labels = json!({"metadata": {"labels": {"round": round.to_string()}}});
            cluster.merge(&format!("{PODS}/web-{i}"), labels).await.object();
        }
        sleep(Duration::from_millis(10)).await;
    }
    for controller in ["rollout", "repair", "lifecycle", "agents", "places"] {
        let depth = measured(&manager, "pillion_workqueue_depth", controller).await;
        assert!(depth <= 5.0, "{controller}: {depth}");
    }
}

fn all_gates() -> Gates {
    let all = Gate::ALL.map(|gate| format!("{gate}=true")).join(",");
    Gates::default().with(&all.parse().unwrap())
}

/// Counts the watches of pods that are open at the same time.
#[derive(Default)]
struct Open {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A watch that is open, until it is dropped.
struct Watch(Arc<Open>);

impl Watch {
    fn open(open: &Arc<Open>) -> Watch {
        open.most.fetch_max(open.now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Watch(Arc::clone(open))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_watches_pods_once_with_every_controller_and_every_gate() {
    let cluster = Cluster::new().await;
    let open = Arc::new(Open::default());
    let counted = Arc::clone(&open);
    let count = move |request: Request<Body>, next: Next| {
        let query = request.uri().query().unwrap_or_default();
        let is_watch = request.uri().path().ends_with("/pods") && query.contains("watch=true");
        let watch = is_watch.then(|| Watch::open(&counted));
        async move {
            let response = next.run(request).await;
            response.map(|body| {
                let body = body.into_data_stream().map(move |part| {
                    let _is_open = &watch;
                    part
                });
                Body::from_stream(body)
            })
        }
    };
    let client = Client::new(cluster.server.router().layer(middleware::from_fn(count)), "default");
    let config = cluster.config();
    let rightsizing = pillion_rightsizer::Config::new(client.clone(), config.now.clone());
    let parts = ControllerName::ALL.to_vec();
    let manager = Manager::new(Config { client, rightsizing, parts, gates: all_gates(), ..config });
    cluster.server.register_webhook(URL, manager.webhooks());
    manager.start().await.unwrap();
    manager.register().await.unwrap();
    let running = manager.clone();
    tokio::spawn(async move { running.run().await });
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let autoscaler = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}, "spec": {"targetRef": target},
    });
    cluster.create("/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers", autoscaler).await.object();
    cluster.create(PODS, pod("web-0")).await.object();
    // Watches end and are opened again after some minutes.
    sleep(Duration::from_mins(20)).await;
    assert_eq!((open.now.load(Ordering::Relaxed), open.most.load(Ordering::Relaxed)), (1, 1));
    let (_, text) = asked(&manager, "/readyz?verbose").await;
    for controller in
        ["registration", "rollout", "places", "repair", "lifecycle", "recommender", "updater", "follow", "agents"]
    {
        assert!(text.lines().any(|line| line == format!("[+] {controller} reconciles")), "{controller}: {text}");
    }
}
