//! From the text of a request to the object as Go would hold it and write it back.
//!
//! kube-apiserver reads a body into a Go struct. That drops fields it does not know, refuses values of the wrong type, fills in what has
//! no value, and writes quantities and times in one form. Clients see all of it, so it is done here from the type's schema.

mod base64;
mod check;
mod convert;
mod parse;
mod quantity;
mod time;
mod write;
mod yaml;

use std::fmt;

use serde_json::Value;

use crate::schema::Schema;

pub(crate) use check::JSON_SCHEMA;
pub(crate) use parse::MAX_DEPTH;
pub use parse::{SyntaxError, parse};
pub use write::{stored, write};
pub use yaml::{parse_yaml, parse_yaml_strict};

/// A body that was read, but not yet against a schema.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// What it says.
    pub value: Value,
    /// Paths of the fields that were given more than once, in the order of the text: `spec.replicas`.
    pub duplicates: Vec<String>,
}

impl From<Value> for Parsed {
    fn from(value: Value) -> Parsed {
        Parsed { value, duplicates: Vec::new() }
    }
}

/// An object as Go holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object as Go writes it: fields in their order, nothing unknown, canonical values.
    pub object: Value,
    /// What a strict decoder refuses, in the order of the text.
    pub strict: Vec<StrictError>,
}

/// What `fieldValidation: Strict` refuses and `Warn` warns of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StrictError {
    /// The type has no such field.
    Unknown(String),
    /// The field is there twice.
    Duplicate(String),
}

impl fmt::Display for StrictError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrictError::Unknown(path) => write!(f, "unknown field {path:?}"),
            StrictError::Duplicate(path) => write!(f, "duplicate field {path:?}"),
        }
    }
}

/// A value that the type cannot hold, in the words of Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TypeError(String);

/// `apiVersion` and `kind` of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apps/v1`; empty if it does not say.
    pub api_version: String,
    /// `Deployment`; empty if it does not say.
    pub kind: String,
}

/// Reads an object of the type `schema`.
///
/// # Errors
/// The first value of a wrong type.
pub fn decode(schema: Schema<'_>, body: impl Into<Parsed>) -> Result<Decoded, TypeError> {
    let Parsed { value, duplicates } = body.into();
    let strict = check::check(schema, &value, &duplicates)?;
    Ok(Decoded { object: write(schema, value), strict })
}

/// As [`decode`], for what never was text, such as the outcome of a strategic merge: Go then has other words for what is wrong, and tells
/// unknown fields in alphabetical order.
///
/// # Errors
/// The first value of a wrong type.
pub fn convert(schema: Schema<'_>, value: Value) -> Result<Decoded, TypeError> {
    let strict = convert::check(schema, &value)?;
    Ok(Decoded { object: write(schema, sorted(value)), strict })
}

/// What never was text has no order of keys. Go sorts them.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<(String, Value)> =
                object.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// What a strict decoder refuses, without the object.
///
/// # Errors
/// The first value of a wrong type.
pub(crate) fn check(schema: Schema<'_>, body: &Parsed) -> Result<Vec<StrictError>, TypeError> {
    check::check(schema, &body.value, &body.duplicates)
}

/// What Go says of something that is not the object that it should be.
pub fn no_object(value: &Value) -> TypeError {
    TypeError(format!("json: cannot unmarshal {} into Go value of type map[string]interface {{}}", kind_of(value)))
}

/// What a body says it is.
///
/// # Errors
/// It is no object, or one of the two is no string.
pub fn type_meta(value: &Value) -> Result<TypeMeta, TypeError> {
    const GO_TYPE: &str =
        r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let object = match value {
        Value::Null => return Ok(TypeMeta::default()),
        Value::Object(object) => object,
        other => {
            return Err(TypeError(format!(
                "json: cannot unmarshal {} into Go value of type {GO_TYPE}",
                kind_of(other)
            )));
        }
    };
    let text = |name: &str, value: Option<&Value>| match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => {
            let kind = kind_of(other);
            Err(TypeError(format!("json: cannot unmarshal {kind} into Go struct field .{name} of type string")))
        }
    };
    // Go reports the first in the order of the text.
    for (key, value) in object {
        if key == "apiVersion" || key == "kind" {
            text(key, Some(value))?;
        }
    }
    Ok(TypeMeta { api_version: text("apiVersion", object.get("apiVersion"))?, kind: text("kind", object.get("kind"))? })
}

/// Go's word for a JSON value in errors.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
