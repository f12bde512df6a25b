//! JSON of which only a part is read: what is skipped takes neither time nor memory to speak of.
//!
//! ```
//! use pillion_partial::{Keep, Partial};
//!
//! const NAMES: Keep = Keep::Fields(&[("items", Keep::Fields(&[("name", Keep::All)]))]);
//! let text = br#"{"items": [{"name": "web", "data": [1, 2]}], "kind": "List"}"#;
//! let names = Partial(NAMES).parse(text)?;
//! assert_eq!(names, serde_json::json!({"items": [{"name": "web"}]}));
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::fmt;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Says what is read of a value.
pub trait Part: Copy {
    /// Whether all of the value is read.
    fn is_whole(self) -> bool {
        false
    }

    /// What is read of a field of this object. Without an answer the field is skipped.
    fn field(self, name: &str) -> Option<Self>;

    /// How many fields of this object are likely to be read.
    fn expected(self) -> usize {
        0
    }

    /// What is read of each item of this list.
    #[must_use]
    fn item(self) -> Self {
        self
    }

    /// Reads an object.
    ///
    /// # Errors
    /// Its text is no JSON.
    fn object<'de, A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        fields(self, entries)
    }

    /// Reads a list.
    ///
    /// # Errors
    /// Its text is no JSON.
    fn list<'de, A: SeqAccess<'de>>(self, items: A) -> Result<Value, A::Error> {
        self::items(self, items)
    }
}

/// Reads what the part has of the items of a list.
///
/// # Errors
/// Its text is no JSON.
pub fn items<'de, P: Part, A: SeqAccess<'de>>(part: P, mut items: A) -> Result<Value, A::Error> {
    let mut list = Vec::new();
    while let Some(item) = items.next_element_seed(Partial(part.item()))? {
        list.push(item);
    }
    Ok(Value::Array(list))
}

/// Reads the fields of an object that its part has.
///
/// # Errors
/// Its text is no JSON.
pub fn fields<'de, P: Part, A: MapAccess<'de>>(part: P, mut entries: A) -> Result<Value, A::Error> {
    let mut object = Map::with_capacity(part.expected());
    while let Some(field) = entries.next_key_seed(Field(part))? {
        match field {
            Some((name, part)) => _ = object.insert(name, entries.next_value_seed(Partial(part))?),
            None => _ = entries.next_value::<IgnoredAny>()?,
        }
    }
    Ok(Value::Object(object))
}

/// Reads the name of a field: what the part has of it, and no copy of a name that is skipped.
struct Field<P>(P);

impl<'de, P: Part> DeserializeSeed<'de> for Field<P> {
    type Value = Option<(String, P)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<P: Part> Visitor<'_> for Field<P> {
    type Value = Option<(String, P)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.field(name).map(|part| (name.to_owned(), part)))
    }
}

/// Reads a part of a value.
#[derive(Clone, Copy, Debug)]
pub struct Partial<P>(pub P);

impl<P: Part> Partial<P> {
    /// Reads it from a text.
    ///
    /// # Errors
    /// The text is no JSON.
    pub fn parse(self, bytes: &[u8]) -> serde_json::Result<Value> {
        self.deserialize(&mut serde_json::Deserializer::from_slice(bytes))
    }
}

impl<'de, P: Part> DeserializeSeed<'de> for Partial<P> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.0.is_whole() { Value::deserialize(deserializer) } else { deserializer.deserialize_any(self) }
    }
}

impl<'de, P: Part> Visitor<'de> for Partial<P> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Value, A::Error> {
        self.0.list(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Value, A::Error> {
        self.0.object(entries)
    }
}

/// A part that is known in advance.
#[derive(Clone, Copy, Debug)]
pub enum Keep {
    /// All of it.
    All,
    /// All of an object but this field.
    Without(&'static str),
    /// These fields of an object, or of each object of a list.
    Fields(&'static [(&'static str, Keep)]),
}

impl Part for Keep {
    fn is_whole(self) -> bool {
        matches!(self, Keep::All)
    }

    fn field(self, name: &str) -> Option<Keep> {
        match self {
            Keep::All => Some(Keep::All),
            Keep::Without(skipped) => (name != skipped).then_some(Keep::All),
            Keep::Fields(fields) => fields.iter().find(|(field, _)| *field == name).map(|(_, keep)| *keep),
        }
    }

    fn expected(self) -> usize {
        match self {
            Keep::Fields(fields) => fields.len(),
            Keep::All | Keep::Without(_) => 0,
        }
    }
}

/// The fields of an object, and of the objects in it as deep as this says. What is deeper, and every list, is null.
#[derive(Clone, Copy, Debug)]
pub struct Shallow(pub u8);

impl Part for Shallow {
    fn field(self, _: &str) -> Option<Shallow> {
        self.0.checked_sub(1).map(Shallow)
    }

    fn object<'de, A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        if self.0 == 0 {
            while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        }
        fields(self, entries)
    }

    fn list<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(part: impl Part, value: &Value) -> Value {
        Partial(part).parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_is_not_kept_is_skipped_at_every_level() {
        const KEEP: Keep = Keep::Fields(&[
            ("metadata", Keep::Without("managedFields")),
            ("spec", Keep::Fields(&[("list", Keep::Fields(&[("a", Keep::All)])), ("n", Keep::Fields(&[]))])),
        ]);
        let object = json!({
            "metadata": {"name": "x", "managedFields": [{"a": 1}], "labels": {"a": "b"}},
            "spec": {"list": [{"a": {"b": [1, -1, 1.5, null, true]}, "c": 2}, 5, "s"], "n": -1, "other": {}},
            "status": {},
        });
        let expected = json!({
            "metadata": {"name": "x", "labels": {"a": "b"}},
            "spec": {"list": [{"a": {"b": [1, -1, 1.5, null, true]}}, 5, "s"], "n": -1},
        });
        assert_eq!(read(KEEP, &object), expected);
    }

    #[test]
    fn what_is_deep_and_every_list_is_null_in_a_shallow_object() {
        let object = json!({
            "kind": "Pod",
            "metadata": {"name": "web", "labels": {"app": "web"}, "generation": 2},
            "spec": {"nodeName": "one", "hostNetwork": true, "containers": [{"name": "app"}]},
            "list": [1], "half": 0.5, "less": -1, "nothing": null,
        });
        let mut expected = object.clone();
        (expected["metadata"]["labels"], expected["spec"]["containers"]) = (Value::Null, Value::Null);
        expected["list"] = Value::Null;
        assert_eq!(read(Shallow(2), &object), expected);
    }
}
