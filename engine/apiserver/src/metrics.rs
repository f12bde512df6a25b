//! `metrics.k8s.io`: what pods and nodes use, as reported by the node.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::call::Call;
use crate::respond;
use crate::status::{GroupResource, Refusal, Result};

/// Asks the service that measures; without one nothing is known.
pub(crate) async fn answer(call: &Call<'_>) -> Result<Response> {
    if let Some(service) = call.inner().metrics() {
        let path = axum::http::Request::get(call.uri.as_str())
            .body(axum::body::Body::empty())
            .map_err(|error| Refusal::bad_request(error.to_string()))?;
        return match service.oneshot(path).await {
            Ok(response) => Ok(response),
            Err(never) => match never {},
        };
    }
    let Some(name) = &call.path.name else {
        let list = json!({
            "kind": call.endpoint.list_kind(),
            "apiVersion": call.api_version,
            "metadata": {},
            "items": Value::Array(Vec::new()),
        });
        return Ok(respond::write(StatusCode::OK, &list, call.output));
    };
    let shown = if call.endpoint.namespaced() { format!("{}/{name}", call.namespace()) } else { name.clone() };
    let singular = if call.endpoint.namespaced() { "podmetrics" } else { "nodemetrics" };
    Err(Refusal::not_found(&GroupResource::new("metrics.k8s.io", singular), &shown))
}
