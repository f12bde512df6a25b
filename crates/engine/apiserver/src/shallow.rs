//! An object as far as field selectors look: `spec.nodeName`, but nothing within lists or deeper objects.
//!
//! Every write is looked at by every watch that has a field selector, so most of an object is skipped instead of read.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads the fields of an object and of the objects in it; what is deeper, and every list, is null.
pub(crate) fn parse(bytes: &[u8]) -> serde_json::Result<Value> {
    Shallow { depth: 2 }.deserialize(&mut serde_json::Deserializer::from_slice(bytes))
}

struct Shallow {
    depth: u8,
}

impl<'de> DeserializeSeed<'de> for Shallow {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shallow {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let Some(depth) = self.depth.checked_sub(1) else {
            while access.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        };
        let mut fields = Map::new();
        while let Some(name) = access.next_key()? {
            fields.insert(name, access.next_value_seed(Shallow { depth })?);
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        while access.next_element::<IgnoredAny>()?.is_some() {}
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

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_deep_and_every_list_is_null() {
        let object = json!({
            "kind": "Pod",
            "metadata": {"name": "web", "labels": {"app": "web"}, "generation": 2},
            "spec": {"nodeName": "one", "hostNetwork": true, "containers": [{"name": "app"}]},
            "list": [1], "half": 0.5, "less": -1, "nothing": null,
        });
        let mut expected = object.clone();
        (expected["metadata"]["labels"], expected["spec"]["containers"]) = (Value::Null, Value::Null);
        expected["list"] = Value::Null;
        assert_eq!(parse(object.to_string().as_bytes()).unwrap(), expected);
    }
}
