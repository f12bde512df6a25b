//! A mutating webhook that marks every pod with a label: the smallest one that shows that webhooks work.

use std::net::SocketAddr;

use axum::routing::post;
use axum::{Json, Router};
use axum_server::tls_rustls::RustlsConfig;
use json_patch::{AddOperation, Patch, PatchOperation, jsonptr::PointerBuf};
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};

/// The label that the webhook writes, with the value `yes`.
pub(crate) const MARK: &str = "scenario-webhook";
/// The path that it is served at.
pub(crate) const PATH: &str = "/mark";

/// A certificate that vouches for itself, and its key, both as PEM.
pub(crate) struct Certificate {
    pub(crate) pem: String,
    pub(crate) key: String,
}

impl Certificate {
    pub(crate) fn for_name(name: &str) -> anyhow::Result<Certificate> {
        let made = rcgen::generate_simple_self_signed([name.to_owned()])?;
        Ok(Certificate { pem: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }
}

/// Serves until the handle says otherwise.
pub(crate) async fn serve(
    address: SocketAddr,
    certificate: &str,
    key: &str,
    handle: axum_server::Handle<SocketAddr>,
) -> anyhow::Result<()> {
    let tls = RustlsConfig::from_pem(certificate.into(), key.into()).await?;
    let router = Router::new().route(PATH, post(mark));
    axum_server::bind_rustls(address, tls).handle(handle).serve(router.into_make_service()).await?;
    Ok(())
}

async fn mark(Json(review): Json<AdmissionReview<DynamicObject>>) -> Json<AdmissionReview<DynamicObject>> {
    let request: Result<AdmissionRequest<DynamicObject>, _> = review.try_into();
    let response = match request {
        Ok(request) => respond(&request),
        Err(error) => AdmissionResponse::invalid(error),
    };
    Json(response.into_review())
}

fn respond(request: &AdmissionRequest<DynamicObject>) -> AdmissionResponse {
    let has_labels = request.object.as_ref().is_some_and(|object| object.metadata.labels.is_some());
    let add = |path: Vec<&str>, value| PatchOperation::Add(AddOperation { path: PointerBuf::from_tokens(path), value });
    let mut operations = Vec::new();
    if !has_labels {
        operations.push(add(vec!["metadata", "labels"], serde_json::json!({})));
    }
    operations.push(add(vec!["metadata", "labels", MARK], "yes".into()));
    AdmissionResponse::from(request)
        .with_patch(Patch(operations))
        .unwrap_or_else(|error| AdmissionResponse::from(request).deny(error.to_string()))
}
