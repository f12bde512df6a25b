//! Strategic merge patches, with the semantics and the errors of `k8s.io/apimachinery/pkg/util/strategicpatch`.
//!
//! A patch is merged into an object field by field. Lists whose field says so merge by the value of one key of their elements, others are
//! replaced. What cannot be said that way, directives say: `$patch`, `$retainKeys`, `$deleteFromPrimitiveList/…`, `$setElementOrder/…`.

mod list;

use serde_json::{Map, Value};

use crate::print::{go_type, go_value};
use crate::schema::{Node, PatchStrategy, Scalar, Schema};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// Why a patch cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    /// `$deleteFromPrimitiveList` without the name of a field.
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    /// `$retainKeys` that is no list, or does not name what the patch sets.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// `$setElementOrder` that is no list, or without the name of a field.
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrder,
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// What kube-apiserver answers with an internal error.
    #[error("{0}")]
    Internal(String),
}

impl StrategicError {
    /// The HTTP status that kube-apiserver answers with.
    pub fn status(&self) -> u16 {
        match self {
            StrategicError::PrimitiveList | StrategicError::RetainKeys | StrategicError::SetElementOrder => 400,
            StrategicError::ListOfLists => 422,
            StrategicError::Internal(_) => 500,
        }
    }
}

fn internal<T>(message: impl Into<String>) -> Result<T, StrategicError> {
    Err(StrategicError::Internal(message.into()))
}

fn bad_type<T>(expected: &Value, actual: &Value) -> Result<T, StrategicError> {
    internal(format!("expected a {}, but received a {}", go_type(expected), go_type(actual)))
}

/// Merges a patch into an object of the type `schema`.
///
/// # Errors
/// A directive that is malformed, or a list that cannot be merged.
pub fn strategic_merge(schema: Schema<'_>, original: Value, patch: Value) -> Result<Value, StrategicError> {
    let object = |value| match value {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(Object::new()),
        other => bad_type(&Value::Object(Object::new()), &other),
    };
    merge_objects(schema, object(original)?, object(patch)?).map(Value::Object)
}

fn merge_objects(schema: Schema<'_>, mut original: Object, mut patch: Object) -> Result<Object, StrategicError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(directive) if directive == "replace" => {
            patch.shift_remove(DIRECTIVE);
            return Ok(patch);
        }
        Some(directive) if directive == "delete" => return Ok(Object::new()),
        Some(directive) => return unknown_directive(directive, &patch),
    }
    retain_keys(&mut original, &mut patch)?;
    list::set_element_orders(schema, &mut original, &mut patch)?;
    for (key, value) in patch {
        if key.starts_with(DELETE_FROM_LIST) {
            delete_from_list(schema, &mut original, &key, value)?;
        } else {
            merge_field(schema, &mut original, key, value)?;
        }
    }
    Ok(original)
}

fn unknown_directive<T>(directive: &Value, patch: &Object) -> Result<T, StrategicError> {
    let patch = go_value(&Value::Object(patch.clone()));
    internal(format!("unknown patch type: {} in map: {patch}", go_value(directive)))
}

fn merge_field(schema: Schema<'_>, original: &mut Object, key: String, value: Value) -> Result<(), StrategicError> {
    if value.is_null() {
        original.shift_remove(&key);
        return Ok(());
    }
    let merged = match (original.get_mut(&key).map(Value::take), value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            let (schema, strategy) = field(schema, &key)?;
            Some(Value::Object(if strategy.replace { new } else { merge_objects(schema, old, new)? }))
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            let (schema, strategy) = list_field(schema, &key)?;
            Some(Value::Array(if strategy.merge { list::merge(schema, strategy, old, new)? } else { new }))
        }
        // Of the same type, but not merged: nulls stay.
        (Some(old), value) if go_type(&old) == go_type(&value) => Some(value),
        (_, mut value) => {
            discard_nulls(&mut value);
            remove_directives(value)
        }
    };
    match merged {
        Some(value) => drop(original.insert(key, value)),
        None => drop(original.shift_remove(&key)),
    }
    Ok(())
}

/// `$deleteFromPrimitiveList/args: [a]`
fn delete_from_list(
    schema: Schema<'_>,
    original: &mut Object,
    directive: &str,
    values: Value,
) -> Result<(), StrategicError> {
    let key = directive_field(directive, DELETE_FROM_LIST).ok_or(StrategicError::PrimitiveList)?;
    if values.is_null() {
        original.shift_remove(key);
        return Ok(());
    }
    if let (Some(Value::Array(old)), Value::Array(values)) = (original.get_mut(key), values) {
        list_field(schema, key)?;
        list::delete(old, values)?;
    }
    Ok(())
}

/// The field that a directive is about: `args` of `$setElementOrder/args`.
fn directive_field<'a>(directive: &'a str, prefix: &str) -> Option<&'a str> {
    directive.strip_prefix(prefix)?.strip_prefix('/')
}

fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), StrategicError> {
    let Some(keys) = patch.shift_remove(RETAIN_KEYS) else { return Ok(()) };
    let keys = keys.as_array().ok_or(StrategicError::RetainKeys)?;
    let named = |key: &str| keys.iter().any(|named| named == key);
    for (key, value) in &*patch {
        let directive = key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ORDER);
        if !value.is_null() && !directive && !named(key) {
            return Err(StrategicError::RetainKeys);
        }
    }
    original.retain(|key, _| named(key));
    Ok(())
}

/// The shape of a field, and how it merges.
fn field<'a>(schema: Schema<'a>, key: &str) -> Result<(Schema<'a>, &'a PatchStrategy), StrategicError> {
    match schema.node() {
        Node::Struct(object) => {
            let name = object.go_name.rsplit('.').next().unwrap_or_default();
            let unknown = || internal(format!("unable to find api field in struct {name} for the json field {key:?}"));
            schema.field(key).map_or_else(unknown, |(field, schema)| Ok((schema, &field.patch)))
        }
        Node::Any => internal(format!("unable to find api field in struct RawExtension for the json field {key:?}")),
        _ => {
            let kind = reflect_kind(schema);
            internal(format!("merging an object in json but data type is not struct, instead is: {kind}"))
        }
    }
}

/// The shape of the elements of a list, and how it merges.
fn list_field<'a>(schema: Schema<'a>, key: &str) -> Result<(Schema<'a>, &'a PatchStrategy), StrategicError> {
    let (list, strategy) = field(schema, key)?;
    match list.node() {
        Node::List { item, .. } => match list.at(*item).node() {
            Node::List { .. } => internal("unexpected slice of slice"),
            _ => Ok((list.at(*item), strategy)),
        },
        _ => internal(format!("expected slice or array type, but got: {}", reflect_kind(schema))),
    }
}

/// Go's kind of a type.
fn reflect_kind(schema: Schema<'_>) -> &'static str {
    match schema.node() {
        Node::Map { .. } => "map",
        Node::List { .. } | Node::Scalar(Scalar::Bytes) => "slice",
        Node::Scalar(Scalar::String) => "string",
        Node::Scalar(Scalar::Bool) => "bool",
        Node::Scalar(Scalar::Int32) => "int32",
        Node::Scalar(Scalar::Int64) => "int64",
        Node::Scalar(Scalar::Float64 | Scalar::Number) => "float64",
        Node::Struct(_) | Node::Any | Node::Scalar(_) => "struct",
    }
}

/// What a patch sets where nothing was: without directives. `None` if it is itself one.
fn remove_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(object) if object.contains_key(DIRECTIVE) => return None,
        Value::Object(object) => Value::Object(
            object.into_iter().filter_map(|(key, value)| Some((key, remove_directives(value)?))).collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().filter_map(remove_directives).collect()),
        other => other,
    })
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
