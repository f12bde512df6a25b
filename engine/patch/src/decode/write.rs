//! How Go writes an object: which empty values are there, in what order, in what form.

use serde_json::{Map, Number, Value};

use super::time::Precision;
use super::{base64, quantity, time};
use crate::schema::{Field, Form, Node, Scalar, Schema};

/// The object as Go writes it after having read it. Values of a type that the schema does not allow become that type's empty value, and
/// unknown fields go; [`decode`](super::decode) says so before.
pub fn write(schema: Schema<'_>, value: Value) -> Value {
    match (schema.node(), value) {
        (Node::Struct(object), value) => {
            let mut given = if let Value::Object(given) = value { given } else { Map::new() };
            let mut written = Map::new();
            for field in &object.fields {
                let value = given.get_mut(&field.name).map(Value::take);
                if let Some(value) = write_field(field, schema.at(field.node), value) {
                    written.insert(field.name.clone(), value);
                }
            }
            if object.preserve_unknown {
                given.retain(|name, _| !object.fields.iter().any(|field| field.name == *name));
                written.extend(given);
            }
            Value::Object(written)
        }
        (Node::Map { value: shape, .. }, Value::Object(values)) => {
            let mut entries: Vec<(String, Value)> = values.into_iter().collect();
            entries.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
            Value::Object(entries.into_iter().map(|(key, value)| (key, write(schema.at(*shape), value))).collect())
        }
        (Node::List { item, .. }, Value::Array(items)) => {
            Value::Array(items.into_iter().map(|value| write(schema.at(*item), value)).collect())
        }
        (Node::Map { .. } | Node::List { .. }, _) => Value::Null,
        (Node::Scalar(_), value) if schema.form() == Form::Duration => {
            if value.is_string() {
                value
            } else {
                "0s".into()
            }
        }
        (Node::Scalar(scalar), value) => write_scalar(*scalar, value),
        (Node::Any, value) => write_any(schema, value),
    }
}

/// What is left of a written object after Go stored it as protobuf, which does not tell an empty list or map from none. All of Kubernetes'
/// own kinds are stored that way, but for `CustomResourceDefinition`s.
pub fn stored(schema: Schema<'_>, value: Value) -> Value {
    match (schema.node(), value) {
        (Node::Struct(_), Value::Object(fields)) => {
            let stored = fields.into_iter().map(|(name, value)| match schema.field(&name) {
                Some((_, schema)) => (name, stored(schema, value)),
                None => (name, value),
            });
            Value::Object(stored.collect())
        }
        (Node::Map { value: shape, .. }, Value::Object(values)) if !values.is_empty() => {
            let shape = schema.at(*shape);
            let stored = values.into_iter().map(|(key, value)| match (shape.node(), value) {
                (Node::Scalar(Scalar::Bytes), Value::Null) => (key, Value::String(String::new())),
                (_, value) => (key, stored(shape, value)),
            });
            Value::Object(stored.collect())
        }
        (Node::List { item, .. }, Value::Array(items)) if !items.is_empty() => {
            Value::Array(items.into_iter().map(|value| stored(schema.at(*item), value)).collect())
        }
        (Node::Map { .. } | Node::List { .. }, _) => Value::Null,
        (Node::Struct(_) | Node::Scalar(_) | Node::Any, value) => value,
    }
}

fn write_field(field: &Field, schema: Schema<'_>, value: Option<Value>) -> Option<Value> {
    let value = value.filter(|value| !value.is_null());
    if field.pointer {
        return match value {
            None => (!field.omit_empty).then_some(Value::Null),
            Some(value) => Some(write(schema, value)),
        };
    }
    let written = write(schema, value.unwrap_or_default());
    (!field.omit_empty || !is_empty(schema, &written)).then_some(written)
}

/// Whether `omitempty`, or `omitzero`, leaves it out.
fn is_empty(schema: Schema<'_>, written: &Value) -> bool {
    match written {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => match schema.node() {
            Node::Struct(_) => *written == write(schema, Value::Null),
            _ => object.is_empty(),
        },
    }
}

fn write_scalar(scalar: Scalar, value: Value) -> Value {
    match (scalar, value) {
        (Scalar::String | Scalar::IntOrString, value @ Value::String(_)) | (Scalar::Bool, value @ Value::Bool(_)) => {
            value
        }
        (Scalar::String, _) => Value::String(String::new()),
        (Scalar::Bool, _) => Value::Bool(false),
        (Scalar::Int32, value) => wrapped(number(&value)),
        (Scalar::Int64 | Scalar::IntOrString | Scalar::Float64 | Scalar::Number, value) => number(&value),
        (Scalar::Bytes, Value::String(text)) => base64::canonical(&text).map_or(Value::Null, Value::String),
        (Scalar::Quantity, Value::Null) => "0".into(),
        (Scalar::Quantity, value) => {
            let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
            quantity::canonical(&text).unwrap_or_else(|_| "0".to_owned()).into()
        }
        (Scalar::Time | Scalar::MicroTime, Value::String(text)) => {
            let precision = if scalar == Scalar::Time { Precision::Seconds } else { Precision::Micros };
            time::canonical(&text, precision).ok().flatten().map_or(Value::Null, Value::String)
        }
        (Scalar::Bytes | Scalar::Time | Scalar::MicroTime, _) => Value::Null,
    }
}

/// A number that was too large for its type wraps around, as Go's conversion has it. Text with such a number was refused before.
fn wrapped(value: Value) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "Go's conversion is this one")]
    value.as_i64().map_or(value, |number| (number as i32).into())
}

/// Go writes a whole number without a fraction.
pub(super) fn number(value: &Value) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within the bounds of the type")]
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            Value::Number(value.as_i64().unwrap_or(number as i64).into())
        }
        Some(_) => value.clone(),
        None => Value::Number(Number::from(0)),
    }
}

fn write_any(schema: Schema<'_>, value: Value) -> Value {
    let Some(json_schema) = schema.named(super::check::JSON_SCHEMA).filter(|_| schema.form() != Form::Plain) else {
        return value;
    };
    match value {
        Value::Object(_) => write(json_schema, value),
        Value::Array(items) if schema.form() == Form::SchemaOrArray => {
            Value::Array(items.into_iter().map(|item| write(json_schema, item)).collect())
        }
        value => value,
    }
}
