//! Whether the manager is well, and its numbers.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::metrics;
use crate::state::Inner;

pub(crate) fn router(inner: Arc<Inner>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(inner)
}

/// Ready while nobody else serves SidecarSets, the caches are synced, their watches run, and the manager is not about to end.
async fn readyz(State(inner): State<Arc<Inner>>) -> Response {
    let not_ready = |reason: &str| (StatusCode::SERVICE_UNAVAILABLE, reason.to_owned()).into_response();
    if *inner.stopping.borrow() {
        return not_ready("shutting down");
    }
    if let Some(obstacle) = &*inner.waiting.borrow() {
        return not_ready(&format!("waiting: {obstacle}"));
    }
    match inner.caches.state() {
        pillion_informer::State::Synced if inner.views.borrow().is_filled => "ok".into_response(),
        pillion_informer::State::Stopped => not_ready("a watch has stopped"),
        _ => not_ready("caches are not synced yet"),
    }
}

async fn metrics(State(inner): State<Arc<Inner>>) -> impl IntoResponse {
    inner.caches.measure(&inner.config.metrics);
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], inner.config.metrics.text())
}
