//! The HTTP side of the webhooks: bounds, decoding, and who decides.

mod autoscaler;
mod pod;
mod sidecarset;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use pillion_api::sidecarset::conversion_review::convert_review;
use tokio::time::Instant;

use crate::budget::{Budget, Held, Refused};
use crate::metrics::Outcome;
use crate::paths::{
    CONVERT, MUTATE_AUTOSCALER, MUTATE_POD, MUTATE_SIDECARSET, VALIDATE_AUTOSCALER, VALIDATE_SIDECARSET,
};
use crate::review::{Answer, Request};
use crate::state::Inner;

/// The API server takes objects of 3 MiB; a review may have one before and one after the change.
const LARGEST_REVIEW: usize = 8 * 1024 * 1024;

/// A list of SidecarSets is converted in one review, of at most 10,000 objects: the API server reads its store in pages of that size.
const LARGEST_CONVERSION: usize = 128 * 1024 * 1024;

/// A conversion of more than this is left to another thread.
const QUICK_CONVERSION: usize = 64 * 1024;

/// How long a review waits for the first view of the cluster. The API server waits three seconds for a pod.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What the webhooks share.
struct Webhooks {
    inner: Arc<Inner>,
    budget: Budget,
}

/// Every webhook.
pub(crate) fn router(inner: Arc<Inner>) -> Router {
    Router::new()
        .route(MUTATE_POD, post(mutate_pod))
        .route(MUTATE_SIDECARSET, post(mutate_sidecarset))
        .route(VALIDATE_SIDECARSET, post(validate_sidecarset))
        .route(MUTATE_AUTOSCALER, post(mutate_autoscaler))
        .route(VALIDATE_AUTOSCALER, post(validate_autoscaler))
        .route(CONVERT, post(convert))
        .with_state(Arc::new(Webhooks { inner, budget: Budget::default() }))
}

async fn mutate_pod(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let inner = &webhooks.inner;
    let read =
        |body: &Bytes| Request::read_new_pod(body, inner.views.borrow().snapshot.catalog.transferred_variables());
    webhooks.review(MUTATE_POD, &headers, body, read, async |request| pod::mutate(inner, request).await).await
}

async fn mutate_sidecarset(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let inner = &webhooks.inner;
    webhooks
        .review(MUTATE_SIDECARSET, &headers, body, Request::read, async |request| sidecarset::mutate(inner, &request))
        .await
}

async fn validate_sidecarset(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let inner = &webhooks.inner;
    webhooks
        .review(VALIDATE_SIDECARSET, &headers, body, Request::read, async |request| {
            sidecarset::validate(inner, &request).await
        })
        .await
}

async fn mutate_autoscaler(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    webhooks
        .review(MUTATE_AUTOSCALER, &headers, body, Request::read, async |request| autoscaler::mutate(&request))
        .await
}

async fn validate_autoscaler(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let gates = webhooks.inner.config.gates;
    webhooks
        .review(VALIDATE_AUTOSCALER, &headers, body, Request::read, async |request| {
            autoscaler::validate(&request, gates.into())
        })
        .await
}

impl Webhooks {
    /// Reads the question, has it answered, and writes the answer.
    async fn review(
        &self,
        webhook: &'static str,
        headers: &HeaderMap,
        body: Body,
        read: impl FnOnce(&Bytes) -> Result<Request, String>,
        decide: impl AsyncFnOnce(Request) -> Answer,
    ) -> Response {
        let metrics = &self.inner.config.metrics;
        let body = match self.budget.read(headers, body, LARGEST_REVIEW).await {
            Ok(body) => body,
            Err(refused) => {
                metrics.reviewed(webhook, outcome(refused), Duration::ZERO);
                return refused.into_response();
            }
        };
        let start = Instant::now();
        let (outcome, response) = self.answer(&body, read, decide).await;
        metrics.reviewed(webhook, outcome, start.elapsed());
        response
    }

    async fn answer(
        &self,
        body: &Held<'_>,
        read: impl FnOnce(&Bytes) -> Result<Request, String>,
        decide: impl AsyncFnOnce(Request) -> Answer,
    ) -> (Outcome, Response) {
        let _room = match self.budget.review().await {
            Ok(room) => room,
            Err(refused) => return (outcome(refused), refused.into_response()),
        };
        let request = match read(&body.bytes) {
            Ok(request) => request,
            Err(reason) => return (Outcome::Malformed, (StatusCode::BAD_REQUEST, reason).into_response()),
        };
        // Without a view nothing can be decided. It takes a moment after a start.
        let is_filled = self.inner.views.borrow().is_filled;
        if !is_filled && tokio::time::timeout(LONGEST_WAIT, self.inner.filled()).await.is_err() {
            let reason = "the manager's caches are not synced yet";
            return (Outcome::Shed, (StatusCode::SERVICE_UNAVAILABLE, reason).into_response());
        }
        let uid = request.uid.clone();
        let answer = decide(request).await;
        let outcome = match &answer {
            answer if !answer.is_allowed() => Outcome::Denied,
            answer if answer.patch.0.is_empty() => Outcome::Allowed,
            _ => Outcome::Changed,
        };
        match answer.into_review(&uid) {
            Ok(review) => (outcome, json(review)),
            Err(error) => (outcome, (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()),
        }
    }

    /// Converts the objects of a review.
    async fn convert(&self, headers: &HeaderMap, body: Body) -> Result<Response, Refused> {
        let body = self.budget.read(headers, body, LARGEST_CONVERSION).await?;
        let _room = self.budget.conversion().await?;
        let converted = if body.bytes.len() <= QUICK_CONVERSION {
            convert_review(&body.bytes)
        } else {
            let bytes = body.bytes.clone();
            match tokio::task::spawn_blocking(move || convert_review(&bytes)).await {
                Ok(converted) => converted,
                Err(error) => return Ok((StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()),
            }
        };
        Ok(match converted {
            Ok(review) => json(review),
            Err(error) => {
                (StatusCode::BAD_REQUEST, format!("the body is not a ConversionReview: {error}")).into_response()
            }
        })
    }
}

async fn convert(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let response = webhooks.convert(&headers, body).await;
    let metrics = &webhooks.inner.config.metrics;
    match response {
        Ok(response) => {
            let outcome = if response.status().is_success() { Outcome::Changed } else { Outcome::Malformed };
            metrics.converted(outcome);
            response
        }
        Err(refused) => {
            metrics.converted(outcome(refused));
            refused.into_response()
        }
    }
}

fn outcome(refused: Refused) -> Outcome {
    match refused {
        Refused::TooLarge { .. } | Refused::Incomplete => Outcome::Malformed,
        Refused::Overloaded => Outcome::Shed,
    }
}

fn json(text: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
