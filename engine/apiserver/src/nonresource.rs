//! Paths that are about no resource: the index, health, version, OpenAPI.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use serde_json::json;

use crate::media::Output;
use crate::state::Inner;
use crate::status::{Refusal, Result};
use crate::{discovery, openapi, respond, served};

/// What can be healthy by itself, in the order in which it is reported.
const CHECKS: [&str; 3] = ["ping", "log", "etcd"];

pub(crate) fn answer(
    inner: &Inner,
    method: &Method,
    parts: &[String],
    verbose: bool,
    accept: &str,
) -> Result<Response> {
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        [] => Ok(respond::document(&json!({"paths": index(inner)}), Output::json(true))),
        [group @ ("healthz" | "livez" | "readyz"), rest @ ..] => health(group, rest, verbose),
        ["version" | "openapi", ..] if method != Method::GET => Err(Refusal::method_not_allowed()),
        ["version"] => Ok(respond::document(&discovery::version(), Output::json(true))),
        ["openapi", ..] => openapi::answer(&inner.open_api, &inner.custom.definitions(), &parts, accept)
            .ok_or_else(Refusal::page_not_found),
        _ => Err(Refusal::page_not_found()),
    }
}

/// All that is served, as `kubectl get --raw /` shows it.
fn index(inner: &Inner) -> BTreeSet<String> {
    let mut paths: BTreeSet<String> =
        ["/api", "/api/v1", "/apis", "/apis/", "/openapi/v2", "/openapi/v3", "/openapi/v3/", "/version"]
            .map(str::to_owned)
            .into();
    for group in ["healthz", "livez", "readyz"] {
        paths.insert(format!("/{group}"));
        paths.extend(CHECKS.map(|check| format!("/{group}/{check}")));
    }
    for served in served::all(inner).iter().filter(|served| !served.group.is_empty()) {
        paths.insert(format!("/apis/{}", served.group));
        paths.insert(format!("/apis/{}/{}", served.group, served.version));
    }
    paths
}

fn health(group: &str, check: &[&str], verbose: bool) -> Result<Response> {
    let text = match check {
        [] if verbose => {
            let checks = CHECKS.map(|check| format!("[+]{check} ok\n"));
            format!("{}{group} check passed\n", checks.concat())
        }
        [] => "ok".to_owned(),
        [check] if CHECKS.contains(check) => "ok".to_owned(),
        _ => return Err(Refusal::page_not_found()),
    };
    let mut response = Response::new(Body::from(text));
    respond::content_type(&mut response, "text/plain; charset=utf-8");
    Ok(response)
}
