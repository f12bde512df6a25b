//! `x-kubernetes-list-type`: items of a set, and keys of the items of a map, are unique.

use std::collections::HashMap;

use pillion_rules::field::{Error, Path};
use serde_json::{Map, Value};

use crate::schema::Schema;

/// Checks every list of the object below `path`.
pub(crate) fn validate(schema: &Schema, value: &Value, path: &Path, errors: &mut Vec<Error>) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                if let Some(additional) = schema.additional_schema() {
                    validate(additional, value, &path.key(key.as_str()), errors);
                }
                if let Some(property) = schema.properties.get(key) {
                    validate(property, value, &path.child(key.as_str()), errors);
                }
            }
        }
        Value::Array(items) => {
            match schema.list_type.as_deref() {
                Some("set") => {
                    for index in repeated(items.iter()) {
                        let value = items.get(index).cloned().unwrap_or_default();
                        errors.push(Error::duplicate(&path.index(index), crate::schema::sorted(&value)));
                    }
                }
                Some("map") => validate_keys(schema, items, path, errors),
                _ => {}
            }
            if let Some(item_schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    validate(item_schema, item, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_keys(schema: &Schema, items: &[Value], path: &Path, errors: &mut Vec<Error>) {
    if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let item = items.get(index).cloned().unwrap_or_default();
        errors.push(Error::invalid(&path.index(index), item, "must be an object for an array of list-type map"));
        return;
    }
    let key_of = |item: &Value| -> Value {
        let mut names: Vec<&String> = schema.list_map_keys.iter().collect();
        names.sort();
        let keys: Map<String, Value> =
            names.into_iter().filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect();
        Value::Object(keys)
    };
    let keys: Vec<Value> = items.iter().map(key_of).collect();
    for index in repeated(keys.iter()) {
        errors.push(Error::duplicate(&path.index(index), keys.get(index).cloned().unwrap_or_default()));
    }
}

/// Where values come for the second time; later repetitions are not reported.
fn repeated<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut second = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(crate::schema::sorted(value).to_string()).or_default();
        *times += 1;
        if *times == 2 {
            second.push(index);
        }
    }
    second
}
