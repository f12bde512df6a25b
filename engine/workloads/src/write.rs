//! Writes that kube's `Api` has no words for, and what refusals mean.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::core::Request;
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;

use crate::kinds::Cached;

/// How an event names an object.
pub(crate) use pillion_events::reference;

/// Creates an object from JSON, with all fields that it has, and reads of the answer what `K` wants.
pub(crate) async fn create<K: Cached>(client: &Client, namespace: &str, object: &Value) -> kube::Result<K> {
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let path = K::url_path(&(), (!namespace.is_empty()).then_some(namespace));
    let request = Request::new(path).create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

/// Replaces the status of an object, and its labels and annotations, if nobody else has changed the object.
pub(crate) async fn replace_status<K: Cached + Serialize>(client: &Client, object: &K) -> kube::Result<K> {
    let mut body = serde_json::to_value(object).map_err(kube::Error::SerdeError)?;
    body["apiVersion"] = K::api_version(&()).into();
    body["kind"] = K::kind(&()).into();
    let body = serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?;
    let path = K::url_path(&(), object.namespace().as_deref());
    let request = Request::new(path)
        .replace_subresource("status", &object.name_any(), &PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

/// How a child names its controller.
pub(crate) fn controller_reference<K: Cached>(object: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// What is gone already need not be changed or deleted.
pub(crate) fn unless_gone<T>(outcome: kube::Result<T>) -> kube::Result<()> {
    match outcome {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other.map(drop),
    }
}

/// Whether the refusal has a cause of this name.
pub(crate) fn has_cause(error: &kube::Error, reason: &str) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == reason)
}

/// The cause of every refusal to create something in a namespace that goes.
pub(crate) const NAMESPACE_TERMINATING: &str = "NamespaceTerminating";
