//! The webhook server that runs beside a conversation: HTTPS on loopback, answers from the corpus, and a log of what it
//! was asked.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use k8s_openapi::ByteString;
use pillion_serve::Server;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::conversation::WebhookAnswer;

/// A running webhook server. It ends with this value.
pub(crate) struct Webhook {
    /// `https://127.0.0.1:PORT`.
    pub(crate) url: String,
    /// The certificate of its authority, as a webhook configuration wants it.
    pub(crate) ca_bundle: String,
    reviews: Reviews,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Reviews {
    answers: Arc<BTreeMap<String, WebhookAnswer>>,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Webhook {
    pub(crate) fn start(answers: BTreeMap<String, WebhookAnswer>) -> anyhow::Result<Self> {
        install_crypto_provider();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let tls = pillion_serve::tls(&certificate, &key)?;
        let reviews = Reviews { answers: Arc::new(answers), asked: Arc::default() };
        let router = Router::new().fallback(answer).with_state(reviews.clone());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("the webhook server cannot listen")?;
        let server = Server::new(listener, router)?.with_tls(watch::channel(tls).1);
        let address = server.address()?;
        let serving = tokio::spawn(server.run());
        let ca_bundle = serde_json::to_value(ByteString(certificate.into_bytes()))?;
        let ca_bundle = ca_bundle.as_str().unwrap_or_default().to_owned();
        Ok(Self { url: format!("https://{address}"), ca_bundle, reviews, serving })
    }

    /// The reviews since the last time: path and request, by path, since validating webhooks are called all at once.
    pub(crate) fn take_reviews(&self) -> Vec<(String, Value)> {
        let mut asked = std::mem::take(&mut *self.reviews.asked.lock().unwrap_or_else(PoisonError::into_inner));
        asked.sort_by(|left, right| left.0.cmp(&right.0));
        asked
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(reviews): State<Reviews>, uri: Uri, body: Bytes) -> Response {
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let asked = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let answer = reviews.answers.get(uri.path());
    // How often a server has objects converted, for its caches too, is its own affair.
    if !answer.is_some_and(|answer| answer.converts) {
        reviews.asked.lock().unwrap_or_else(PoisonError::into_inner).push((asked, review.clone()));
    }
    let Some(answer) = answer else { return StatusCode::NOT_FOUND.into_response() };
    if answer.delay > 0 {
        tokio::time::sleep(Duration::from_secs(answer.delay)).await;
    }
    let status = answer.status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(StatusCode::OK);
    if let Some(raw) = &answer.raw {
        return (status, raw.clone()).into_response();
    }
    let mut response = answer.response.clone();
    response.entry("uid").or_insert_with(|| review["request"]["uid"].clone());
    if answer.converts {
        response.entry("convertedObjects").or_insert_with(|| converted(&review["request"]));
        response.entry("result").or_insert_with(|| json!({"status": "Success"}));
    }
    if let Some(patch) = &answer.patch {
        let patch = serde_json::to_value(ByteString(patch.to_string().into_bytes())).unwrap_or_default();
        response.insert("patch".to_owned(), patch);
        response.entry("patchType").or_insert_with(|| "JSONPatch".into());
    }
    let review = json!({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response});
    (status, [(header::CONTENT_TYPE, "application/json")], review.to_string()).into_response()
}

/// The objects of a conversion, in the version that is wanted.
fn converted(request: &Value) -> Value {
    let wanted = &request["desiredAPIVersion"];
    let mut objects = request["objects"].clone();
    for object in objects.as_array_mut().into_iter().flatten() {
        object["apiVersion"] = wanted.clone();
        object["metadata"]["annotations"]["converted"] = wanted.clone();
    }
    objects
}

/// rustls needs to know once which cryptography provider a program uses.
pub(crate) fn install_crypto_provider() {
    // An error means that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
