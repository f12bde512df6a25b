//! Objects inside objects (`x-kubernetes-embedded-resource`): their type and metadata are read and checked as those of any object.

use pillion_rules::field::{Error, Path};
use pillion_rules::{format, metadata};
use serde_json::{Map, Value, json};

use crate::object_meta;
use crate::schema::{Schema, sorted};

/// Reads type and metadata of every embedded object; with `is_resource`, of the value itself too. Paths of fields that metadata does not have
/// are added to `unknown`.
///
/// # Errors
/// The first that has the wrong type.
pub(crate) fn coerce(
    schema: &Schema,
    value: &mut Value,
    is_resource: bool,
    path: &Path,
    unknown: &mut Vec<String>,
) -> Result<(), Error> {
    match value {
        Value::Object(entries) => {
            if is_resource {
                coerce_type_and_metadata(entries, path, unknown)?;
            }
            for (key, value) in entries.iter_mut() {
                if let Some(property) = schema.properties.get(key) {
                    coerce(property, value, property.embedded_resource, &path.child(key.as_str()), unknown)?;
                } else if let Some(additional) = schema.additional_schema() {
                    coerce(additional, value, additional.embedded_resource, &path.key(key.as_str()), unknown)?;
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = &schema.items {
                for (index, item) in items.iter_mut().enumerate() {
                    coerce(item_schema, item, item_schema.embedded_resource, &path.index(index), unknown)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_type_and_metadata(
    entries: &mut Map<String, Value>,
    path: &Path,
    unknown: &mut Vec<String>,
) -> Result<(), Error> {
    for key in ["apiVersion", "kind"] {
        if let Some(value) = entries.get(key).filter(|value| !value.is_string()) {
            return Err(Error::invalid(&path.child(key), sorted(value), "must be a string"));
        }
    }
    if let Some(meta) = entries.get_mut("metadata") {
        let path = path.child("metadata");
        let mut names = Vec::new();
        let coerced = object_meta::coerce(meta, &mut names);
        *meta = coerced.map_err(|reason| Error::invalid(&path, sorted(meta), reason))?;
        unknown.extend(names.into_iter().map(|name| format!("{path}.{name}")));
    }
    Ok(())
}

/// Checks type and metadata of every embedded object; with `is_resource`, of the value itself too.
pub(crate) fn validate(schema: &Schema, value: &Value, is_resource: bool, path: &Path, errors: &mut Vec<Error>) {
    match value {
        Value::Object(entries) => {
            if is_resource {
                validate_type_and_metadata(entries, path, errors);
            }
            for (key, value) in entries {
                if let Some(property) = schema.properties.get(key) {
                    validate(property, value, property.embedded_resource, &path.child(key.as_str()), errors);
                } else if let Some(additional) = schema.additional_schema() {
                    validate(additional, value, additional.embedded_resource, &path.key(key.as_str()), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(item_schema) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    validate(item_schema, item, item_schema.embedded_resource, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_type_and_metadata(entries: &Map<String, Value>, path: &Path, errors: &mut Vec<Error>) {
    for key in ["apiVersion", "kind"] {
        if !entries.contains_key(key) {
            errors.push(Error::required(&path.child(key), ""));
        }
    }
    for (key, value) in entries {
        let path = path.child(key.as_str());
        match (key.as_str(), value) {
            ("apiVersion" | "kind", Value::String(text)) if text.is_empty() => {
                errors.push(Error::invalid(&path, "", "must not be empty"));
            }
            ("apiVersion", Value::String(version)) if version.matches('/').count() > 1 => {
                errors.push(Error::invalid(
                    &path,
                    version.as_str(),
                    format!("unexpected GroupVersion string: {version}"),
                ));
            }
            ("kind", Value::String(kind)) => {
                let complaints = format::dns1035_label(&kind.to_lowercase());
                if !complaints.is_empty() {
                    let detail = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
                    errors.push(Error::invalid(&path, kind.as_str(), detail));
                }
            }
            ("apiVersion", Value::String(_)) => {}
            ("apiVersion" | "kind", _) => errors.push(Error::invalid(&path, sorted(value), "must be a string")),
            ("metadata", meta) => errors.extend(validate_metadata(meta, &path)),
            _ => {}
        }
    }
}

fn validate_metadata(meta: &Value, path: &Path) -> Vec<Error> {
    let mut meta = match object_meta::coerce(meta, &mut Vec::new()) {
        Ok(meta) => meta,
        Err(reason) => return vec![Error::invalid(path, sorted(meta), reason)],
    };
    // An embedded object, such as a template, needs no name.
    if let Value::Object(fields) = &mut meta {
        fields.entry("name").or_insert_with(|| json!("fakename"));
    }
    let namespaced = meta["namespace"].is_string();
    metadata::validate(&meta, path, namespaced, metadata::path_segment_name)
}
