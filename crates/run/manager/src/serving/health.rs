//! Whether the manager is well, and its numbers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::controller_name::ControllerName;
use crate::metrics;
use crate::state::Inner;

pub(crate) fn router(inner: Arc<Inner>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(inner)
}

/// For how long a watch may be refused. The time in which the API server cannot be reached does not count: admission with what is known is better than
/// none in the moment in which it is back, since every replica has lost it and none has had the time to watch again.
const GRACE: Duration = Duration::from_mins(1);

/// Ready while the caches of admission are synced, their watches are not refused, the webhooks are registered (if this process serves them), and the
/// manager is not about to end. A manager that stands by because somebody else
/// serves SidecarSets meanwhile still answers: API servers call it until it is not registered any more.
///
/// With `?verbose`, the answer also says of each controller whether it reconciles.
async fn readyz(State(inner): State<Arc<Inner>>, RawQuery(query): RawQuery) -> Response {
    let (status, mut text) = readiness(&inner);
    if query.is_some_and(|query| query.split('&').any(|flag| flag.split('=').next() == Some("verbose"))) {
        for controller in inner.config.parts.iter().flat_map(|part| part.reconcilers()) {
            let line = if inner.config.metrics.is_running(controller) {
                format!("\n[+] {controller} reconciles")
            } else {
                format!("\n[-] {controller} is not the leader, or waits for what it needs")
            };
            text.push_str(&line);
        }
    }
    (status, text).into_response()
}

fn readiness(inner: &Inner) -> (StatusCode, String) {
    let not_ready = |reason: &str| (StatusCode::SERVICE_UNAVAILABLE, reason.to_owned());
    let ready = |text: String| (StatusCode::OK, text);
    if *inner.stopping.borrow() {
        return not_ready("shutting down");
    }
    let failing = inner.caches.failures().chain(inner.rightsizing.failures());
    let refused = failing.filter(|(_, failure)| failure.refused.is_some_and(|since| since.elapsed() >= GRACE));
    if let Some((what, failure)) = refused.min_by_key(|(_, failure)| failure.since) {
        let seconds = failure.since.elapsed().as_secs();
        return not_ready(&format!("the watch of {what} has failed for {seconds} s: {}", failure.error));
    }
    let unregistered = unregistered(inner);
    let (waiting, is_filled) = (inner.waiting.borrow().clone(), inner.views.borrow().is_filled);
    match (inner.caches.state().min(inner.rightsizing.state()), waiting) {
        (pillion_informer::State::Synced, _) if is_filled && unregistered.is_some() => {
            not_ready(&unregistered.unwrap_or_default())
        }
        (pillion_informer::State::Synced, None) if is_filled => ready("ok".to_owned()),
        (pillion_informer::State::Synced, Some(obstacle)) if is_filled => {
            ready(format!("ok, but standing by: {obstacle}"))
        }
        (_, Some(obstacle)) => not_ready(&format!("waiting: {obstacle}")),
        (pillion_informer::State::Stopped, None) => not_ready("a watch has stopped"),
        _ => not_ready("caches are not synced yet"),
    }
}

/// Why API servers do not send pods to the webhooks of this process, if it serves them.
fn unregistered(inner: &Inner) -> Option<String> {
    if !inner.config.parts.contains(&ControllerName::Webhook) || *inner.registered.borrow() {
        return None;
    }
    let reason = inner.unregistered.borrow().as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("the webhooks are not registered{reason}"))
}

async fn metrics(State(inner): State<Arc<Inner>>) -> impl IntoResponse {
    inner.caches.measure(&inner.config.metrics);
    if inner.pods.is_in_use() {
        inner.config.metrics.cache("Pod", inner.pods.cache());
    }
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], inner.config.metrics.text())
}
