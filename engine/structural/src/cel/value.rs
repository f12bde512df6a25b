//! Values of expressions. JSON is not converted: lists and maps are views on it, read through the schema that says what its text means.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use pillion_quantity::Quantity;
use serde_json::Value as Json;

use super::base64::decode_base64;
use super::cidr::Cidr;
use super::fault::Fault;
use super::named_format::NamedFormat;
use super::semver::Semver;
use super::time::{Time, parse_timestamp};
use crate::escape;
use crate::format::Format;
use crate::go_url::Url;
use crate::schema::Schema;

#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Time),
    /// In nanoseconds.
    Duration(i64),
    List(List<'a>),
    Map(Map<'a>),
    Type(&'static str),
    Optional(Option<Arc<Value<'a>>>),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Quantity(Arc<Quantity>),
    Semver(Arc<Semver>),
    Format(NamedFormat),
    /// A step of an authorization check, by the name of its type. Everything is allowed.
    Authorization(&'static str),
}

/// Text that is borrowed or shared.
#[derive(Clone, Debug)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

/// A list: JSON with the schema of the list, or made by the expression.
#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Json(&'a [Json], Option<&'a Schema>),
    /// With the schema of the list whose items it has, if there is one.
    Owned(Arc<Vec<Value<'a>>>, Option<&'a Schema>),
}

/// A map or an object: JSON with its schema, or made by the expression.
#[derive(Clone, Debug)]
pub(crate) enum Map<'a> {
    Json(&'a serde_json::Map<String, Json>, Option<&'a Schema>),
    Owned(Arc<BTreeMap<Key, (Value<'a>, Value<'a>)>>),
}

/// A key of a map. Numbers are one kind: `1`, `1u` and `1.0` are the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Number(i128),
    Text(String),
}

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl AsRef<str>) -> Value<'a> {
        Value::String(Text::Shared(text.as_ref().into()))
    }

    pub(crate) fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::Owned(Arc::new(items), None))
    }

    pub(crate) fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    /// JSON as it is, or as its schema says.
    ///
    /// # Errors
    /// Text that does not have the format that its schema says.
    pub(crate) fn of(json: &'a Json, schema: Option<&'a Schema>) -> Result<Value<'a>, Fault> {
        if let Some(schema) = schema {
            check_data(json, schema)?;
        }
        Ok(match json {
            Json::Null => Value::Null,
            Json::Bool(bool) => Value::Bool(*bool),
            Json::Number(number) => match (number.as_i64(), schema.map(|schema| schema.kind.as_str())) {
                (Some(int), Some("number")) => Value::Double(int_to_double(int)),
                (Some(int), _) => Value::Int(int),
                (None, Some("integer")) => number.as_f64().map(truncate).map_or(Value::Null, Value::Int),
                (None, _) => number.as_f64().map_or(Value::Null, Value::Double),
            },
            Json::String(text) => Value::of_text(text, schema)?,
            Json::Array(items) => Value::List(List::Json(items, schema)),
            Json::Object(entries) => Value::Map(Map::Json(entries, schema)),
        })
    }

    fn of_text(text: &'a str, schema: Option<&'a Schema>) -> Result<Value<'a>, Fault> {
        let Some(Schema { format: Some(format), kind, .. }) = schema.filter(|schema| !schema.int_or_string) else {
            return Ok(Value::String(Text::Borrowed(text)));
        };
        if kind != "string" {
            return Ok(Value::String(Text::Borrowed(text)));
        }
        Ok(match format {
            Format::Duration => match crate::go_duration::parse(text) {
                Some(nanoseconds) => Value::Duration(nanoseconds),
                None => return Err(Fault::error(format!("Invalid duration {text}"))),
            },
            Format::DateTime => match parse_timestamp(text) {
                Some(time) => Value::Timestamp(time),
                None => return Err(Fault::error(format!("Invalid date {text}"))),
            },
            Format::Date => match parse_timestamp(&format!("{text}T00:00:00Z")) {
                Some(time) => Value::Timestamp(time),
                None => return Err(Fault::error(format!("Invalid date {text}"))),
            },
            Format::Byte => match decode_base64(text) {
                Some(bytes) => Value::Bytes(bytes.into()),
                None => return Err(Fault::error(format!("failed to decode base64 string: {text}"))),
            },
            _ => Value::String(Text::Borrowed(text)),
        })
    }

    /// The name of its type, as `type()` gives it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Url(_) => "kubernetes.URL",
            Value::Ip(_) => "net.IP",
            Value::Cidr(_) => "net.CIDR",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Authorization(name) => name,
        }
    }

    /// How large it is, for the cost of working on it.
    pub(crate) fn size(&self) -> u64 {
        let size = match self {
            Value::String(text) => text.chars().count(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            Value::Optional(Some(value)) => return value.size(),
            Value::Cidr(cidr) => usize::from(cidr.bits.div_ceil(8)),
            _ => 1,
        };
        u64::try_from(size).unwrap_or(u64::MAX)
    }

    /// Whether both are the same. Numbers of different types are compared as numbers.
    ///
    /// # Errors
    /// Text that does not have the format that its schema says.
    pub(crate) fn equals(&self, other: &Value<'a>) -> Result<bool, Fault> {
        Ok(match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => **a == **b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a.at == b.at,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::List(a), Value::List(b)) => return a.equals(b),
            (Value::Map(a), Value::Map(b)) => return a.equals(b),
            (Value::Type(a), Value::Type(b)) | (Value::Authorization(a), Value::Authorization(b)) => a == b,
            (Value::Optional(a), Value::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => return a.equals(b),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Value::Url(a), Value::Url(b)) => a.text == b.text,
            (Value::Ip(a), Value::Ip(b)) => a == b,
            (Value::Cidr(a), Value::Cidr(b)) => a == b,
            (Value::Quantity(a), Value::Quantity(b)) => a.cmp(b) == Ordering::Equal,
            (Value::Semver(a), Value::Semver(b)) => a.compare(b) == Ordering::Equal,
            (Value::Format(a), Value::Format(b)) => a == b,
            _ => matches!(self.compare_numbers(other), Ok(Ordering::Equal)),
        })
    }

    /// The order of two numbers.
    fn compare_numbers(&self, other: &Value<'a>) -> Result<Ordering, Fault> {
        let whole = |value: &Value<'a>| match value {
            Value::Int(int) => Ok(i128::from(*int)),
            Value::Uint(uint) => Ok(i128::from(*uint)),
            _ => Err(Fault::no_such_overload()),
        };
        let order = match (self, other) {
            (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
            (Value::Double(a), b) => compare_double(*a, whole(b)?),
            (a, Value::Double(b)) => compare_double(*b, whole(a)?).map(Ordering::reverse),
            (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
        };
        order.ok_or_else(|| Fault::error("NaN values cannot be ordered"))
    }

    /// The order of two values.
    ///
    /// # Errors
    /// They have none.
    pub(crate) fn compare(&self, other: &Value<'a>) -> Result<Ordering, Fault> {
        Ok(match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Timestamp(a), Value::Timestamp(b)) => a.at.cmp(&b.at),
            (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
            _ => return self.compare_numbers(other),
        })
    }

    /// As a key of a map.
    pub(crate) fn key(&self) -> Option<Key> {
        Some(match self {
            Value::Bool(bool) => Key::Bool(*bool),
            Value::Int(int) => Key::Number((*int).into()),
            Value::Uint(uint) => Key::Number((*uint).into()),
            Value::Double(double) if double.fract() == 0.0 => Key::Number(truncate(*double).into()),
            Value::String(text) => Key::Text(text.to_string()),
            _ => return None,
        })
    }

    /// Whether it is what its type starts with: empty, zero, none.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Value::Null
            | Value::Bool(false)
            | Value::Int(0)
            | Value::Uint(0)
            | Value::Duration(0)
            | Value::Optional(None) => true,
            Value::Double(double) => *double == 0.0,
            // The first second of the first year, which is where Go's time begins.
            Value::Timestamp(time) => time.at.as_second() == -62_135_596_800,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::List(list) => list.len() == 0,
            Value::Map(map) => map.len() == 0,
            _ => false,
        }
    }
}

/// Data of the wrong type can be there only where it was before, and an update is not held against it.
fn check_data(json: &Json, schema: &Schema) -> Result<(), Fault> {
    let wrong = match (json, schema.kind.as_str()) {
        (Json::Null, _) if schema.nullable => return Ok(()),
        (Json::Null, _) => "got null for schema with nullable=false",
        (Json::String(_) | Json::Number(_), _) if schema.int_or_string => return Ok(()),
        _ if schema.int_or_string => "expected XIntOrString value to be either a string or integer",
        (Json::Object(_), "object")
        | (Json::Array(_), "array")
        | (Json::String(_), "string")
        | (Json::Number(_), "integer" | "number")
        | (Json::Bool(_), "boolean") => return Ok(()),
        (_, "object") => "expected a map for the provided schema with type=object",
        (_, "array") => "expected an array for the provided schema with type=array",
        (other, kind) => {
            let wanted = match kind {
                "string" => "string",
                "integer" => "int",
                "number" => "float",
                "boolean" => "bool",
                _ => return Ok(()),
            };
            return Err(Fault::error(format!("invalid data, expected {wanted}, got {}", go_type(other))));
        }
    };
    Err(Fault::error(format!("invalid data, {wrong}")))
}

fn go_type(json: &Json) -> &'static str {
    match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.as_i64().is_some() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

/// A float cut to an integer.
#[allow(clippy::cast_possible_truncation, reason = "as Go converts a float to an integer")]
pub(super) fn truncate(double: f64) -> i64 {
    double as i64
}

#[allow(clippy::cast_precision_loss, reason = "as Go converts an integer to a float")]
pub(super) fn int_to_double(int: i64) -> f64 {
    int as f64
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "the double is in the range of the integer"
)]
fn compare_double(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 1e30 {
        return Some(if double > 0.0 { Ordering::Greater } else { Ordering::Less });
    }
    let floor = double.floor() as i128;
    Some(floor.cmp(&whole).then(if double.fract() == 0.0 { Ordering::Equal } else { Ordering::Greater }))
}

impl<'a> List<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            List::Json(items, _) => items.len(),
            List::Owned(items, _) => items.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Result<Option<Value<'a>>, Fault> {
        match self {
            List::Json(items, schema) => items
                .get(index)
                .map(|item| Value::of(item, schema.and_then(|schema| schema.items.as_deref())))
                .transpose(),
            List::Owned(items, _) => Ok(items.get(index).cloned()),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, Fault>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index).transpose())
    }

    pub(crate) fn contains(&self, wanted: &Value<'a>) -> Result<bool, Fault> {
        for item in self.iter() {
            if item?.equals(wanted)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The schema of a list in which order does not count.
    fn unordered(&self) -> Option<&'a Schema> {
        match self {
            List::Json(_, Some(schema)) | List::Owned(_, Some(schema))
                if schema.is_list_type("set") || schema.is_list_type("map") =>
            {
                Some(schema)
            }
            _ => None,
        }
    }

    pub(crate) fn equals(&self, other: &List<'a>) -> Result<bool, Fault> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if self.unordered().is_some() {
            for item in self.iter() {
                if !other.contains(&item?)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        for (a, b) in self.iter().zip(other.iter()) {
            if !a?.equals(&b?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Both, one after the other. Sets and maps take in what is new; a map takes the later of two items with the same keys.
    pub(crate) fn concat(self, other: &List<'a>) -> Result<List<'a>, Fault> {
        let schema = self.unordered();
        let mut items = match self {
            List::Owned(items, _) => items,
            json @ List::Json(..) => Arc::new(json.iter().collect::<Result<Vec<_>, _>>()?),
        };
        let into = Arc::make_mut(&mut items);
        for item in other.iter() {
            let item = item?;
            let known = match schema {
                None => None,
                Some(schema) => position(into, &item, schema)?,
            };
            match known.and_then(|index| into.get_mut(index)) {
                Some(known) => *known = item,
                None => into.push(item),
            }
        }
        Ok(List::Owned(items, schema))
    }
}

/// Where the item of a set, or that with the keys of a map's item, is.
fn position<'a>(items: &[Value<'a>], item: &Value<'a>, schema: &Schema) -> Result<Option<usize>, Fault> {
    for (index, known) in items.iter().enumerate() {
        let same = match (known, item) {
            (Value::Map(known), Value::Map(item)) if schema.is_list_type("map") => {
                let mut same = true;
                for key in &schema.list_map_keys {
                    same &= match (known.field(key)?, item.field(key)?) {
                        (Some(a), Some(b)) => a.equals(&b)?,
                        (a, b) => a.is_none() && b.is_none(),
                    };
                }
                same
            }
            _ => known.equals(item)?,
        };
        if same {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

impl<'a> Map<'a> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Map::Json(entries, _) => entries.len(),
            Map::Owned(entries) => entries.len(),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Result<Option<Value<'a>>, Fault> {
        match (self, key) {
            (Map::Json(entries, schema), Key::Text(key)) => {
                let field = schema.and_then(|schema| schema.field(key));
                // A property that is null counts as missing.
                let is_property = schema.is_some_and(|schema| schema.properties.contains_key(key));
                let is_missing = |value: &&Json| value.is_null() && is_property;
                entries
                    .get(key.as_str())
                    .filter(|value| !is_missing(value))
                    .map(|value| Value::of(value, field))
                    .transpose()
            }
            (Map::Json(..), _) => Ok(None),
            (Map::Owned(entries), key) => Ok(entries.get(key).map(|(_, value)| value.clone())),
        }
    }

    /// The field that an expression names. Names of properties that are no identifiers are escaped in expressions.
    pub(crate) fn field(&self, name: &str) -> Result<Option<Value<'a>>, Fault> {
        match self {
            Map::Json(_, Some(schema)) if !schema.properties.is_empty() && name.contains("__") => {
                self.get(&Key::Text(escape::unescape(name)))
            }
            _ => self.get(&Key::Text(name.to_owned())),
        }
    }

    /// Keys with their values; in the order of the keys.
    pub(crate) fn entries(&self) -> Result<Vec<(Value<'a>, Value<'a>)>, Fault> {
        match self {
            Map::Json(entries, schema) => {
                let mut found: Vec<(&'a String, &'a Json)> = entries.iter().collect();
                found.sort_by_key(|(key, _)| *key);
                found
                    .into_iter()
                    .map(|(key, value)| {
                        let value = Value::of(value, schema.and_then(|schema| schema.field(key)))?;
                        Ok((Value::String(Text::Borrowed(key)), value))
                    })
                    .collect()
            }
            Map::Owned(entries) => Ok(entries.values().cloned().collect()),
        }
    }

    pub(crate) fn equals(&self, other: &Map<'a>) -> Result<bool, Fault> {
        if self.len() != other.len() {
            return Ok(false);
        }
        for (key, value) in self.entries()? {
            let same = match key.key().map(|key| other.get(&key)).transpose()?.flatten() {
                Some(found) => value.equals(&found)?,
                None => false,
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
