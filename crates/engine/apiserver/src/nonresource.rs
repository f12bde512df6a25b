//! Paths that are about no resource: health, version, OpenAPI.

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;

use crate::server::Inner;
use crate::status::{Refusal, Result};
use crate::{discovery, openapi, respond};

pub(crate) fn answer(inner: &Inner, method: &Method, parts: &[String], accept: &str) -> Result<Response> {
    let known = matches!(parts.first().map(String::as_str), Some("version" | "openapi"));
    if method != Method::GET {
        return Err(if known { Refusal::method_not_allowed() } else { Refusal::page_not_found() });
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => {
            let mut response = Response::new(Body::from("ok"));
            respond::content_type(&mut response, "text/plain; charset=utf-8");
            Ok(response)
        }
        ["version"] => Ok(respond::document(&discovery::version(), true)),
        ["openapi", ..] => openapi::answer(&inner.open_api, &inner.custom.definitions(), &parts, accept)
            .ok_or_else(Refusal::page_not_found),
        _ => Err(Refusal::page_not_found()),
    }
}
