//! What the API server and scrapers ask a kubelet for.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::runtime::{ContainerId, Runtime};
use crate::state::Inner;
use crate::{logs, usage};

pub(crate) fn router<R: Runtime>(inner: Arc<Inner<R>>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/pods", get(pods::<R>))
        .route("/metrics/resource", get(usage::resource_metrics::<R>))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(container_logs::<R>))
        .with_state(inner)
}

async fn pods<R: Runtime>(State(inner): State<Arc<Inner<R>>>) -> Json<Value> {
    let items: Vec<Value> = inner.pods().iter().map(|(_, record)| json!(*record.pod)).collect();
    Json(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}

async fn container_logs<R: Runtime>(
    State(inner): State<Arc<Inner<R>>>,
    Path((namespace, pod, container)): Path<(String, String, String)>,
    Query(query): Query<logs::Query>,
) -> Response {
    let id = match find(&inner, &namespace, &pod, &container, query.previous) {
        Ok(id) => id,
        Err((status, why)) => return (status, why).into_response(),
    };
    match inner.runtime.logs(&id, query.options(inner.config.clock.now())).await {
        Ok(lines) => Body::from_stream(lines.map(Ok::<_, std::convert::Infallible>)).into_response(),
        Err(refusal) => (StatusCode::BAD_REQUEST, refusal.message).into_response(),
    }
}

fn find<R: Runtime>(
    inner: &Inner<R>,
    namespace: &str,
    pod: &str,
    container: &str,
    previous: bool,
) -> Result<ContainerId, (StatusCode, String)> {
    let pods = inner.pods();
    let Some((uid, record)) = pods.named(namespace, pod) else {
        return Err((StatusCode::NOT_FOUND, format!("pod \"{pod}\" does not exist")));
    };
    if crate::container::find(&record.pod, container).is_none() {
        return Err((StatusCode::NOT_FOUND, format!("container \"{container}\" not found in pod \"{pod}\"")));
    }
    let attempt = logs::attempt(record.facts.get(container), container, pod, previous, waiting(&record.pod, container));
    let attempt = attempt.map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    Ok(ContainerId { pod_uid: uid.clone(), container: container.to_owned(), attempt })
}

/// Why a container waits, as its status says it.
fn waiting<'a>(pod: &'a Pod, container: &str) -> &'a str {
    let status = pod.status.as_ref();
    let lists = [
        status.and_then(|status| status.init_container_statuses.as_ref()),
        status.and_then(|status| status.container_statuses.as_ref()),
    ];
    let found = lists.into_iter().flatten().flatten().find(|status| status.name == container);
    let waiting = found.and_then(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
    waiting.unwrap_or("ContainerCreating")
}
