//! The HTTP side of the webhooks: bounds, decoding, and who decides.

mod pod;
mod sidecarset;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use pillion_api::sidecarset::convert::convert_review;
use serde_json::Value;

use crate::paths::{CONVERT, MUTATE_POD, MUTATE_SIDECARSET, VALIDATE_SIDECARSET};
use crate::review::{Answer, Request};
use crate::state::Inner;

/// The API server takes objects of 3 MiB; a review may have one before and one after the change.
const LARGEST_REVIEW: usize = 8 * 1024 * 1024;

/// A list of SidecarSets is converted in one review.
const LARGEST_CONVERSION: usize = 256 * 1024 * 1024;

/// Every endpoint of the manager.
pub(crate) fn router(inner: Arc<Inner>) -> Router {
    let reviews = Router::new()
        .route(MUTATE_POD, post(mutate_pod))
        .route(MUTATE_SIDECARSET, post(mutate_sidecarset))
        .route(VALIDATE_SIDECARSET, post(validate_sidecarset))
        .layer(DefaultBodyLimit::max(LARGEST_REVIEW));
    Router::new()
        .merge(reviews)
        .route(CONVERT, post(convert).layer(DefaultBodyLimit::max(LARGEST_CONVERSION)))
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(inner)
}

async fn mutate_pod(State(inner): State<Arc<Inner>>, body: Bytes) -> Response {
    review(&inner, MUTATE_POD, &body, async |request| pod::mutate(&inner, request).await).await
}

async fn mutate_sidecarset(State(inner): State<Arc<Inner>>, body: Bytes) -> Response {
    review(&inner, MUTATE_SIDECARSET, &body, async |request| sidecarset::mutate(&request)).await
}

async fn validate_sidecarset(State(inner): State<Arc<Inner>>, body: Bytes) -> Response {
    review(&inner, VALIDATE_SIDECARSET, &body, async |request| sidecarset::validate(&inner, &request).await).await
}

/// Reads the question, has it answered, and writes the answer.
async fn review(
    inner: &Inner,
    webhook: &'static str,
    body: &[u8],
    decide: impl AsyncFnOnce(Request) -> Answer,
) -> Response {
    let request = match Request::read(body) {
        Ok(request) => request,
        Err(reason) => return (StatusCode::BAD_REQUEST, reason).into_response(),
    };
    let uid = request.uid.clone();
    let answer = decide(request).await;
    inner.metrics.answered(webhook, answer.is_allowed());
    match answer.into_review(&uid) {
        Ok(review) => Json(review).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn convert(body: Bytes) -> Response {
    match serde_json::from_slice::<Value>(&body) {
        Ok(review) => Json(convert_review(&review)).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("the body is not a ConversionReview: {error}")).into_response(),
    }
}

/// Ready while the caches are synced and their watches run.
async fn readyz(State(inner): State<Arc<Inner>>) -> Response {
    match inner.watches.state() {
        pillion_informer::State::Synced if inner.views.borrow().is_filled => "ok".into_response(),
        pillion_informer::State::Stopped => (StatusCode::SERVICE_UNAVAILABLE, "a watch has stopped").into_response(),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "caches are not synced yet").into_response(),
    }
}

async fn metrics(State(inner): State<Arc<Inner>>) -> impl IntoResponse {
    let text = inner.metrics.text(inner.views.borrow().snapshot.catalog.len());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text)
}
