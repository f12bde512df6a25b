//! Requests that take long are carried out beside the threads that serve all others, a few at a time.

use std::sync::LazyLock;

use axum::response::Response;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

use crate::call::Call;
use crate::status::Result;
use crate::verbs::{self, Action};

/// From how many bytes on, in the body or in the stored object, a write is expected to take milliseconds rather than microseconds.
const LONG: usize = 64 * 1024;

/// The nice value of threads that carry out long requests, so that short requests go first.
const NICE: i32 = 10;

/// One processor is left to short requests, if there are several.
static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new(processors.saturating_sub(1).max(1))
});

/// Does what the request wants.
pub(crate) async fn run(action: Action, call: &Call<'_>) -> Result<Response> {
    // In virtual time there is one thread, and nobody to hold up.
    let has_workers = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if !has_workers || !is_long(action, call) {
        return verbs::run(action, call).await;
    }
    // The semaphore is never closed.
    let _slot = SLOTS.acquire().await.ok();
    let runtime = Handle::current();
    let work = || {
        // Best effort: if it fails, the request competes with short ones as equals.
        let _ = rustix::process::setpriority_process(None, NICE);
        runtime.block_on(verbs::run(action, call))
    };
    // A thread of its own, since without privileges a thread cannot raise its priority again.
    let outcome = tokio::task::block_in_place(|| std::thread::scope(|scope| scope.spawn(work).join()));
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn is_long(action: Action, call: &Call<'_>) -> bool {
    let stored = || call.inner().store.get(&call.key()).map_or(0, |stored| stored.bytes.len());
    // A few bytes can stand for very many: without an anchor there are no aliases.
    let has_aliases = || call.content_type.ends_with("yaml") && call.body.contains(&b'&');
    match action {
        Action::Create | Action::Review => call.body.len() >= LONG || has_aliases(),
        Action::Update | Action::Patch => call.body.len() >= LONG || has_aliases() || stored() >= LONG,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::{Method, Request, StatusCode, header};
    use serde_json::{Value, json};
    use tower::ServiceExt as _;

    use crate::{ApiServer, Config};

    async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> StatusCode {
        let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content);
        let request = request.body(Body::from(body.to_string())).unwrap();
        server.router().oneshot(request).await.unwrap().status()
    }

    /// A definition whose objects have a list with keys.
    fn definition() -> Value {
        let item = json!({"type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "value": {"type": "string"}}});
        let list = json!({"type": "array", "items": item,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
        let schema =
            json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"items": list}}}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "wides.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "wides", "singular": "wide", "kind": "Wide", "listKind": "WideList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_patch_of_8_000_items_holds_nobody_up() {
        let server = ApiServer::new(Config::in_memory());
        server.bootstrap().await.unwrap();
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(send(&server, Method::POST, definitions, &definition()).await, StatusCode::CREATED);
        let items: Vec<Value> = (0..8_000).map(|n| json!({"name": format!("n{n}"), "value": "v"})).collect();
        let wide = json!({"apiVersion": "example.com/v1", "kind": "Wide",
            "metadata": {"name": "w"}, "spec": {"items": items}});
        let wides = "/apis/example.com/v1/namespaces/default/wides";
        assert_eq!(send(&server, Method::POST, wides, &wide).await, StatusCode::CREATED);

        let (finished, mut order) = tokio::sync::mpsc::unbounded_channel();
        let spawn = |name: &'static str, method: Method, path: &'static str, body: Value| {
            let (server, finished) = (server.clone(), finished.clone());
            tokio::spawn(async move {
                let status = send(&server, method, path, &body).await;
                finished.send((name, status)).unwrap();
            })
        };
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        let patch = spawn("patch", Method::PATCH, "/apis/example.com/v1/namespaces/default/wides/w", labels);
        let read = spawn("read", Method::GET, "/api/v1/namespaces/default", Value::Null);
        patch.await.unwrap();
        read.await.unwrap();
        assert_eq!(order.recv().await, Some(("read", StatusCode::OK)));
        assert_eq!(order.recv().await, Some(("patch", StatusCode::OK)));
    }
}
