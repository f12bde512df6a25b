//! What an object may carry: fields that its schema does not know are dropped, and nulls that it does not allow.

use std::fmt::Write;

use serde_json::Value;

use crate::schema::{Additional, Schema};

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops the fields of a whole object that its schema does not know. Returns their paths, in order.
pub(crate) fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.prune(object, Some(schema), true, false);
    pruner.dropped.sort();
    pruner.dropped
}

/// As [`prune`] for a value that is an object only where the schema says that a resource is embedded.
pub(crate) fn prune_value(schema: &Schema, value: &mut Value) {
    Pruner::default().prune(value, Some(schema), schema.embedded_resource, false);
}

#[derive(Default)]
struct Pruner {
    path: String,
    dropped: Vec<String>,
}

impl Pruner {
    /// With `keep`, what the schema does not know stays; of what it knows, the inside is still pruned.
    fn prune(&mut self, value: &mut Value, schema: Option<&Schema>, is_resource: bool, keep: bool) {
        let preserve = keep || schema.is_some_and(Schema::preserves_unknown_fields);
        match value {
            Value::Object(entries) => {
                let at_root = self.path.is_empty();
                entries.retain(|key, value| {
                    let is_meta = META_FIELDS.contains(&key.as_str());
                    if is_resource && is_meta {
                        return true;
                    }
                    let length = self.enter(key);
                    let keep = match schema {
                        Some(Schema { properties, .. }) if properties.contains_key(key) => {
                            let property = properties.get(key);
                            self.prune(
                                value,
                                property,
                                property.is_some_and(|property| property.embedded_resource),
                                false,
                            );
                            true
                        }
                        Some(Schema { additional_properties: Some(additional), .. }) => {
                            let additional = match additional {
                                Additional::Schema(schema) => Some(schema.as_ref()),
                                Additional::Allowed(_) => None,
                            };
                            self.prune(
                                value,
                                additional,
                                additional.is_some_and(|schema| schema.embedded_resource),
                                false,
                            );
                            true
                        }
                        _ => preserve,
                    };
                    if !(keep || is_meta && at_root) {
                        self.dropped.push(self.path.clone());
                    }
                    self.path.truncate(length);
                    keep
                });
            }
            Value::Array(items) => {
                let item_schema = schema.and_then(|schema| schema.items.as_deref());
                // A list that preserves what it does not know preserves it in its items too.
                if preserve && item_schema.is_none() {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    let length = self.path.len();
                    // Writing to a String cannot fail.
                    let _ = write!(self.path, "[{index}]");
                    self.prune(item, item_schema, item_schema.is_some_and(|schema| schema.embedded_resource), preserve);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// Steps into `key`; returns the length of the path before.
    fn enter(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }
}

/// Drops nulls from objects where the schema neither allows them nor has a default for them.
pub(crate) fn prune_nulls(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(entries) => entries.retain(|key, value| {
            let field = schema.and_then(|schema| schema.field(key));
            if value.is_null() && field.is_some_and(|field| !field.nullable && field.default.is_none()) {
                return false;
            }
            prune_nulls(field, value);
            true
        }),
        Value::Array(items) => {
            let item_schema = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                prune_nulls(item_schema, item);
            }
        }
        _ => {}
    }
}

/// Go writes `2.0` as `2`. JSON nests no deeper than its parser allows.
pub(crate) fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            #[allow(clippy::cast_possible_truncation, reason = "whole, and within what a float holds exactly")]
            if let Some(whole) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_numbers),
        Value::Object(entries) => entries.values_mut().for_each(normalize_numbers),
        _ => {}
    }
}

/// Fills in defaults. A null that is not allowed counts as missing.
pub(crate) fn apply_defaults(schema: &Schema, value: &mut Value) {
    let fill = |schema: &Schema, value: &mut Value| {
        if value.is_null() && !schema.nullable {
            *value = schema.default.clone().unwrap_or_default();
        }
        apply_defaults(schema, value);
    };
    match value {
        Value::Object(entries) => {
            for (name, property) in &schema.properties {
                if let Some(default) = &property.default
                    && !entries.contains_key(name)
                {
                    entries.insert(name.clone(), default.clone());
                }
            }
            for (key, value) in entries.iter_mut() {
                match schema.properties.get(key) {
                    Some(property) if property.default.is_some() => fill(property, value),
                    Some(property) => apply_defaults(property, value),
                    None => {
                        if let Some(additional) = schema.additional_schema() {
                            fill(additional, value);
                        }
                    }
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = &schema.items {
                for item in items {
                    fill(item_schema, item);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_are_dropped_and_told() {
        let schema = Schema::read(&json!({"type": "object", "properties": {
            "keep": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
            "lists": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
            "free": {"type": "object", "additionalProperties": true},
        }}))
        .unwrap();
        let mut object = json!({
            "apiVersion": "v1", "kind": "K", "metadata": {"any": 1}, "drop": 1,
            "keep": {"unknown": {"x": 1}, "known": {"a": 1, "b": 2}},
            "map": {"k": {"a": 1, "b": 2}},
            "list": [{"a": 1}, {"b": 2}],
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}, "status": {}},
            "free": {"k": {"x": 1}, "l": [{"x": 1}], "s": 1},
        });
        let dropped = prune(&schema, &mut object);
        assert_eq!(
            dropped,
            ["drop", "free.k.x", "free.l[0].x", "keep.known.b", "list[1].b", "map.k.b", "pod.spec.x", "pod.status"]
        );
        assert_eq!(object["keep"], json!({"unknown": {"x": 1}, "known": {"a": 1}}));
        assert_eq!(object["free"], json!({"k": {}, "l": [{}], "s": 1}));
        assert_eq!(object["metadata"], json!({"any": 1}));
    }

    #[test]
    fn defaults_fill_what_is_missing_and_nulls_that_are_not_allowed() {
        let schema = Schema::read(&json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "A"},
            "n": {"type": "string", "default": "N", "nullable": true},
            "o": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 1}}},
            "l": {"type": "array", "items": {"type": "object", "default": {"y": 2}, "properties": {"x": {"type": "integer", "default": 1}}}},
            "m": {"type": "object", "additionalProperties": {"type": "integer", "default": 3}},
            "p": {"type": "string"},
        }}))
        .unwrap();
        let mut object = json!({"a": null, "n": null, "l": [null, {}], "m": {"k": null}, "p": null});
        prune_nulls(Some(&schema), &mut object);
        apply_defaults(&schema, &mut object);
        assert_eq!(
            object,
            json!({"a": "A", "n": null, "l": [{"y": 2, "x": 1}, {"x": 1}], "m": {"k": 3}, "o": {"x": 1}})
        );
    }
}
