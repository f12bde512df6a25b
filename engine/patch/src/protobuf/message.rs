//! Messages as JSON, by the numbers that the schema has of their fields.

use serde_json::{Map, Value};

use super::wire::{LENGTH, Reader, Tag, text};
use super::{ProtobufError, value};
use crate::decode::{JSON_SCHEMA, MAX_DEPTH, SyntaxError};
use crate::schema::{Form, Node, Scalar, Schema};

/// The object as JSON, good for [`decode::decode`](crate::decode::decode). Numbers that the schema does not have are passed over.
///
/// # Errors
/// The bytes are no message of that type.
pub fn to_json(schema: Schema<'_>, raw: &[u8]) -> Result<Value, ProtobufError> {
    let mut fields = Map::new();
    // A message is an object in JSON, and may be within a list or a map.
    message(schema, raw, &mut Vec::new(), &mut fields, MAX_DEPTH / 2)?;
    Ok(Value::Object(fields))
}

/// Adds what is in a message. `path` are the numbers of the messages around it that JSON has no object for.
fn message(
    schema: Schema<'_>,
    bytes: &[u8],
    path: &mut Vec<u32>,
    fields: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    let Node::Struct(object) = schema.node() else { return Ok(()) };
    let depth = depth.checked_sub(1).ok_or(SyntaxError::Depth)?;
    let inlined = object.fields.iter().find(|field| !path.is_empty() && field.protobuf.starts_with(path));
    let name = inlined.and_then(|field| field.inline.as_deref()?.split('.').nth(path.len() - 1));
    let name = name.unwrap_or_else(|| last(&object.go_name));
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag(name)? {
        path.push(tag.number);
        match object.fields.iter().find(|field| field.protobuf.starts_with(path)) {
            None => reader.skip(tag)?,
            Some(field) if field.protobuf.len() == path.len() => {
                let place = fields.entry(field.name.as_str()).or_insert(Value::Null);
                read(schema.at(field.node), &mut reader, tag, &field.name, place, depth)?;
            }
            Some(field) => message(schema, reader.bytes(tag, &field.name)?, path, fields, depth)?,
        }
        path.pop();
    }
    Ok(())
}

/// Adds the field `name` to what was read of it before: lists and maps come one element at a time.
fn read(
    schema: Schema<'_>,
    reader: &mut Reader<'_>,
    tag: Tag,
    name: &str,
    place: &mut Value,
    depth: usize,
) -> Result<(), ProtobufError> {
    match schema.node() {
        Node::Struct(object) => {
            // Go embeds metadata, and so calls it by its type.
            let name = if name == "metadata" { last(&object.go_name) } else { name };
            let bytes = reader.bytes(tag, name)?;
            let mut fields = if let Value::Object(fields) = place.take() { fields } else { Map::new() };
            message(schema, bytes, &mut Vec::new(), &mut fields, depth)?;
            *place = Value::Object(fields);
        }
        Node::List { item, .. } => {
            let mut items = if let Value::Array(items) = place.take() { items } else { Vec::new() };
            element(schema.at(*item), reader, tag, name, &mut items, depth)?;
            *place = Value::Array(items);
        }
        Node::Map { value, .. } => {
            let mut entries = if let Value::Object(entries) = place.take() { entries } else { Map::new() };
            let (key, value) = entry(schema.at(*value), reader.bytes(tag, name)?, depth)?;
            entries.insert(key, value);
            *place = Value::Object(entries);
        }
        Node::Scalar(_) if schema.form() == Form::Duration => {
            *place = value::duration(reader.bytes(tag, name)?)?.into();
        }
        Node::Scalar(scalar) => *place = value::scalar(*scalar, reader, tag, name)?,
        Node::Any => *place = any(schema, reader.bytes(tag, name)?, depth)?,
    }
    Ok(())
}

/// Adds an element to a list; or many, if they are numbers that are packed together.
fn element(
    schema: Schema<'_>,
    reader: &mut Reader<'_>,
    tag: Tag,
    name: &str,
    items: &mut Vec<Value>,
    depth: usize,
) -> Result<(), ProtobufError> {
    if let (Node::Scalar(scalar @ (Scalar::Bool | Scalar::Int32 | Scalar::Int64)), LENGTH) =
        (schema.node(), tag.wire_type)
    {
        let mut packed = Reader::new(reader.bytes(tag, name)?);
        while !packed.is_empty() {
            items.push(value::number(*scalar, packed.varint()?));
        }
        return Ok(());
    }
    let mut item = Value::Null;
    read(schema, reader, tag, name, &mut item, depth)?;
    items.push(item);
    Ok(())
}

/// A key and its value.
fn entry(schema: Schema<'_>, bytes: &[u8], depth: usize) -> Result<(String, Value), ProtobufError> {
    let mut key = String::new();
    // What is left out is empty rather than nothing.
    let mut value = match schema.node() {
        Node::Scalar(Scalar::Bytes) => "".into(),
        Node::List { .. } => Value::Array(Vec::new()),
        _ => Value::Null,
    };
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag("entry")? {
        match (tag.number, schema.node()) {
            (1, _) => key = text(reader.bytes(tag, "key")?),
            // No value can be repeated, so that lists are in messages of their own.
            (2, Node::List { .. }) => {
                let mut list = Reader::new(reader.bytes(tag, "value")?);
                while let Some(tag) = list.tag(last(&schema.go_type()))? {
                    match tag.number {
                        1 => read(schema, &mut list, tag, "items", &mut value, depth)?,
                        _ => list.skip(tag)?,
                    }
                }
            }
            (2, _) => read(schema, &mut reader, tag, "value", &mut value, depth)?,
            _ => reader.skip(tag)?,
        }
    }
    Ok((key, value))
}

/// What has no shape: JSON as it is, or one of the choices that a JSON schema has.
fn any(schema: Schema<'_>, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let Some(json_schema) = schema.named(JSON_SCHEMA).filter(|_| schema.form() != Form::Plain) else {
        return value::json(bytes);
    };
    let name = match schema.form() {
        Form::SchemaOrBool => "JSONSchemaPropsOrBool",
        Form::SchemaOrArray => "JSONSchemaPropsOrArray",
        _ => "JSONSchemaPropsOrStringArray",
    };
    let mut allows = (schema.form() == Form::SchemaOrBool).then_some(false);
    let (mut one, mut many) = (Value::Null, Vec::new());
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag(name)? {
        match (schema.form(), tag.number) {
            (Form::SchemaOrBool, 1) => allows = Some(reader.number(tag, "allows")? != 0),
            (Form::SchemaOrBool, 2) | (_, 1) => read(json_schema, &mut reader, tag, "schema", &mut one, depth)?,
            (Form::SchemaOrArray, 2) => element(json_schema, &mut reader, tag, "JSONSchemas", &mut many, depth)?,
            (_, 2) => many.push(text(reader.bytes(tag, "property")?).into()),
            _ => reader.skip(tag)?,
        }
    }
    Ok(match allows {
        _ if !many.is_empty() => Value::Array(many),
        Some(allows) if one.is_null() => Value::Bool(allows),
        _ => one,
    })
}

/// `ObjectMeta` of `v1.ObjectMeta`.
fn last(go_name: &str) -> &str {
    go_name.rsplit('.').next().unwrap_or_default()
}
