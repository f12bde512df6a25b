//! The API server of an embedded cluster, asked as kubectl asks.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use pillion_apiserver::ApiServer;
use pillion_manager::{Config, Manager};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// Where the API server finds the webhooks: a name that no network has.
pub(crate) const URL: &str = "https://pillion.invalid";

/// An API server, and what it answers.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
}

/// An answer of the API server.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Reply {
    /// The object; a refusal fails the test with its message.
    #[track_caller]
    pub(crate) fn object(self) -> Value {
        assert!(self.status.is_success(), "{}", self.body["message"]);
        self.body
    }
}

impl Cluster {
    /// A manager whose webhooks are registered.
    pub(crate) async fn manage(&self, config: Config) -> Manager {
        let manager = Manager::new(config);
        self.server.register_webhook(URL, manager.webhooks());
        manager.start().await.unwrap();
        manager.register().await.unwrap();
        manager
    }

    pub(crate) async fn create(&self, path: &str, object: Value) -> Reply {
        self.request(Method::POST, path, "application/json", Some(object)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.request(Method::GET, path, "", None).await.object()
    }

    pub(crate) async fn merge(&self, path: &str, patch: Value) -> Reply {
        self.request(Method::PATCH, path, "application/merge-patch+json", Some(patch)).await
    }

    pub(crate) async fn request(&self, method: Method, path: &str, kind: &str, body: Option<Value>) -> Reply {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(body.map_or_else(Body::empty, |body| Body::from(body.to_string()))).unwrap();
        let response = self.server.router().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Reply { status, body: serde_json::from_slice(&bytes).unwrap() }
    }
}

pub(crate) fn sidecarset(name: &str, spec: Value) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy", "image": "envoy:1.30"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        set["spec"][key] = value.clone();
    }
    set
}
