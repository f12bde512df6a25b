//! Whether values have the types that they should have, with the errors of apimachinery's converter from unstructured objects.

use serde_json::Value;

use super::check::{Custom, custom};
use super::{StrictError, TypeError, base64};
use crate::schema::{Node, Scalar, Schema};

/// The unknown fields, sorted.
///
/// # Errors
/// The first value that the type cannot hold, in Go's order of fields.
pub(super) fn check(schema: Schema<'_>, value: &Value) -> Result<Vec<StrictError>, TypeError> {
    let mut unknown = Vec::new();
    visit(schema, value, "", &mut unknown)?;
    unknown.sort();
    Ok(unknown.into_iter().map(StrictError::Unknown).collect())
}

fn visit(schema: Schema<'_>, value: &Value, path: &str, unknown: &mut Vec<String>) -> Result<(), TypeError> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (schema.node(), value) {
        (_, Value::Null) | (Node::Any, _) => {}
        (Node::Struct(object), Value::Object(values)) => {
            for field in &object.fields {
                if let Some(value) = values.get(&field.name) {
                    visit(schema.at(field.node), value, &below(&field.name), unknown)?;
                }
            }
            let known = |name: &str| object.preserve_unknown || object.fields.iter().any(|field| field.name == name);
            unknown.extend(values.keys().filter(|name| !known(name)).map(|name| below(name)));
        }
        // The converter forgets the key of a map on its way down.
        (Node::Map { value: shape, .. }, Value::Object(values)) => {
            for value in values.values() {
                visit(schema.at(*shape), value, path, unknown)?;
            }
        }
        (Node::List { item, .. }, Value::Array(items)) => {
            for (index, value) in items.iter().enumerate() {
                visit(schema.at(*item), value, &format!("{path}[{index}]"), unknown)?;
            }
        }
        (Node::Struct(_), _) => return Err(TypeError(format!("cannot restore struct from: {}", go_kind(value)))),
        (Node::Map { .. }, _) => return Err(TypeError(format!("cannot restore map from {}", go_kind(value)))),
        (Node::List { .. }, _) => return Err(TypeError(format!("cannot restore slice from {}", go_kind(value)))),
        (Node::Scalar(scalar), _) => self::scalar(schema, *scalar, value)?,
    }
    Ok(())
}

fn scalar(schema: Schema<'_>, scalar: Scalar, value: &Value) -> Result<(), TypeError> {
    let whole = |value: &Value| value.as_i64().is_some() || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    match (scalar, value) {
        (Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime, value) => custom(scalar, value)
            .map_err(|wrong| match wrong {
                Custom::Message(message) => TypeError(message),
                Custom::Mismatch(value, go_type) => {
                    TypeError(format!("json: cannot unmarshal {value} into Go value of type {go_type}"))
                }
            }),
        (Scalar::Bytes, Value::String(text)) => base64::canonical(text).map(drop).map_err(|offset| {
            TypeError(format!("error decoding from json: illegal base64 data at input byte {offset}"))
        }),
        (Scalar::Bytes, _) => Err(TypeError(format!("cannot restore slice from {}", go_kind(value)))),
        (Scalar::String, Value::String(_))
        | (Scalar::Bool, Value::Bool(_))
        | (Scalar::Float64 | Scalar::Number, Value::Number(_)) => Ok(()),
        (Scalar::Int32 | Scalar::Int64, Value::Number(_)) if whole(value) => Ok(()),
        // Go's rules of what could be converted, if it were allowed.
        (Scalar::Int32 | Scalar::Int64 | Scalar::String, Value::Number(_))
            if scalar != Scalar::String || value.as_i64().is_some() =>
        {
            Err(TypeError(format!("cannot convert {} to {}", go_kind(value), schema.go_type())))
        }
        _ => Err(TypeError(format!("unrecognized type: {}", reflect_kind(scalar)))),
    }
}

/// Go's kind of an unstructured value.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn reflect_kind(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Float64 | Scalar::Number => "float64",
        _ => "string",
    }
}
