//! JSON that is read as far as it has the expected types. Everything else counts as absent, and is skipped.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A text, a whole number, `true`, `false`, or nothing of these.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Scalar<'a> {
    #[default]
    Null,
    Bool(bool),
    Integer(i64),
    Text(Cow<'a, str>),
    Other,
}

impl Scalar<'_> {
    pub(super) fn text(&self) -> &str {
        if let Scalar::Text(text) = self { text } else { "" }
    }

    pub(super) fn integer(&self) -> Option<i64> {
        if let Scalar::Integer(integer) = self { Some(*integer) } else { None }
    }

    pub(super) fn is_true(&self) -> bool {
        *self == Scalar::Bool(true)
    }

    pub(super) fn is_null(&self) -> bool {
        *self == Scalar::Null
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar<'a>, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Integer(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar<'de>, E> {
        Ok(i64::try_from(value).map_or(Scalar::Other, Scalar::Integer))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Other)
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Scalar<'de>, A::Error> {
        IgnoredAny.visit_seq(items).map(|_| Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Scalar<'de>, A::Error> {
        IgnoredAny.visit_map(entries).map(|_| Scalar::Other)
    }
}

/// What is made of an object or of a list. Values of other types are its default.
trait Compound<'de>: Default {
    fn of_object<A: MapAccess<'de>>(entries: A) -> Result<Self, A::Error> {
        IgnoredAny.visit_map(entries).map(|_| Self::default())
    }

    fn of_list<A: SeqAccess<'de>>(items: A) -> Result<Self, A::Error> {
        IgnoredAny.visit_seq(items).map(|_| Self::default())
    }
}

struct CompoundVisitor<T>(PhantomData<T>);

impl<'de, T: Compound<'de>> CompoundVisitor<T> {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(CompoundVisitor(PhantomData))
    }
}

impl<'de, T: Compound<'de>> Visitor<'de> for CompoundVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<T, A::Error> {
        T::of_list(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<T, A::Error> {
        T::of_object(entries)
    }
}

#[derive(Debug, Default)]
pub(super) struct Object<T>(T);

impl<T> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de> + Default> Compound<'de> for Object<T> {
    fn of_object<A: MapAccess<'de>>(entries: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(entries)).map(Object)
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        CompoundVisitor::read(deserializer)
    }
}

#[derive(Debug)]
pub(super) struct List<T>(Vec<Object<T>>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<T> List<T> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(Deref::deref)
    }
}

impl<'de, T: Deserialize<'de> + Default> Compound<'de> for List<T> {
    fn of_list<A: SeqAccess<'de>>(mut items: A) -> Result<List<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(List(list))
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<List<T>, D::Error> {
        CompoundVisitor::read(deserializer)
    }
}

/// Texts by name.
#[derive(Debug, Default)]
pub(super) struct TextMap<'a>(Vec<(Cow<'a, str>, Scalar<'a>)>);

impl TextMap<'_> {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, text)| text)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, value)| match value {
            Scalar::Text(text) => Some((name.as_ref(), text.as_ref())),
            _ => None,
        })
    }
}

impl<'de> Compound<'de> for TextMap<'de> {
    fn of_object<A: MapAccess<'de>>(mut entries: A) -> Result<TextMap<'de>, A::Error> {
        let mut texts = Vec::new();
        while let Some((key, value)) = entries.next_entry::<Scalar<'de>, Scalar<'de>>()? {
            if let Scalar::Text(key) = key {
                texts.push((key, value));
            }
        }
        Ok(TextMap(texts))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TextMap<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextMap<'a>, D::Error> {
        CompoundVisitor::<TextMap<'de>>::read(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Default, serde::Deserialize)]
    #[serde(default)]
    struct Thing<'a> {
        #[serde(borrow)]
        text: Scalar<'a>,
        number: Scalar<'a>,
        #[serde(borrow)]
        labels: TextMap<'a>,
        #[serde(borrow)]
        things: List<Thing<'a>>,
    }

    #[test]
    fn what_has_the_wrong_type_counts_as_absent_wherever_it_comes_from() {
        let others = [
            json!(null),
            json!(true),
            json!(-1),
            json!(u64::MAX),
            json!(0.5),
            json!("x"),
            json!([[1], {"a": 2}]),
            json!({"a": [1]}),
        ];
        for other in &others {
            let value = json!({"text": other, "number": other, "labels": other, "things": other, "else": other});
            for read in
                [Object::<Thing<'_>>::deserialize(&value).unwrap(), serde_json::from_str(&value.to_string()).unwrap()]
            {
                assert_eq!(read.text.text(), other.as_str().unwrap_or_default());
                assert_eq!(read.number.integer(), other.as_i64());
                assert_eq!(read.text.is_null(), other.is_null());
                assert_eq!(read.text.is_true(), *other == Value::Bool(true));
                assert_eq!(read.labels.iter().count(), 0, "{other}");
                assert_eq!(read.things.len(), other.as_array().map_or(0, Vec::len), "{other}");
            }
            assert!(Object::<Thing<'_>>::deserialize(other).is_ok());
        }
    }

    #[test]
    fn texts_are_found_by_name_and_escaped_ones_too() {
        let text = r#"{"labels": {"a\"b": "c\n", "d": 5, "e": "f"}, "things": [{"text": "x"}]}"#;
        let read: Thing<'_> = serde_json::from_str(text).unwrap();
        assert_eq!(read.labels.iter().collect::<Vec<_>>(), [("a\"b", "c\n"), ("e", "f")]);
        assert_eq!((read.labels.get("e"), read.labels.get("d")), (Some("f"), None));
        assert_eq!(read.things.iter().next().unwrap().text, Scalar::Text("x".into()));
    }
}
