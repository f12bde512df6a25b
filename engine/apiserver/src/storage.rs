//! What reading, creating and changing have in common: the stored form, shared checks, who owns which field.

use axum::http::StatusCode;
use pillion_patch::apply::{Context, Manager};
use pillion_patch::decode;
use pillion_rules::{field, metadata};
use pillion_store::{Key, WriteError};
use serde_json::{Map, Value};

use crate::call::Call;
use crate::endpoint::{Endpoint, Part};
use crate::state::Inner;
use crate::status::{Refusal, Result};
use crate::{conversion, kinds, meta};

/// The object as the store keeps it.
pub(crate) async fn to_storage(inner: &Inner, endpoint: &Endpoint, mut object: Value) -> Result<Map<String, Value>> {
    match endpoint {
        Endpoint::Builtin(resource) => {
            if let Some(storage) = &resource.storage {
                (storage.to_storage)(&mut object);
                if let Some(kept) = kinds::find(storage.group, storage.version, resource.plural) {
                    canonical(&Endpoint::Builtin(kept), &mut object);
                }
            }
        }
        Endpoint::Custom(custom) if custom.version == custom.storage_version => {}
        Endpoint::Custom(custom) => {
            let mut converted = conversion::convert(inner, custom, vec![object], &custom.storage_api_version()).await?;
            object = converted.pop().unwrap_or_default();
            if let Some(kept) = inner.custom.find(&custom.group, &custom.storage_version, &custom.plural) {
                kept.read(&mut object);
            }
        }
    }
    // The store writes the version in place of this.
    meta::set(&mut object, "resourceVersion", Some("".into()));
    meta::sort(&mut object);
    match object {
        Value::Object(object) => Ok(object),
        _ => Err(Refusal::internal("what is to be stored is no object")),
    }
}

/// The object as Go would write it: fields in order, and nothing that its storage would not keep.
pub(crate) fn canonical(endpoint: &Endpoint, object: &mut Value) {
    let (Endpoint::Builtin(_), Some(schema)) = (endpoint, endpoint.schema()) else {
        meta::sort(object);
        return;
    };
    *object = decode::write(schema, object.take());
    if !endpoint.is("apiextensions.k8s.io", "customresourcedefinitions") {
        *object = decode::stored(schema, object.take());
    }
}

/// What comes back from storage is read like what a client sends: with defaults.
pub(crate) async fn reread(inner: &Inner, endpoint: &Endpoint, object: &mut Value) -> Result<()> {
    match endpoint {
        Endpoint::Builtin(_) => {
            endpoint.default(object);
            canonical(endpoint, object);
        }
        Endpoint::Custom(custom) if custom.version == custom.storage_version => {}
        Endpoint::Custom(custom) => {
            let version = object["metadata"].get("resourceVersion").cloned();
            let stored = Value::Object(to_storage(inner, endpoint, object.take()).await?);
            let mut converted = conversion::convert(inner, custom, vec![stored], &endpoint.api_version()).await?;
            *object = converted.pop().unwrap_or_default();
            custom.structural.prune(object);
            meta::set(object, "resourceVersion", version);
            meta::sort(object);
        }
    }
    Ok(())
}

/// Checks of metadata that every kind shares.
pub(crate) fn common_errors(call: &Call<'_>, object: &Value) -> Vec<field::Error> {
    metadata::validate(
        &object["metadata"],
        &field::Path::new("metadata"),
        call.endpoint.namespaced(),
        metadata::path_segment_name,
    )
}

/// What server-side apply needs to know of a request; `None` for a kind without a schema.
pub(crate) fn apply_context<'a>(call: &'a Call<'_>, part: Part, manager: &'a str) -> Option<Context<'a>> {
    let schema = call.endpoint.schema()?;
    Some(Context {
        schema,
        api_version: &call.api_version,
        kind: call.endpoint.kind(),
        manager: Manager { name: manager, subresource: part.subresource() },
        now: call.now(),
        reset: call.endpoint.reset_fields(part),
    })
}

/// How etcd would name the key; messages about preconditions show it.
pub(crate) fn registry_key(key: &Key) -> String {
    let resource = key.resource.split('.').next().unwrap_or_default();
    if key.namespace.is_empty() {
        format!("/registry/{resource}/{}", key.name)
    } else {
        format!("/registry/{resource}/{}/{}", key.namespace, key.name)
    }
}

/// What is said of a write that the store refused for no fault of a version.
pub(crate) fn not_written(error: &WriteError) -> Box<Refusal> {
    match error {
        WriteError::TooLarge => {
            let message = "etcdserver: request is too large";
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "", message, Value::Null)
        }
        other => Refusal::internal(other),
    }
}
