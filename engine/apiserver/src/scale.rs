//! The Scale of an object: its replicas, whatever its kind.

use pillion_selector::Selector;
use serde_json::{Value, json};

use crate::call::Call;
use crate::endpoint::Endpoint;
use crate::status::{Refusal, Result};

/// Writes the replicas of a Scale into its object.
pub(crate) fn set(call: &Call<'_>, object: &mut Value, scale: &Value) {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or(0);
    write_path(object, &Paths::of(&call.endpoint).spec, replicas.into());
}

/// The Scale of an object.
pub(crate) fn of(call: &Call<'_>, object: &Value) -> Result<Value> {
    let paths = Paths::of(&call.endpoint);
    let replicas = |path: &str| read_path(object, path).and_then(Value::as_i64);
    let selector = match &call.endpoint {
        Endpoint::Builtin(_) => selector_text(&call.endpoint, &object["spec"]["selector"])?,
        Endpoint::Custom(_) => {
            let path = paths.selector.as_deref().unwrap_or_default();
            read_path(object, path).and_then(Value::as_str).unwrap_or_default().to_owned()
        }
    };
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let mut spec = json!({});
    match replicas(&paths.spec) {
        Some(0) | None => {}
        Some(count) => spec["replicas"] = count.into(),
    }
    let mut status = json!({"replicas": replicas(&paths.status).unwrap_or(0)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    Ok(json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}))
}

fn selector_text(endpoint: &Endpoint, selector: &Value) -> Result<String> {
    // A replication controller has only labels.
    let labels = endpoint.is("", "replicationcontrollers").then(|| json!({"matchLabels": selector}));
    let selector = labels.as_ref().unwrap_or(selector);
    let selector = serde_json::from_value(selector.clone()).map_err(Refusal::internal)?;
    let selector = Selector::from_label_selector(&selector).map_err(|error| Refusal::bad_request(error.to_string()))?;
    Ok(selector.to_string())
}

/// Where an object keeps what its Scale shows.
pub(crate) struct Paths {
    pub(crate) spec: String,
    status: String,
    selector: Option<String>,
}

impl Paths {
    pub(crate) fn of(endpoint: &Endpoint) -> Paths {
        match endpoint {
            Endpoint::Custom(custom) if custom.scale.is_some() => {
                let scale = custom.scale.clone().unwrap_or_default();
                Paths { spec: scale.spec_replicas, status: scale.status_replicas, selector: scale.label_selector }
            }
            _ => Paths { spec: ".spec.replicas".to_owned(), status: ".status.replicas".to_owned(), selector: None },
        }
    }
}

/// The value at a path such as `.spec.replicas`.
pub(crate) fn read_path<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').filter(|part| !part.is_empty()).try_fold(object, |value, part| value.get(part))
}

pub(crate) fn write_path(object: &mut Value, path: &str, value: Value) {
    let mut place = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[part];
    }
    *place = value;
}
