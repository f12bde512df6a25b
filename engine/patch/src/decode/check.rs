//! Whether the values of a body have the types that they should have, with the errors of `sigs.k8s.io/json`.

use std::collections::HashSet;

use serde_json::Value;

use super::time::Precision;
use super::{StrictError, TypeError, base64, kind_of, quantity, time};
use crate::schema::{Field, Form, Node, Scalar, Schema, Struct};

pub(crate) const JSON_SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// At most this many are reported.
const MAX_STRICT_ERRORS: usize = 100;

/// What a strict decoder refuses.
///
/// # Errors
/// A value that the type cannot hold. Types with their own decoder stop decoding; of the others the first is reported.
pub(super) fn check(schema: Schema<'_>, value: &Value, duplicates: &[String]) -> Result<Vec<StrictError>, TypeError> {
    let mut check = Check { duplicates: duplicates.iter().map(String::as_str).collect(), ..Check::default() };
    check.value(schema, value)?;
    match check.first {
        Some(error) => Err(error),
        None => Ok(check.strict),
    }
}

/// What Go says of a value that reads itself.
pub(super) fn custom(scalar: Scalar, value: &Value) -> Result<(), Custom> {
    let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    match (scalar, value) {
        (_, Value::Null) | (Scalar::IntOrString, Value::String(_)) => Ok(()),
        (Scalar::IntOrString, Value::Number(_)) if number(value).is_some() => Ok(()),
        (Scalar::IntOrString, Value::Number(number)) => Err(Custom::Mismatch(format!("number {number}"), "int32")),
        (Scalar::IntOrString, other) => Err(Custom::Mismatch(kind_of(other).to_owned(), "int32")),
        (Scalar::Quantity, Value::String(text)) => {
            quantity::canonical(text.trim()).map(drop).map_err(|message| Custom::Message(message.to_owned()))
        }
        (Scalar::Quantity, other) => {
            quantity::canonical(&other.to_string()).map(drop).map_err(|message| Custom::Message(message.to_owned()))
        }
        (Scalar::Time | Scalar::MicroTime, Value::String(text)) => {
            let precision = if scalar == Scalar::Time { Precision::Seconds } else { Precision::Micros };
            time::canonical(text, precision).map(drop).map_err(Custom::Message)
        }
        (Scalar::Time | Scalar::MicroTime, other) => Err(Custom::Mismatch(kind_of(other).to_owned(), "string")),
        _ => Ok(()),
    }
}

/// What is wrong with a value that reads itself.
pub(super) enum Custom {
    Message(String),
    /// What it is, and the Go type that it should have.
    Mismatch(String, &'static str),
}

#[derive(Default)]
struct Check<'a> {
    /// The fields down to here, as Go's errors have them: without indices and keys.
    fields: Vec<&'a str>,
    /// The struct that the last of them is in.
    owner: &'a str,
    /// The way down to here, as strict errors have it.
    path: String,
    duplicates: HashSet<&'a str>,
    /// Inside what reads itself nothing is unknown.
    lenient: bool,
    strict: Vec<StrictError>,
    seen: HashSet<StrictError>,
    first: Option<TypeError>,
}

impl<'a> Check<'a> {
    fn value(&mut self, schema: Schema<'a>, value: &Value) -> Result<(), TypeError> {
        if value.is_null() {
            return Ok(());
        }
        match (schema.node(), value) {
            (Node::Struct(object), Value::Object(values)) => {
                for (name, value) in values {
                    self.field(schema, object, name, value)?;
                }
            }
            (Node::Map { value: shape, .. }, Value::Object(values)) => {
                for (key, value) in values {
                    let length = self.push_key(key);
                    self.duplicate();
                    self.value(schema.at(*shape), value)?;
                    self.path.truncate(length);
                }
            }
            (Node::List { item, .. }, Value::Array(items)) => {
                for (index, value) in items.iter().enumerate() {
                    let length = self.path.len();
                    self.path.extend(["[", &index.to_string(), "]"]);
                    self.value(schema.at(*item), value)?;
                    self.path.truncate(length);
                }
            }
            (Node::Scalar(scalar), value) => self.scalar(schema, *scalar, value)?,
            (Node::Any, value) => self.any(schema, value)?,
            (_, value) => self.save(self.mismatch(kind_of(value), &schema.go_type())),
        }
        Ok(())
    }

    fn field(&mut self, schema: Schema<'a>, object: &'a Struct, name: &str, value: &Value) -> Result<(), TypeError> {
        let length = self.push_key(name);
        let Some(field) = object.fields.iter().find(|field| field.name == name) else {
            if !object.preserve_unknown && !self.lenient {
                self.refuse(StrictError::Unknown(self.path.clone()));
            }
            self.path.truncate(length);
            return Ok(());
        };
        self.duplicate();
        let Field { name, node, inline, .. } = field;
        let (depth, owner) = (self.fields.len(), self.owner);
        self.fields.extend(inline.as_deref());
        self.fields.push(name);
        self.owner = object.go_name.rsplit('.').next().unwrap_or_default();
        self.value(schema.at(*node), value)?;
        self.fields.truncate(depth);
        self.owner = owner;
        self.path.truncate(length);
        Ok(())
    }

    fn scalar(&mut self, schema: Schema<'a>, scalar: Scalar, value: &Value) -> Result<(), TypeError> {
        let fits = match (scalar, value) {
            (Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime, value) => {
                return custom(scalar, value).map_err(|wrong| match wrong {
                    Custom::Message(message) => TypeError(message),
                    Custom::Mismatch(value, go_type) => self.mismatch(&value, go_type),
                });
            }
            (Scalar::Bytes, Value::String(text)) => {
                if let Err(offset) = base64::canonical(text) {
                    self.save(TypeError(format!("illegal base64 data at input byte {offset}")));
                }
                true
            }
            (Scalar::String, Value::String(_))
            | (Scalar::Bool, Value::Bool(_))
            | (Scalar::Float64 | Scalar::Number, Value::Number(_)) => true,
            (Scalar::Int32 | Scalar::Int64, Value::Number(number)) => {
                let fits = number.as_i64().is_some_and(|n| scalar == Scalar::Int64 || i32::try_from(n).is_ok());
                if !fits {
                    self.save(self.mismatch(&format!("number {number}"), &schema.go_type()));
                }
                true
            }
            _ => false,
        };
        if !fits {
            self.save(self.mismatch(kind_of(value), &schema.go_type()));
        }
        Ok(())
    }

    fn any(&mut self, schema: Schema<'a>, value: &Value) -> Result<(), TypeError> {
        let Some(json_schema) = schema.named(JSON_SCHEMA) else { return Ok(()) };
        match (schema.form(), value) {
            (Form::Plain | Form::Duration, _) | (Form::SchemaOrBool, Value::Bool(_)) => Ok(()),
            (_, Value::Object(_)) => self.itself(json_schema, value),
            (Form::SchemaOrArray, Value::Array(items)) => {
                items.iter().try_for_each(|item| self.itself(json_schema, item))
            }
            (Form::SchemaOrStrings, Value::Array(items)) => match items.iter().find(|item| !item.is_string()) {
                None => Ok(()),
                Some(item) => Err(self.mismatch(kind_of(item), "string")),
            },
            (Form::SchemaOrBool, _) => Err(TypeError("boolean or JSON schema expected".to_owned())),
            (Form::SchemaOrArray | Form::SchemaOrStrings, _) => Ok(()),
        }
    }

    /// Reads what reads itself: an error in it ends the reading, and nothing in it is unknown.
    fn itself(&mut self, schema: Schema<'a>, value: &Value) -> Result<(), TypeError> {
        let (outer, lenient) = (self.first.take(), std::mem::replace(&mut self.lenient, true));
        self.value(schema, value)?;
        self.lenient = lenient;
        match std::mem::replace(&mut self.first, outer) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn mismatch(&self, value: &str, go_type: &str) -> TypeError {
        TypeError(if self.fields.is_empty() {
            format!("json: cannot unmarshal {value} into Go value of type {go_type}")
        } else {
            let field = self.fields.join(".");
            format!("json: cannot unmarshal {value} into Go struct field {}.{field} of type {go_type}", self.owner)
        })
    }

    fn save(&mut self, error: TypeError) {
        self.first.get_or_insert(error);
    }

    fn push_key(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }

    fn duplicate(&mut self) {
        if !self.lenient && self.duplicates.contains(self.path.as_str()) {
            self.refuse(StrictError::Duplicate(self.path.clone()));
        }
    }

    fn refuse(&mut self, error: StrictError) {
        if self.strict.len() < MAX_STRICT_ERRORS && self.seen.insert(error.clone()) {
            self.strict.push(error);
        }
    }
}
