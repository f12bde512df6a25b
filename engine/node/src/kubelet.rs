//! What the API server and scrapers ask a kubelet for.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::runtime::Runtime;
use crate::state::Inner;
use crate::target::find;
use crate::{logs, streaming, usage};

pub(crate) fn router<R: Runtime>(inner: Arc<Inner<R>>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/pods", get(pods::<R>))
        .route("/metrics/resource", get(usage::resource_metrics::<R>))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(container_logs::<R>))
        .route("/exec/{namespace}/{pod}/{container}", get(streaming::exec::<R>))
        .route("/attach/{namespace}/{pod}/{container}", get(streaming::attach::<R>))
        .route("/portForward/{namespace}/{pod}", any(streaming::port_forward::<R>))
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
