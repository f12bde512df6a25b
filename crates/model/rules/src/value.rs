//! Reading and completing JSON objects that were decoded against a schema: what is absent reads as Go's zero value.

use serde_json::{Map, Value};

/// The text of a field; empty where there is none.
pub fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_default()
}

/// The number of a field; 0 where there is none.
pub fn int(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or_default()
}

/// The items of a field; none where there is no list.
pub fn list<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object[field].as_array().map_or(&[], Vec::as_slice)
}

/// The entries of a field that is a map; empty without the field.
pub fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object[field].as_object().into_iter().flatten()
}

/// Whether a field is there. `null` is absence.
pub fn has(object: &Value, field: &str) -> bool {
    !object[field].is_null()
}

/// Whether a list or map has no entries, or is not there.
pub fn is_empty(object: &Value, field: &str) -> bool {
    match &object[field] {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        other => other.is_null(),
    }
}

/// The object in a field, made if it is not there. Anything else that stands there is replaced.
pub fn object_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Value {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let inner = &mut object[field];
    if !inner.is_object() {
        *inner = Value::Object(Map::new());
    }
    inner
}

/// The object in a field that is a pointer in Go: `None` where it is not there.
pub fn pointer_mut<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Value> {
    object.get_mut(field).filter(|inner| inner.is_object())
}

/// The items of a list, to change.
pub fn items_mut<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Sets a field that is absent.
pub fn fill(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(object) = object.as_object_mut()
        && object.get(field).is_none_or(Value::is_null)
    {
        object.insert(field.to_owned(), value.into());
    }
}

/// Sets a text field that is absent or empty.
pub fn fill_text(object: &mut Value, field: &str, value: &str) {
    if text(object, field).is_empty() {
        set(object, field, value);
    }
}

pub fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(object) = object.as_object_mut() {
        object.insert(field.to_owned(), value.into());
    }
}

pub fn remove(object: &mut Value, field: &str) {
    if let Some(object) = object.as_object_mut() {
        object.shift_remove(field);
    }
}

/// Makes fields equal to those of `old`, absence included.
pub fn copy_fields(new: &mut Value, old: &Value, fields: &[&str]) {
    for &field in fields {
        match old.get(field) {
            Some(value) => set(new, field, value.clone()),
            None => remove(new, field),
        }
    }
}

/// A map with its keys in order, as Go writes maps.
pub fn sorted(map: &Value) -> Value {
    let Some(map) = map.as_object() else { return map.clone() };
    let mut entries: Vec<(String, Value)> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries.into_iter().collect()
}

/// Whether two values mean the same to Kubernetes: an absent list or text is an empty one, and the order of keys says nothing.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let absent = Value::Null;
            a.iter().all(|(key, value)| same(value, b.get(key).unwrap_or(&absent)))
                && b.iter().all(|(key, value)| a.contains_key(key) || same(value, &absent))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Null, Value::Array(items)) | (Value::Array(items), Value::Null) => items.is_empty(),
        (Value::Null, Value::String(text)) | (Value::String(text), Value::Null) => text.is_empty(),
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_lists_equal_empty_ones_and_absent_structs_do_not() {
        assert!(same(&json!({"a": 1, "b": []}), &json!({"a": 1})));
        assert!(same(&json!({"a": 1}), &json!({"a": 1, "b": ""})));
        assert!(same(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})));
        assert!(!same(&json!({"a": {}}), &json!({})));
        assert!(!same(&json!({"a": [1, 2]}), &json!({"a": [2, 1]})));
    }
}
