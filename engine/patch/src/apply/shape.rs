//! The schema as server-side apply sees it: every value is a map, a list or a scalar, and where nothing is known the value decides.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::element::Element;
use super::go;
use crate::schema::{ListType, Node, Scalar, Schema, Struct};

/// What may be at a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type<'a> {
    /// What the schema says.
    Known(Schema<'a>),
    /// Anything: maps are merged by key, lists are replaced.
    Deduced,
    /// Anything, replaced as a whole (`RawExtension`).
    Untyped,
}

/// What one value is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'a> {
    Map(MapShape<'a>),
    List(ListShape<'a>),
    Scalar(ScalarShape),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum MapShape<'a> {
    Struct(Schema<'a>, &'a Struct),
    Of { value: Type<'a>, atomic: bool },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ListShape<'a> {
    pub item: Type<'a>,
    pub list_type: &'a ListType,
}

/// What server-side apply checks of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarShape {
    Numeric,
    String,
    Boolean,
    Untyped,
}

impl<'a> Type<'a> {
    /// The shape that this value, or any if there is none, has here.
    pub(super) fn shape(self, value: Option<&Value>) -> Shape<'a> {
        let schema = match self {
            Type::Known(schema) => schema,
            Type::Deduced => return free(value, self, false),
            Type::Untyped => return free(value, self, true),
        };
        match schema.node() {
            Node::Struct(object) => Shape::Map(MapShape::Struct(schema, object)),
            Node::Map { value, atomic } => {
                Shape::Map(MapShape::Of { value: Type::Known(schema.at(*value)), atomic: *atomic })
            }
            Node::List { item, list_type } => Shape::List(ListShape { item: Type::Known(schema.at(*item)), list_type }),
            // Its OpenAPI definition has no type, so nothing is checked.
            Node::Any | Node::Scalar(Scalar::IntOrString) => free(value, Type::Deduced, false),
            Node::Scalar(scalar) => Shape::Scalar(match scalar {
                Scalar::String | Scalar::Bytes => ScalarShape::String,
                Scalar::Bool => ScalarShape::Boolean,
                Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::Number => ScalarShape::Numeric,
                Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime => ScalarShape::Untyped,
            }),
        }
    }

    /// Two values of this type have the same shape.
    pub(super) fn agrees(self, a: &Value, b: &Value) -> bool {
        std::mem::discriminant(&self.shape(Some(a))) == std::mem::discriminant(&self.shape(Some(b)))
    }

    /// Go's object of this type before anything is decoded into it, as JSON.
    pub(super) fn zero(self) -> Value {
        let Type::Known(schema) = self else { return Value::Null };
        match schema.node() {
            Node::Struct(object) if object.go_name.is_empty() => Value::Object(Map::new()),
            Node::Struct(object) => object
                .fields
                .iter()
                .filter(|field| !field.omit_empty)
                .map(|field| {
                    let value = if field.pointer { Value::Null } else { Type::Known(schema.at(field.node)).zero() };
                    (field.name.clone(), value)
                })
                .collect(),
            Node::Scalar(Scalar::String) => "".into(),
            Node::Scalar(Scalar::Bool) => false.into(),
            Node::Scalar(Scalar::Int32 | Scalar::Int64 | Scalar::Float64 | Scalar::IntOrString) => 0.into(),
            Node::Scalar(Scalar::Quantity) => "0".into(),
            _ => Value::Null,
        }
    }
}

fn free<'a>(value: Option<&Value>, below: Type<'a>, atomic: bool) -> Shape<'a> {
    match value {
        Some(Value::Array(_)) => Shape::List(ListShape { item: Type::Untyped, list_type: &ListType::Atomic }),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Shape::Scalar(ScalarShape::Untyped),
        Some(Value::Object(_) | Value::Null) | None => Shape::Map(MapShape::Of { value: below, atomic }),
    }
}

impl<'a> MapShape<'a> {
    pub(super) fn atomic(self) -> bool {
        match self {
            MapShape::Struct(_, object) => object.atomic,
            MapShape::Of { atomic, .. } => atomic,
        }
    }

    /// The schema lists a field of this name.
    pub(super) fn is_named(self, name: &str) -> bool {
        matches!(self, MapShape::Struct(schema, _) if schema.field(name).is_some())
    }

    /// The type of the value at a key; `None` if there may be none.
    pub(super) fn value(self, name: &str) -> Option<Type<'a>> {
        match self {
            MapShape::Struct(schema, object) => match schema.field(name) {
                // Of Kubernetes' own fields only `RawExtension` is open.
                Some((_, field)) if matches!(field.node(), Node::Any) && !object.go_name.is_empty() => {
                    Some(Type::Untyped)
                }
                Some((_, field)) => Some(Type::Known(field)),
                // An object of which nothing is said may hold anything.
                None => (object.preserve_unknown || object.fields.is_empty()).then_some(Type::Deduced),
            },
            MapShape::Of { value, .. } => Some(value),
        }
    }
}

impl<'a> ListShape<'a> {
    pub(super) fn atomic(self) -> bool {
        *self.list_type == ListType::Atomic
    }

    /// Why an item has no place in this list, which is not atomic.
    pub(super) fn check(self, item: &Value) -> Result<(), String> {
        let wrong = match (self.list_type, item) {
            (ListType::Map(keys), Value::Object(_)) => {
                if keys.is_empty() || keys.iter().any(|name| self.key_value(name, item).is_some()) {
                    return Ok(());
                }
                return Err(format!(
                    "associative list with keys has an element that omits all key fields {} (and doesn't have default values for any key fields)",
                    go::quote_all(keys)
                ));
            }
            (ListType::Map(_), Value::Null) => "associative list with keys may not have a null element",
            (ListType::Map(_), _) => "associative list with keys may not have non-map elements",
            (ListType::Set, Value::Object(_)) => "associative list without keys has an element that's a map type",
            (ListType::Set, Value::Array(_)) => "not supported: associative list with lists as elements",
            (ListType::Set, Value::Null) => "associative list without keys has an element that's an explicit null",
            (ListType::Set | ListType::Atomic, _) => return Ok(()),
        };
        Err(wrong.to_owned())
    }

    /// The step to an item of this list, which is not atomic. There is none to an item that has no place in it.
    pub(super) fn element(self, item: &'a Value) -> Option<Element<'a>> {
        match self.list_type {
            ListType::Map(keys) => {
                item.as_object()?;
                let fields = keys.iter().filter_map(|name| {
                    Some((Cow::Borrowed(name.as_str()), Cow::Borrowed(self.key_value(name, item)?)))
                });
                Some(Element::key(fields.collect()))
            }
            ListType::Set => Some(Element::Value(Cow::Borrowed(item))),
            ListType::Atomic => None,
        }
    }

    fn key_value<'v>(self, key: &str, item: &'v Value) -> Option<&'v Value>
    where
        'a: 'v,
    {
        item.get(key).or_else(|| self.default(key))
    }

    fn default(self, key: &str) -> Option<&'a Value> {
        let Type::Known(item) = self.item else { return None };
        item.field(key)?.0.default.as_ref().filter(|default| !default.is_null())
    }
}
