//! A mutating webhook that marks every pod with a label: the smallest one that shows that webhooks work.

use std::net::TcpListener;

use axum::routing::post;
use axum::{Json, Router};
use json_patch::{AddOperation, Patch, PatchOperation, jsonptr::PointerBuf};
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview};
use pillion_serve::Server;
use tokio::sync::watch;

/// The label that the webhook writes, with the value `yes`.
pub(crate) const MARK: &str = "scenario-webhook";
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

pub(crate) fn server(listener: TcpListener, certificate: &str, key: &str) -> anyhow::Result<Server> {
    let tls = pillion_serve::tls(certificate, key)?;
    Ok(Server::new(listener, Router::new().route(PATH, post(mark)))?.with_tls(watch::channel(tls).1))
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
