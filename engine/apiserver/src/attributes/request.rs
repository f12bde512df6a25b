//! The `AdmissionRequest` of a write: what webhooks are asked about, and what expressions see as `request`.

use serde_json::{Map, Value, json};

use super::Attributes;
use crate::endpoint::Endpoint;

/// The request without its objects, as seen in the version of `endpoint`.
pub(crate) fn describe(attributes: &Attributes<'_>, endpoint: &Endpoint) -> Map<String, Value> {
    let call = attributes.call;
    let own = &call.endpoint;
    let (group, api, kind) = &attributes.kind;
    let request_kind = json!({"group": group, "version": api, "kind": kind});
    // A kind of the subresource's own is the same in every version of the resource.
    let kind = if kind == own.kind() {
        json!({"group": endpoint.group(), "version": endpoint.version(), "kind": endpoint.kind()})
    } else {
        request_kind.clone()
    };
    let resource = |endpoint: &Endpoint| json!({"group": endpoint.group(), "version": endpoint.version(), "resource": endpoint.plural()});
    let namespace = if own.is("", "namespaces") { attributes.name.as_str() } else { call.namespace() };
    let texts = [
        ("subResource", attributes.subresource()),
        ("requestSubResource", attributes.subresource()),
        ("name", &attributes.name),
        ("namespace", namespace),
    ];
    let text = |key: &str| {
        texts.iter().find(|(name, text)| *name == key && !text.is_empty()).map(|(_, text)| Value::from(*text))
    };
    let fields = [
        ("uid", Some(call.inner().uid().into())),
        ("kind", Some(kind)),
        ("resource", Some(resource(endpoint))),
        ("subResource", text("subResource")),
        ("requestKind", Some(request_kind)),
        ("requestResource", Some(resource(own))),
        ("requestSubResource", text("requestSubResource")),
        ("name", text("name")),
        ("namespace", text("namespace")),
        ("operation", Some(attributes.operation.name().into())),
        ("userInfo", Some(call.user.to_json())),
        ("dryRun", Some(attributes.dry_run.into())),
        ("options", Some(attributes.options.clone())),
    ];
    fields.into_iter().filter_map(|(key, value)| value.map(|value| (key.to_owned(), value))).collect()
}
