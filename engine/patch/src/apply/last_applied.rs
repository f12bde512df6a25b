//! `kubectl.kubernetes.io/last-applied-configuration`: the way from client-side to server-side apply.

use serde_json::{Map, Value};

use super::compare::compare;
use super::field_set::field_set;
use super::go;
use super::set::Set;
use super::shape::Type;
use super::validate::{Duplicates, validate};

/// Only this manager moves over; others opt out by their name.
pub(super) const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All annotations of an object together may have this many bytes.
const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// The configuration that client-side apply wrote down last, if it is of this version.
pub(super) fn parse(live: &Value, api_version: &str) -> Option<Value> {
    let text = annotation(live)?;
    let value: Value = serde_json::from_str(text).ok()?;
    (value.get("apiVersion").and_then(Value::as_str) == Some(api_version)).then_some(value)
}

/// The fields of it that the object still has as they were: its owner may take them from itself.
pub(super) fn owned<'a>(at: Type<'a>, last: &'a Value, live: &'a Value) -> Option<Set<'a>> {
    validate(at, live, Duplicates::Refused).ok()?;
    validate(at, last, Duplicates::Refused).ok()?;
    let changed = compare(at, last, live);
    let fields = field_set(at, last);
    Some(fields.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
}

/// Brings the annotation, if the object has it, up to what was applied.
pub(super) fn refresh(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(metadata) = applied.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
    {
        annotations.shift_remove(ANNOTATION);
    }
    let mut text = String::new();
    go::json(&applied, &mut text);
    text.push('\n');
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else { return };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    if size(annotations) > MAX_ANNOTATIONS_SIZE {
        annotations.shift_remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum()
}
