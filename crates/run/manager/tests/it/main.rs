//! The manager beside an API server in this process, in virtual time, asked as kubectl asks.
// Helpers of tests are tests as well.
#![allow(clippy::panic, clippy::unwrap_used)]

mod controllers;
mod neighbours;
mod registration;
mod serving;
mod take_over;
mod webhooks;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::middleware::{self, Next};
use kube::Client;
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use pillion_gates::Gates;
use pillion_manager::{Config, Manager, WebhookAddress};
use pillion_store::{Options, Store};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt as _;

/// Where the API server finds the webhooks: a name that no network has.
const URL: &str = "https://pillion.invalid";

const SIDECARSETS: &str = "/apis/apps.kruise.io/v1beta1/sidecarsets";

/// An API server, and what it answers.
struct Cluster {
    server: ApiServer,
}

/// An answer of the API server.
#[derive(Debug)]
struct Reply {
    status: StatusCode,
    warnings: Vec<String>,
    body: Value,
}

impl Reply {
    /// The object; a refusal fails the test with its message.
    #[track_caller]
    fn object(self) -> Value {
        assert!(self.status.is_success(), "{}", self.body["message"]);
        self.body
    }
}

/// The writes of a client: method and path.
type Writes = Arc<Mutex<Vec<String>>>;

/// Whether a manager is ready, and what it says of it.
async fn readyz(manager: &Manager) -> (StatusCode, String) {
    asked(manager, "/readyz").await
}

/// What one of the manager's own paths answers.
async fn asked(manager: &Manager, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = manager.health().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

impl Cluster {
    async fn new() -> Cluster {
        Cluster::with_gates(Gates::default()).await
    }

    /// One whose API server has these gates.
    async fn with_gates(gates: Gates) -> Cluster {
        let server = ApiServer::new(pillion_apiserver::Config {
            gates,
            store: Store::memory(Options::default()),
            clock: Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap()),
            seed: Some(0),
            ..pillion_apiserver::Config::in_memory()
        });
        server.bootstrap().await.unwrap();
        let cluster = Cluster { server };
        cluster.service_account("default").await;
        cluster
    }

    /// The same with a manager whose webhooks are registered.
    async fn managed() -> (Cluster, Manager) {
        let cluster = Cluster::new().await;
        let manager = cluster.manage(cluster.config()).await;
        (cluster, manager)
    }

    /// A manager whose webhooks are registered.
    async fn manage(&self, config: Config) -> Manager {
        let manager = Manager::new(config);
        self.server.register_webhook(URL, manager.webhooks());
        manager.start().await.unwrap();
        manager.register().await.unwrap();
        manager
    }

    fn client(&self) -> Client {
        Client::new(self.server.router(), "default")
    }

    /// A client whose writes are noted.
    fn counted_client(&self) -> (Client, Writes) {
        let writes = Writes::default();
        let written = Arc::clone(&writes);
        let count = move |request: Request<Body>, next: Next| {
            if request.method() != Method::GET {
                written.lock().unwrap().push(format!("{} {}", request.method(), request.uri().path()));
            }
            next.run(request)
        };
        (Client::new(self.server.router().layer(middleware::from_fn(count)), "default"), writes)
    }

    /// A client that gets no answer to anything but watches while the sender says so.
    fn client_that_stops_answering(&self) -> (Client, watch::Sender<bool>) {
        let (sender, answers) = watch::channel(true);
        let hang = move |request: Request<Body>, next: Next| {
            let mut answers = answers.clone();
            async move {
                if !request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                    let _ = answers.wait_for(|answers| *answers).await;
                }
                next.run(request).await
            }
        };
        (Client::new(self.server.router().layer(middleware::from_fn(hang)), "default"), sender)
    }

    /// A client whose first request of this kind hangs for ten minutes.
    fn client_that_hangs(&self, method: Method, path: &str) -> Client {
        let (path, is_first) = (path.to_owned(), Arc::new(AtomicBool::new(true)));
        let hang = move |request: Request<Body>, next: Next| {
            let is_meant = request.method() == method && request.uri().path() == path;
            let hangs = is_meant && is_first.swap(false, Ordering::Relaxed);
            async move {
                if hangs {
                    tokio::time::sleep(Duration::from_mins(10)).await;
                }
                next.run(request).await
            }
        };
        Client::new(self.server.router().layer(middleware::from_fn(hang)), "default")
    }

    fn config(&self) -> Config {
        let clock = self.server.clock();
        Config::new(self.client(), Arc::new(move || clock.now()), WebhookAddress::Url(URL.to_owned()))
    }

    async fn namespace(&self, name: &str, labels: Value) {
        self.create("/api/v1/namespaces", json!({"metadata": {"name": name, "labels": labels}})).await.object();
        self.service_account(name).await;
    }

    async fn service_account(&self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.create(&path, json!({"metadata": {"name": "default"}})).await.object();
    }

    async fn create(&self, path: &str, object: Value) -> Reply {
        self.request(Method::POST, path, "application/json", Some(object)).await
    }

    async fn get(&self, path: &str) -> Value {
        self.request(Method::GET, path, "", None).await.object()
    }

    async fn merge(&self, path: &str, patch: Value) -> Reply {
        self.request(Method::PATCH, path, "application/merge-patch+json", Some(patch)).await
    }

    async fn request(&self, method: Method, path: &str, kind: &str, body: Option<Value>) -> Reply {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(body.map_or_else(Body::empty, |body| Body::from(body.to_string()))).unwrap();
        let response = self.server.router().oneshot(request).await.unwrap();
        let status = response.status();
        let warnings =
            response.headers().get_all("warning").iter().map(|text| text.to_str().unwrap().to_owned()).collect();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Reply { status, warnings, body: serde_json::from_slice(&bytes).unwrap() }
    }
}

fn sidecarset(name: &str, spec: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy", "image": "envoy:1.30"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": "app:1", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]},
    })
}

const PODS: &str = "/api/v1/namespaces/default/pods";

/// The names of the pod's containers.
fn names(pod: &Value) -> Vec<&str> {
    pod["spec"]["containers"].as_array().unwrap().iter().map(|container| container["name"].as_str().unwrap()).collect()
}
