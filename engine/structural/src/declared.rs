//! What a schema is to an expression: its type, and how large a value of it can be.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cel::Sizes;
use crate::cel::types::{Object, Type};
use crate::escape;
use crate::schema::Schema;

/// No request is larger.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;
const MAX_DURATION: u64 = 32;
const MAX_DATE_TIME: u64 = 32;
const DATE: u64 = 12;

/// The type of a schema, and the sizes of its values.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) type_of: Type,
    /// The most elements or characters that a value has.
    largest: u64,
    /// The fewest bytes that a value takes in a request.
    smallest: u64,
    element: Option<Arc<Declared>>,
    fields: BTreeMap<String, Arc<Declared>>,
}

impl Declared {
    /// `None` for what expressions cannot read: schemas without a type.
    pub(crate) fn of(schema: &Schema, is_resource: bool, name: &str) -> Option<Declared> {
        if schema.int_or_string {
            let largest = schema.max_length.map_or(MAX_REQUEST - 2, characters);
            return Some(Declared { largest, ..Declared::scalar(Type::Dyn, 1) });
        }
        Some(match schema.kind.as_str() {
            "array" => {
                let items = schema.items.as_deref()?;
                let element = Declared::of(items, items.embedded_resource, &format!("{name}.@idx"))?;
                let largest = schema.max_items.map_or_else(|| (MAX_REQUEST - 2) / (element.smallest + 1), unsigned);
                let type_of = Type::list(element.type_of.clone());
                Declared { largest, element: Some(Arc::new(element)), ..Declared::scalar(type_of, 2) }
            }
            "object" => {
                if let Some(additional) =
                    schema.additional_schema().filter(|_| !is_resource || schema.properties.is_empty())
                {
                    let element = Declared::of(additional, additional.embedded_resource, &format!("{name}.@elem"))?;
                    let largest =
                        schema.max_properties.map_or_else(|| (MAX_REQUEST - 2) / (element.smallest + 6), unsigned);
                    let type_of = Type::map(Type::String, element.type_of.clone());
                    return Some(Declared {
                        largest,
                        element: Some(Arc::new(element)),
                        ..Declared::scalar(type_of, 2)
                    });
                }
                Declared::object(schema, is_resource, name)
            }
            "string" => Declared::text(schema),
            "boolean" => Declared::scalar(Type::Bool, 4),
            "number" => Declared::scalar(Type::Double, 1),
            "integer" => Declared::scalar(Type::Int, 1),
            _ => return None,
        })
    }

    fn scalar(type_of: Type, smallest: u64) -> Declared {
        Declared { type_of, largest: 0, smallest, element: None, fields: BTreeMap::new() }
    }

    fn text(schema: &Schema) -> Declared {
        let (type_of, smallest, largest) = match schema.format_name.as_str() {
            "byte" => (Type::Bytes, 2, schema.max_length.map_or(MAX_REQUEST - 2, unsigned)),
            "duration" => (Type::Duration, 3, MAX_DURATION),
            "date" => (Type::Timestamp, DATE, DATE),
            "date-time" => (Type::Timestamp, 21, MAX_DATE_TIME),
            _ => {
                let longest = schema.enumeration.iter().filter_map(|value| value.as_str()).map(str::len).max();
                let largest = match (schema.max_length, schema.enumeration.is_empty()) {
                    (Some(length), _) => characters(length),
                    (None, false) => u64::try_from(longest.unwrap_or_default()).unwrap_or(u64::MAX),
                    (None, true) => MAX_REQUEST - 2,
                };
                (Type::String, 2, largest)
            }
        };
        Declared { largest, ..Declared::scalar(type_of, smallest) }
    }

    fn object(schema: &Schema, is_resource: bool, name: &str) -> Declared {
        let mut smallest = 2;
        let mut fields = BTreeMap::new();
        for (property, property_schema) in &schema.properties {
            let below = format!("{name}.{property}");
            let Some(declared) = Declared::of(property_schema, property_schema.embedded_resource, &below) else {
                continue;
            };
            if schema.required.contains(property) && property_schema.default.is_none() {
                smallest += u64::try_from(property.len()).unwrap_or_default() + declared.smallest + 4;
            }
            if let Some(escaped) = escape::escape(property) {
                fields.insert(escaped, Arc::new(declared));
            }
        }
        if is_resource {
            add_meta(&mut fields, name);
        }
        let types = fields.iter().map(|(field, declared)| (field.clone(), declared.type_of.clone())).collect();
        let type_of = Type::Object(Arc::new(Object { name: name.to_owned(), fields: types }));
        Declared { fields, ..Declared::scalar(type_of, smallest) }
    }

    /// How often a value can be there, if nothing but the size of a request bounds it.
    pub(crate) fn most_in_a_request(&self) -> u64 {
        MAX_REQUEST / (self.smallest + 1)
    }

    pub(crate) fn element(&self) -> Option<&Declared> {
        self.element.as_deref()
    }

    pub(crate) fn field(&self, escaped: &str) -> Option<&Declared> {
        self.fields.get(escaped).map(AsRef::as_ref)
    }
}

/// `apiVersion`, `kind`, `metadata.name` and `metadata.generateName` can be read of every resource, whatever its schema says.
fn add_meta(fields: &mut BTreeMap<String, Arc<Declared>>, name: &str) {
    let text = || Arc::new(Declared { largest: MAX_REQUEST - 2, ..Declared::scalar(Type::String, 2) });
    let is_text = |declared: Option<&Arc<Declared>>| declared.is_some_and(|declared| declared.type_of == Type::String);
    let metadata = fields.get("metadata");
    let complete = is_text(fields.get("kind"))
        && is_text(fields.get("apiVersion"))
        && ["name", "generateName"]
            .iter()
            .all(|field| metadata.is_some_and(|metadata| is_text(metadata.fields.get(*field))));
    if complete {
        return;
    }
    fields.insert("kind".to_owned(), text());
    fields.insert("apiVersion".to_owned(), text());
    let inside = BTreeMap::from([("name".to_owned(), text()), ("generateName".to_owned(), text())]);
    let types = inside.keys().map(|field| (field.clone(), Type::String)).collect();
    let type_of = Type::Object(Arc::new(Object { name: format!("{name}.metadata"), fields: types }));
    fields.insert("metadata".to_owned(), Arc::new(Declared { fields: inside, ..Declared::scalar(type_of, 2) }));
}

impl Sizes for Declared {
    fn largest(&self, path: &[String]) -> Option<u64> {
        let mut at = self;
        for step in path {
            at = match step.as_str() {
                "@items" | "@values" => at.element()?,
                // Nothing bounds a key but the request, and Kubernetes does not count it.
                "@keys" if matches!(at.type_of, Type::Map(..)) => return Some(0),
                "@keys" | "@indices" => return None,
                field => at.field(field)?,
            };
        }
        Some(at.largest)
    }
}

fn unsigned(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or_default()
}

/// A character takes up to four bytes.
fn characters(limit: i64) -> u64 {
    unsigned(limit).saturating_mul(4)
}
