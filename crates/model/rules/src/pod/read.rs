//! Reading fields of a pod as Go reads them: what is absent is the zero value of its type.

use serde_json::Value;

pub use crate::value::{int as number, list, text};

use crate::field::Path;

/// A number that may be absent.
pub fn pointer_number(object: &Value, field: &str) -> Option<i64> {
    object.get(field).and_then(Value::as_i64)
}

/// A switch that may be absent.
pub fn pointer_flag(object: &Value, field: &str) -> Option<bool> {
    object.get(field).and_then(Value::as_bool)
}

/// A switch that is off where it is absent.
pub fn flag(object: &Value, field: &str) -> bool {
    pointer_flag(object, field).unwrap_or_default()
}

/// Text that may be absent, which is not the same as empty.
pub fn pointer_text<'a>(object: &'a Value, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}

/// A part that may be absent.
pub fn part<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
}

/// Entries of a map, in the order of their keys: Go's own order is random, and an answer should not be.
pub fn entries<'a>(object: &'a Value, field: &str) -> Vec<(&'a str, &'a Value)> {
    let mut entries: Vec<(&str, &Value)> =
        object.get(field).and_then(Value::as_object).into_iter().flatten().map(|(k, v)| (k.as_str(), v)).collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

/// The lists of a pod's containers, in the order in which they start.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Every container of a pod spec with its path.
pub fn containers<'a>(spec: &'a Value, path: &Path) -> Vec<(&'a Value, Path)> {
    CONTAINER_LISTS
        .iter()
        .flat_map(|&field| {
            let path = path.child(field);
            list(spec, field).iter().enumerate().map(move |(i, container)| (container, path.index(i)))
        })
        .collect()
}

/// Whether an init container is a native sidecar (KEP-753): it is restarted whatever becomes of it.
pub fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(key).and_then(Value::as_str)
}
