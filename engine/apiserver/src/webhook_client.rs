//! Calling a webhook: in process where one is registered, else over HTTPS.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt as _;
use pillion_patch::decode;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::state::Inner;

mod service;

/// Answers may not be larger.
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;

/// Sends `body` to the webhook of a `clientConfig` and reads its JSON answer. The error says what happened, after "failed to call webhook".
pub(crate) async fn post(inner: &Inner, config: &Value, body: &Value, timeout_seconds: u64) -> Result<Value, String> {
    let address = address(inner, config, timeout_seconds)?;
    let call = exchange(inner, config, &address, body.to_string());
    let shown = &address.shown;
    let failed = |why: String| format!("failed to call webhook: Post {shown:?}: {why}");
    match tokio::time::timeout(Duration::from_secs(timeout_seconds), call).await {
        Err(_) => Err(failed("context deadline exceeded".to_owned())),
        Ok(Err(CallError::Connection(why))) => Err(failed(why)),
        Ok(Err(CallError::Answer(why))) => Err(format!("failed to call webhook: {why}")),
        Ok(Ok(answer)) => Ok(answer),
    }
}

enum CallError {
    /// There was no answer.
    Connection(String),
    /// The response cannot be used.
    Answer(String),
}

/// Where a webhook is.
struct Address {
    url: String,
    /// How messages show it.
    shown: String,
    /// What the certificate of a Service is for; the URL is that of a pod behind it then.
    service: Option<String>,
}

fn address(inner: &Inner, config: &Value, timeout_seconds: u64) -> Result<Address, String> {
    let with_timeout = |url: &str| format!("{url}?timeout={timeout_seconds}s");
    if let Some(url) = config["url"].as_str() {
        return Ok(Address { url: with_timeout(url), shown: with_timeout(url), service: None });
    }
    let service = &config["service"];
    let text = |key: &str| service[key].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
    let path = text("path");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let host = format!("{name}.{namespace}.svc");
    let url = |authority: &str| with_timeout(&format!("https://{authority}{slash}{path}"));
    let shown = url(&format!("{host}:{port}"));
    if inner.webhook(&shown).is_some() {
        return Ok(Address { url: shown.clone(), shown, service: None });
    }
    match service::endpoint(&inner.store, namespace, name, port) {
        Ok(pod) => Ok(Address { url: url(&pod.to_string()), shown, service: Some(host) }),
        Err(why) => Err(format!("failed to call webhook: Post {shown:?}: {why}")),
    }
}

async fn exchange(inner: &Inner, config: &Value, address: &Address, body: String) -> Result<Value, CallError> {
    let mut request = Request::post(&address.url);
    if let Some(host) = &address.service {
        request = request.header(header::HOST, host);
    }
    let request = request
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Body::from(body))
        .map_err(|error| CallError::Connection(error.to_string()))?;
    let response = match inner.webhook(&address.url) {
        Some(service) => match service.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        },
        None => over_https(inner, config, address.service.as_deref(), request).await?,
    };
    let status = response.status();
    let bytes = axum::body::to_bytes(response.into_body(), LARGEST_ANSWER)
        .await
        .map_err(|error| CallError::Connection(error.to_string()))?;
    if !status.is_success() {
        let text = String::from_utf8_lossy(&bytes);
        let why = if text.trim().is_empty() {
            "the server could not find the requested resource".to_owned()
        } else {
            format!("an error on the server ({:?}) has prevented the request from succeeding", text.trim())
        };
        return Err(CallError::Answer(why));
    }
    let unread =
        |why: &dyn std::fmt::Display| CallError::Answer(format!("couldn't get version/kind; json parse error: {why}"));
    // Kubernetes takes YAML as well, so that a bare word is a text.
    let parsed = decode::parse(&bytes)
        .or_else(|error| decode::parse_yaml(&bytes).map_err(|_| error))
        .map_err(|error| unread(&error))?;
    decode::type_meta(&parsed.value).map_err(|error| unread(&error))?;
    Ok(parsed.value)
}

async fn over_https(
    inner: &Inner,
    config: &Value,
    service: Option<&str>,
    request: Request<Body>,
) -> Result<axum::response::Response, CallError> {
    let bundle = config["caBundle"].as_str().unwrap_or_default();
    let client = inner.https.client(bundle, service).map_err(CallError::Connection)?;
    let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    let response = client.request(request).await.map_err(|error| CallError::Connection(cause(&error, &host)))?;
    Ok(response.map(|body| Body::new(body.map_err(axum::Error::new))))
}

/// The innermost reason, in Go's words where it is one that users meet.
fn cause(error: &dyn std::error::Error, host: &str) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    if text.contains("Connection refused") {
        return format!("dial tcp {host}: connect: connection refused");
    }
    if text.contains("UnknownIssuer") {
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned();
    }
    text
}
