//! A cluster in this process for tests: an API server with the manager's webhooks, and a reader whose requests are written down.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::DATE;
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use kube::Client;
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use pillion_gates::Gates;
use pillion_manager::{Config, Manager, WebhookAddress};
use pillion_note::Draw;
use pillion_store::{Options, Store};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::known::Wanted;
use super::read::Reader;
use crate::Failure;

/// Where the API server finds the webhooks: a name that no network has.
const URL: &str = "https://pillion.invalid";

pub(crate) const SIDECARSETS: &str = "/apis/apps.kruise.io/v1beta1/sidecarsets";

pub(crate) struct TestCluster {
    server: ApiServer,
    requests: Arc<Mutex<Vec<String>>>,
    /// It watches for as long as it is kept.
    manager: Option<Manager>,
}

impl TestCluster {
    /// An API server alone.
    pub(crate) async fn bare() -> TestCluster {
        TestCluster::bare_with(Gates::default()).await
    }

    async fn bare_with(gates: Gates) -> TestCluster {
        let server = ApiServer::new(pillion_apiserver::Config {
            gates,
            store: Store::memory(Options::default()),
            clock: Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap()),
            seed: Some(0),
            ..pillion_apiserver::Config::in_memory()
        });
        server.bootstrap().await.unwrap();
        let cluster = TestCluster { server, requests: Arc::default(), manager: None };
        cluster.service_account("default").await;
        cluster
    }

    /// The same with the manager's webhooks.
    pub(crate) async fn managed() -> TestCluster {
        TestCluster::managed_with(Gates::default()).await
    }

    /// The same with these gates on both.
    pub(crate) async fn managed_with(gates: Gates) -> TestCluster {
        let mut cluster = TestCluster::bare_with(gates).await;
        let clock = cluster.server.clock();
        let client = Client::new(cluster.server.router(), "default");
        let config = Config::new(client, Arc::new(move || clock.now()), WebhookAddress::Url(URL.to_owned()));
        let manager = Manager::new(Config { gates, ..config });
        cluster.server.register_webhook(URL, manager.webhooks());
        manager.start().await.unwrap();
        manager.register().await.unwrap();
        cluster.manager = Some(manager);
        cluster
    }

    /// A reader whose requests are written down, and refused for lack of rights where their path ends in one of `forbidden`.
    pub(crate) fn reader_without(&self, forbidden: &'static [&'static str]) -> Reader {
        let requests = Arc::clone(&self.requests);
        let record = move |request: Request, next: Next| {
            let requests = Arc::clone(&requests);
            async move {
                let path = request.uri().path().to_owned();
                requests.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
                if forbidden.iter().any(|part| path.ends_with(part)) { refused(&path) } else { next.run(request).await }
            }
        };
        Reader::new(Client::new(self.server.router().layer(middleware::from_fn(record)), "default"))
    }

    /// A reader whose answers say what time it is for the cluster, as those of an API server do that is reached through a network.
    pub(crate) fn reader_with_dates(&self) -> Reader {
        let clock = self.server.clock();
        let dated = move |request: Request, next: Next| async move {
            let mut response = next.run(request).await;
            let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&clock.now()).unwrap();
            response.headers_mut().insert(DATE, date.parse().unwrap());
            response
        };
        Reader::new(Client::new(self.server.router().layer(middleware::from_fn(dated)), "default"))
    }

    pub(crate) fn reader(&self) -> Reader {
        self.reader_without(&[])
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.server.clock().now()
    }

    /// The requests that were made through readers.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) async fn namespace(&self, name: &str) {
        self.create("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
        self.service_account(name).await;
    }

    pub(crate) async fn service_account(&self, namespace: &str) {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        self.create(&path, json!({"metadata": {"name": "default"}})).await;
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.send(Method::POST, path, "application/json", Some(object)).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: Value) -> Value {
        self.send(Method::PATCH, path, "application/merge-patch+json", Some(patch)).await
    }

    pub(crate) async fn delete(&self, path: &str) {
        self.send(Method::DELETE, path, "", None).await;
        // The manager's watch follows.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }

    pub(crate) async fn send(&self, method: Method, path: &str, kind: &str, body: Option<Value>) -> Value {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(body.map_or_else(Body::empty, |body| Body::from(body.to_string()))).unwrap();
        let response = self.server.router().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(status.is_success(), "{path}: {}", body["message"]);
        body
    }
}

fn refused(path: &str) -> Response {
    let resource = path.rsplit('/').next().unwrap_or_default();
    let message = format!("{resource} is forbidden: User \"jane\" cannot list resource \"{resource}\"");
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "Forbidden", "code": 403});
    (StatusCode::FORBIDDEN, axum::Json(status)).into_response()
}

/// Everything there is in a namespace, or in all.
pub(crate) fn wanted(namespace: Option<&str>) -> Wanted<'_> {
    Wanted {
        namespace,
        revisions_namespace: "kruise-system",
        gates: Gates::default(),
        wrap_image: None,
        draw: Draw::default(),
    }
}

/// The exit status and the message of a failure.
pub(crate) fn message(failure: Failure) -> (u8, String) {
    match failure {
        Failure::No(reasons) => (1, reasons.join("\n")),
        Failure::Misuse(reasons) => (2, reasons.join("\n")),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn sidecarset(name: &str, containers: Value) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": containers},
    })
}

pub(crate) fn proxy(image: &str) -> Value {
    let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}, "requests": {"cpu": "100m"}}});
    json!({"name": "proxy", "image": image, "resourcesPolicy": policy})
}

/// The spec of a pod with one container of 2 cpu.
pub(crate) fn pod_spec() -> Value {
    json!({"containers": [{"name": "app", "image": "app:1", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]})
}

pub(crate) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": pod_spec()})
}

/// A pod that is controlled by an object.
pub(crate) fn pod_of(name: &str, owner: &Value) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["ownerReferences"] = json!([owner_reference(owner)]);
    pod
}

pub(crate) fn owner_reference(owner: &Value) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true})
}

/// A workload of apps/v1 with that pod.
pub(crate) fn workload(name: &str, replicas: u64) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()},
        },
    })
}
