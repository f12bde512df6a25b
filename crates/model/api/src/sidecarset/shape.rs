//! What the fields of a SidecarSet are: one table for type errors, unknown fields, and the text that is hashed.
//!
//! ```text
//!             ┌─▶ check          every value of the wrong type, with its path
//!  tables ────┼─▶ normalise      null fields go, whole numbers are integers
//!             ├─▶ unknown_fields misspelt fields, with the likely name
//!             └─▶ go_json        the text that Kruise would hash
//! ```
//!
//! A field that no table knows belongs to a newer Kubernetes or is a mistake: it is kept, and reported when asked.

use std::borrow::Cow;

use jiff::Timestamp;
use pillion_quantity::Quantity;
use serde_json::{Map, Value};

use crate::field::{Error, Path};
use crate::one_of::one_of;

mod container;
mod meta;
mod set;
mod volume;

pub(super) use container::CONTAINER;
#[cfg(test)]
pub(super) use set::SIDECAR_CONTAINER;
pub(super) use set::{SPEC, V1ALPHA1, V1BETA1};
pub(super) use volume::VOLUME;

/// The fields of one kind of object, in the order in which Go declares them.
pub(super) struct Shape {
    /// An object whose fields come first (Go's embedded struct); it has no base itself.
    base: Option<&'static Shape>,
    own: &'static [Field],
}

/// One field of an object.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) written: Written,
}

/// What a value is.
pub(super) enum Kind {
    String,
    /// A string that is one of these. Another string may be of a newer version: validation says what becomes of it.
    Name(&'static [&'static str]),
    Bool,
    Int32,
    Int64,
    IntOrString,
    Quantity,
    Time,
    Any,
    Object(&'static Shape),
    List(&'static Kind),
    Map(&'static Kind),
}

/// When Go's JSON has the field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// When it is not the zero of its type (`omitempty` of a value).
    UnlessEmpty,
    /// When it was given, be it zero (`omitempty` of a pointer).
    IfSet,
    /// Always (a value without `omitempty`, and every struct).
    Always,
    /// Always, and `null` when it was not given (a pointer, list or time that cannot be left out).
    OrNull,
    /// Never: Kruise's libraries do not know it. It is ours, or of a newer Kubernetes.
    Later,
}

const STRINGS: Kind = Kind::List(&Kind::String);
const STRING_MAP: Kind = Kind::Map(&Kind::String);
const QUANTITIES: Kind = Kind::Map(&Kind::Quantity);

const fn unless_empty(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, written: Written::UnlessEmpty }
}

const fn if_set(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, written: Written::IfSet }
}

const fn always(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, written: Written::Always }
}

const fn or_null(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, written: Written::OrNull }
}

const fn later(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, written: Written::Later }
}

impl Shape {
    const fn new(own: &'static [Field]) -> Shape {
        Shape { base: None, own }
    }

    const fn over(base: &'static Shape, own: &'static [Field]) -> Shape {
        Shape { base: Some(base), own }
    }

    /// Every field, those of the base first.
    pub(super) fn fields(&'static self) -> impl Iterator<Item = &'static Field> {
        self.base.into_iter().flat_map(|base| base.own).chain(self.own)
    }

    /// The fields that the base does not have.
    #[cfg(test)]
    pub(super) fn own_fields(&'static self) -> &'static [Field] {
        self.own
    }

    /// The field called `name`.
    pub(super) fn field(&'static self, name: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.name == name)
    }

    /// Every value of the wrong type. A field that is `null` counts as absent, as in Go.
    pub(super) fn check(&'static self, object: &Value) -> Vec<Error> {
        let mut errors = Vec::new();
        Kind::Object(self).check(object, &Place::Path(&Path::root()), &mut errors);
        errors
    }

    /// Adds an error for every value of the wrong type in an object at `path`.
    pub(super) fn check_fields(&'static self, fields: &Map<String, Value>, path: &Path, errors: &mut Vec<Error>) {
        self.check_fields_at(fields, &Place::Path(path), errors);
    }

    fn check_fields_at(&'static self, fields: &Map<String, Value>, place: &Place<'_>, errors: &mut Vec<Error>) {
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            if let Some(field) = self.field(name) {
                field.kind.check(value, &Place::Field(place, name), errors);
            }
        }
    }

    /// Takes out known fields that are `null`, and writes whole numbers without a fraction.
    pub(super) fn normalise(&'static self, object: &mut Map<String, Value>) {
        object.retain(|name, value| !value.is_null() || self.field(name).is_none());
        for (name, value) in object {
            if let Some(field) = self.field(name) {
                field.kind.normalise(value);
            }
        }
    }
}

impl Kind {
    fn check(&self, value: &Value, place: &Place<'_>, errors: &mut Vec<Error>) {
        match (self, value) {
            (Kind::Object(shape), Value::Object(fields)) => shape.check_fields_at(fields, place, errors),
            (Kind::List(kind), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    kind.check(item, &Place::Index(place, index), errors);
                }
            }
            (Kind::Map(kind), Value::Object(entries)) => {
                for (key, value) in entries {
                    kind.check(value, &Place::Key(place, key), errors);
                }
            }
            (Kind::Quantity, Value::String(_) | Value::Number(_)) => {
                if let Err(error) = serde_json::from_value::<Quantity>(value.clone()) {
                    errors.push(Error::invalid(&place.path(), value.clone(), error.to_string()));
                }
            }
            _ if self.admits(value) => {}
            _ => errors.push(Error::type_invalid(&place.path(), shown(value), format!("must be {}", self.in_words()))),
        }
    }

    fn admits(&self, value: &Value) -> bool {
        match self {
            Kind::String | Kind::Name(_) => value.is_string(),
            Kind::Bool => value.is_boolean(),
            Kind::Int32 => integer(value).is_some_and(|number| i32::try_from(number).is_ok()),
            Kind::Int64 => integer(value).is_some(),
            Kind::IntOrString => Kind::String.admits(value) || Kind::Int32.admits(value),
            Kind::Time => value.as_str().is_some_and(|text| text.parse::<Timestamp>().is_ok()),
            Kind::Any => true,
            Kind::Quantity | Kind::Object(_) | Kind::List(_) | Kind::Map(_) => false,
        }
    }

    fn in_words(&self) -> Cow<'static, str> {
        let words = match self {
            Kind::String => "a string",
            Kind::Name(names) => return one_of(names).into(),
            Kind::Bool => "true or false",
            Kind::Int32 => "an integer of 32 bits",
            Kind::Int64 => "an integer",
            Kind::IntOrString => "an integer of 32 bits or a string",
            Kind::Quantity => "a quantity, such as \"500m\" or \"1Gi\"",
            Kind::Time => "a time, such as \"2006-01-02T15:04:05Z\"",
            Kind::Any => "anything",
            Kind::Object(_) => "an object",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        };
        words.into()
    }

    fn normalise(&self, value: &mut Value) {
        match (self, value) {
            (Kind::Object(shape), Value::Object(fields)) => shape.normalise(fields),
            (Kind::List(kind), Value::Array(items)) => items.iter_mut().for_each(|item| kind.normalise(item)),
            (Kind::Map(kind), Value::Object(entries)) => entries.values_mut().for_each(|value| kind.normalise(value)),
            (Kind::Int32 | Kind::Int64 | Kind::IntOrString, value) => {
                if let Some(number) = integer(value) {
                    *value = number.into();
                }
            }
            _ => {}
        }
    }
}

/// Where a value is. Most values are right, so the path is made only for an error.
enum Place<'a> {
    Path(&'a Path),
    Field(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
    Key(&'a Place<'a>, &'a str),
}

impl Place<'_> {
    fn path(&self) -> Path {
        match *self {
            Place::Path(path) => path.clone(),
            Place::Field(above, name) => above.path().child(name),
            Place::Index(above, index) => above.path().index(index),
            Place::Key(above, key) => above.path().key(key),
        }
    }
}

/// A JSON number that is whole, as YAML and scripts may write it: `80` or `80.0`.
fn integer(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 2f64.powi(63))?;
        #[expect(clippy::cast_possible_truncation, reason = "whole, and its size was checked")]
        Some(float as i64)
    })
}

/// The value for an error message; a big one is only named.
fn shown(value: &Value) -> Value {
    const LONGEST: usize = 80;
    match value {
        Value::Object(_) if value.to_string().len() > LONGEST => "object".into(),
        Value::Array(_) if value.to_string().len() > LONGEST => "array".into(),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_with_a_fraction_of_zero_is_an_integer() {
        let mut spec = serde_json::json!({"revisionHistoryLimit": 3.0, "containers": null, "unknown": null});
        SPEC.normalise(spec.as_object_mut().unwrap());
        assert_eq!(spec, serde_json::json!({"revisionHistoryLimit": 3, "unknown": null}));
        assert_eq!(integer(&2.5.into()), None);
        assert_eq!(integer(&1e19.into()), None);
    }
}

/// Compares the tables with the schemas of the types, which only the feature `schemas` has for Kubernetes' own: `cargo xtask test generated`.
#[cfg(all(test, feature = "schemas"))]
mod schema_tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::core::v1::{Container, Volume};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use schemars::JsonSchema;
    use schemars::generate::SchemaSettings;

    use super::*;

    fn schema_of<T: JsonSchema>() -> Value {
        let settings = SchemaSettings::openapi3().with(|settings| settings.inline_subschemas = true);
        settings.into_generator().into_root_schema_for::<T>().into()
    }

    /// Every path of a schema, such as `ports[].containerPort`.
    fn schema_paths(schema: &Value, at: &str, paths: &mut BTreeSet<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}.{name}");
            paths.insert(at.clone());
            schema_paths(property, &at, paths);
        }
        if let Some(items) = schema.get("items") {
            schema_paths(items, &format!("{at}[]"), paths);
        }
        for one in schema["allOf"].as_array().into_iter().flatten() {
            schema_paths(one, at, paths);
        }
    }

    fn shape_paths(kind: &Kind, at: &str, paths: &mut BTreeSet<String>) {
        match kind {
            Kind::Object(shape) => {
                for field in shape.fields() {
                    let at = format!("{at}.{}", field.name);
                    paths.insert(at.clone());
                    shape_paths(&field.kind, &at, paths);
                }
            }
            Kind::List(kind) => shape_paths(kind, &format!("{at}[]"), paths),
            _ => {}
        }
    }

    fn assert_same_fields<T: JsonSchema>(shape: &'static Shape) {
        let (mut expected, mut actual) = (BTreeSet::new(), BTreeSet::new());
        schema_paths(&schema_of::<T>(), "", &mut expected);
        shape_paths(&Kind::Object(shape), "", &mut actual);
        let missing: Vec<_> = expected.difference(&actual).collect();
        let invented: Vec<_> = actual.difference(&expected).collect();
        assert!(missing.is_empty() && invented.is_empty(), "missing {missing:?}, not in Kubernetes {invented:?}");
        assert!(!expected.is_empty(), "the schema was not read");
    }

    #[test]
    fn the_tables_have_every_field_of_kubernetes() {
        assert_same_fields::<Container>(&container::CONTAINER);
        assert_same_fields::<Volume>(&volume::VOLUME);
        assert_same_fields::<ObjectMeta>(&meta::OBJECT_META);
    }

    #[test]
    fn the_table_of_the_set_has_every_field_of_the_type() {
        assert_same_fields::<super::super::SidecarSetSpec>(&set::V1BETA1_SPEC);
        assert_same_fields::<super::super::SidecarSetStatus>(&set::STATUS);
    }
}
