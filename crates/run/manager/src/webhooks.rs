//! The HTTP side of the webhooks: bounds, decoding, and who decides.

mod autoscaler;
mod job;
mod not_in_force;
mod place;
mod pod;
mod question;
mod review;
mod sidecarset;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use pillion_api::sidecarset::conversion_review::convert_review;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::metrics::Outcome;
use crate::registration::paths::{
    CONFIRM_PLACE, CONVERT, MUTATE_AUTOSCALER, MUTATE_POD, MUTATE_SIDECARSET, VALIDATE_AUTOSCALER, VALIDATE_JOB,
    VALIDATE_SIDECARSET,
};
use crate::serving::budget::{Budget, DECODED, Decoding, Held, PATIENCE_OF_CONVERSIONS, Refused, Room, sent};
use crate::serving::weight::weight;
use crate::state::Inner;
use crate::webhooks::question::Question;
use crate::webhooks::review::{Answer, Request};

/// The API server takes objects of 3 MiB; a review may have one before and one after the change.
const LARGEST_REVIEW: usize = 8 * 1024 * 1024;

/// A list of SidecarSets is converted in one review, of at most 10,000 objects: the API server reads its store in pages of that size.
const LARGEST_CONVERSION: usize = 128 * 1024 * 1024;

/// A conversion of more than this is left to another thread. One of less is decoded to ten megabytes at most.
const QUICK_CONVERSION: usize = 64 * 1024;

/// SidecarSets and autoscalers are decoded into types, changed, and compared as JSON: that takes the memory of JSON twice.
const TYPED: usize = 2;

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
        .route(CONFIRM_PLACE, post(confirm_place))
        .route(MUTATE_SIDECARSET, post(mutate_sidecarset))
        .route(VALIDATE_SIDECARSET, post(validate_sidecarset))
        .route(MUTATE_AUTOSCALER, post(mutate_autoscaler))
        .route(VALIDATE_AUTOSCALER, post(validate_autoscaler))
        .route(VALIDATE_JOB, post(validate_job))
        .route(CONVERT, post(convert))
        .with_state(Arc::new(Webhooks { inner, budget: Budget::default() }))
}

async fn mutate_pod(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let inner = &webhooks.inner;
    webhooks.review(MUTATE_POD, &headers, body, async |question| pod::mutate(inner, question).await).await
}

async fn confirm_place(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let inner = &webhooks.inner;
    webhooks.review(CONFIRM_PLACE, &headers, body, async |question| place::confirm(inner, question).await).await
}

async fn mutate_sidecarset(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let inner = &webhooks.inner;
    webhooks.review_typed(MUTATE_SIDECARSET, &headers, body, async |request| sidecarset::mutate(inner, &request)).await
}

async fn validate_sidecarset(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let inner = &webhooks.inner;
    webhooks
        .review_typed(VALIDATE_SIDECARSET, &headers, body, async |request| sidecarset::validate(inner, &request).await)
        .await
}

async fn mutate_autoscaler(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    webhooks.review_typed(MUTATE_AUTOSCALER, &headers, body, async |request| autoscaler::mutate(&request)).await
}

async fn validate_autoscaler(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let gates = webhooks.inner.config.gates;
    webhooks
        .review_typed(VALIDATE_AUTOSCALER, &headers, body, async |request| autoscaler::validate(&request, gates.into()))
        .await
}

async fn validate_job(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let gates = webhooks.inner.config.gates;
    webhooks.review_typed(VALIDATE_JOB, &headers, body, async |request| job::validate(&request, gates)).await
}

impl Webhooks {
    /// Has a question about a write answered that is decoded into types. Everything else is allowed.
    async fn review_typed(
        &self,
        webhook: &'static str,
        headers: &HeaderMap,
        body: Body,
        decide: impl AsyncFnOnce(Request) -> Answer,
    ) -> Response {
        let answer = async move |question: Question| -> Result<(String, Answer), Refused> {
            let decoded = question.decode(TYPED, Request::read).await?;
            let request = decoded.request;
            let uid = request.uid.clone();
            Ok((uid, if request.is_write() { decide(request).await } else { Answer::default() }))
        };
        self.review(webhook, headers, body, answer).await
    }

    /// Reads the question, has it answered, and writes the answer.
    async fn review(
        &self,
        webhook: &'static str,
        headers: &HeaderMap,
        body: Body,
        decide: impl AsyncFnOnce(Question) -> Result<(String, Answer), Refused>,
    ) -> Response {
        let metrics = &self.inner.config.metrics;
        let body = match self.budget.read(headers, body, LARGEST_REVIEW).await {
            Ok(body) => body,
            Err(refused) => {
                metrics.reviewed(webhook, outcome(&refused), Duration::ZERO);
                return refused.into_response();
            }
        };
        let start = Instant::now();
        let (outcome, response) = match self.answer(body, decide).await {
            Ok((outcome, review)) => (outcome, json(review)),
            Err(refused) => (outcome(&refused), refused.into_response()),
        };
        metrics.reviewed(webhook, outcome, start.elapsed());
        response
    }

    async fn answer(
        &self,
        body: Held,
        decide: impl AsyncFnOnce(Question) -> Result<(String, Answer), Refused>,
    ) -> Result<(Outcome, Bytes), Refused> {
        let question = Question::new(&self.budget, body).await?;
        // Without a view nothing can be decided. It takes a moment after a start.
        let is_filled = self.inner.views.borrow().is_filled;
        if !is_filled && tokio::time::timeout(LONGEST_WAIT, self.inner.filled()).await.is_err() {
            return Err(Refused::NotSynced);
        }
        let (uid, answer) = decide(question).await?;
        let outcome = match &answer {
            answer if !answer.is_allowed() => Outcome::Denied,
            answer if answer.patch.0.is_empty() => Outcome::Allowed,
            _ => Outcome::Changed,
        };
        let review = answer.into_review(&uid).map_err(|error| Refused::Failed(error.to_string()))?;
        let room = self.budget.answer(review.len()).await?;
        Ok((outcome, sent(review, room)))
    }

    async fn convert(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Refused> {
        let body = self.budget.read(headers, body, LARGEST_CONVERSION).await?;
        // The answer is about as long as the request.
        let answer = self.budget.answer(body.bytes.len()).await?;
        let room = self.budget.conversion().await?;
        let answered = move |converted: Result<Vec<u8>, serde_json::Error>| match converted {
            Ok(review) => Ok(sent(review, answer)),
            Err(error) => Err(Refused::Malformed(format!("the body is not a ConversionReview: {error}"))),
        };
        if body.bytes.len() <= QUICK_CONVERSION {
            return answered(convert_review(&body.bytes, |_| Ok(())));
        }
        let (decoding, runtime) = (self.budget.decoding.clone(), Handle::current());
        let convert = move || {
            // What was given to the review is its own until it is converted: the thread goes on when nobody waits for it any more.
            let (body, _room) = (body, room);
            let is_overloaded = Cell::new(false);
            let converted = convert_review(&body.bytes, |object| {
                hold(object, &decoding, &runtime).map_err(|refused| {
                    is_overloaded.set(is_overloaded.get() || refused == Refused::Overloaded);
                    refused.to_string()
                })
            });
            if is_overloaded.get() { Err(Refused::Overloaded) } else { answered(converted) }
        };
        tokio::task::spawn_blocking(convert).await.map_err(|error| Refused::Failed(error.to_string()))?
    }
}

/// Room for an object that is to be converted, which may be as large and as heavy as that of a review. It waits in a thread of its own.
fn hold(object: &str, decoding: &Decoding, runtime: &Handle) -> Result<Room, Refused> {
    if object.len() > LARGEST_REVIEW {
        return Err(Refused::TooLarge { limit: LARGEST_REVIEW });
    }
    runtime.block_on(decoding.room_within(weight(object.as_bytes(), DECODED), PATIENCE_OF_CONVERSIONS))
}

async fn convert(State(webhooks): State<Arc<Webhooks>>, headers: HeaderMap, body: Body) -> Response {
    let (outcome, response) = match webhooks.convert(&headers, body).await {
        Ok(review) => (Outcome::Changed, json(review)),
        Err(refused) => (outcome(&refused), refused.into_response()),
    };
    webhooks.inner.config.metrics.converted(outcome);
    response
}

fn outcome(refused: &Refused) -> Outcome {
    match refused {
        Refused::NotSynced | Refused::Overloaded => Outcome::Shed,
        Refused::TooLarge { .. }
        | Refused::TooHeavy { .. }
        | Refused::Incomplete
        | Refused::Malformed(_)
        | Refused::Failed(_) => Outcome::Malformed,
    }
}

fn json(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}
