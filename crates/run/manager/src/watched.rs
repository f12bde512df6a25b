//! Objects as a watch reads them: as JSON, without the parts that nobody looks at.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::{ApiResource, DynamicObject, DynamicResourceScope};
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// What is read of a value. What is not read is skipped, and takes neither time nor memory to speak of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    /// All of it.
    All,
    /// All of an object but this field.
    Without(&'static str),
    /// These fields of an object, or of each object of a list.
    Fields(&'static [(&'static str, Keep)]),
}

impl Keep {
    fn field(self, name: &str) -> Option<Keep> {
        match self {
            Keep::All => Some(Keep::All),
            Keep::Without(skipped) => (name != skipped).then_some(Keep::All),
            Keep::Fields(fields) => fields.iter().find(|(field, _)| *field == name).map(|(_, keep)| *keep),
        }
    }
}

/// A kind of object, and what is read of it.
pub(crate) trait Kind: Clone + fmt::Debug + Send + Sync + 'static {
    const KEEP: Keep;
}

/// An object with what is read of it.
#[derive(Clone, Debug)]
pub(crate) struct Watched<K> {
    /// Only what a cache needs: names, version and owners.
    metadata: ObjectMeta,
    /// The object.
    pub(crate) value: Value,
    kind: PhantomData<K>,
}

impl<K: Kind> Watched<K> {
    /// The same of an object that a write was answered with.
    pub(crate) fn of(object: &DynamicObject) -> Option<Watched<K>> {
        Watched::deserialize(serde_json::to_value(object).ok()?).ok()
    }
}

impl<'de, K: Kind> Deserialize<'de> for Watched<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Watched<K>, D::Error> {
        let value = K::KEEP.deserialize(deserializer)?;
        if !value.is_object() {
            return Err(D::Error::custom("this is not an object"));
        }
        Ok(Watched { metadata: metadata(&value["metadata"]), value, kind: PhantomData })
    }
}

fn metadata(value: &Value) -> ObjectMeta {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let owner = |owner: &Value| OwnerReference {
        uid: text(&owner["uid"]).unwrap_or_default(),
        controller: owner["controller"].as_bool(),
        ..OwnerReference::default()
    };
    ObjectMeta {
        name: text(&value["name"]),
        namespace: text(&value["namespace"]),
        uid: text(&value["uid"]),
        resource_version: text(&value["resourceVersion"]),
        owner_references: value["ownerReferences"].as_array().map(|owners| owners.iter().map(owner).collect()),
        ..ObjectMeta::default()
    }
}

impl<K: Kind> kube::Resource for Watched<K> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<'de> DeserializeSeed<'de> for Keep {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self {
            Keep::All => Value::deserialize(deserializer),
            keep => deserializer.deserialize_any(keep),
        }
    }
}

impl<'de> Visitor<'de> for Keep {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<Cow<'de, str>>()? {
            match self.field(&key) {
                Some(keep) => _ = object.insert(key.into_owned(), entries.next_value_seed(keep)?),
                None => _ = entries.next_value::<IgnoredAny>()?,
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use kube::Resource as _;
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug)]
    struct Thing;

    impl Kind for Thing {
        const KEEP: Keep = Keep::Fields(&[
            ("metadata", Keep::Without("managedFields")),
            ("spec", Keep::Fields(&[("list", Keep::Fields(&[("a", Keep::All)])), ("n", Keep::Fields(&[]))])),
        ]);
    }

    #[test]
    fn what_is_not_kept_is_skipped_at_every_level() {
        let text = json!({
            "metadata": {"name": "x", "uid": "1", "resourceVersion": "7", "managedFields": [{"a": 1}], "labels": {"a": "b"}, "ownerReferences": [{"uid": "2", "controller": true}]},
            "spec": {"list": [{"a": {"b": [1, -1, 1.5, null, true]}, "c": 2}, 5, "s"], "n": -1, "other": {}},
            "status": {},
        })
        .to_string();
        let watched: Watched<Thing> = serde_json::from_str(&text).unwrap();
        assert_eq!(
            watched.value,
            json!({
                "metadata": {"name": "x", "uid": "1", "resourceVersion": "7", "labels": {"a": "b"}, "ownerReferences": [{"uid": "2", "controller": true}]},
                "spec": {"list": [{"a": {"b": [1, -1, 1.5, null, true]}}, 5, "s"], "n": -1},
            })
        );
        let metadata = watched.meta();
        assert_eq!((metadata.name.as_deref(), metadata.resource_version.as_deref()), (Some("x"), Some("7")));
        assert_eq!(metadata.owner_references.as_ref().unwrap()[0].uid, "2");
        assert!(serde_json::from_str::<Watched<Thing>>("[]").is_err());
    }
}
