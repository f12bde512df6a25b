//! Reading and writing `metadata` of an object.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Kubernetes' form of a time: whole seconds, UTC.
pub(crate) fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A string of `metadata`; empty when it is not there.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"][key].as_str().unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// `metadata.resourceVersion`, 0 when there is none; `None` when it is no number.
pub(crate) fn resource_version(object: &Value) -> Option<u64> {
    match text(object, "resourceVersion") {
        "" => Some(0),
        text => text.parse().ok(),
    }
}

pub(crate) fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or(0)
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The label `key`.
pub(crate) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"].get(key).and_then(Value::as_str)
}

/// `metadata` to write to; made when it is not there.
pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let slot = &mut object["metadata"];
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(metadata) => metadata,
        // It has just been made one.
        _ => unreachable!("metadata is an object"),
    }
}

/// Writes a value of `metadata`, or removes it where there is none.
pub(crate) fn set(object: &mut Value, key: &str, value: Option<Value>) {
    let metadata = metadata(object);
    match value {
        Some(value) => {
            metadata.insert(key.to_owned(), value);
        }
        None => {
            metadata.shift_remove(key);
        }
    }
}

/// `metadata` with its fields in Kubernetes' order, so that equal objects are equal bytes.
pub(crate) fn sort(object: &mut Value) {
    const ORDER: [&str; 15] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ];
    let metadata = metadata(object);
    let mut old = std::mem::take(metadata);
    for key in ORDER {
        if let Some(value) = old.shift_remove(key) {
            metadata.insert(key.to_owned(), value);
        }
    }
    metadata.extend(old);
}
