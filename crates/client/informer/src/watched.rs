//! Objects as a watch reads them: without the parts that nobody looks at.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::{ApiResource, DynamicObject, DynamicResourceScope};
use pillion_partial::{Keep, Partial};
use serde::de::{DeserializeSeed as _, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A kind of object, and what is read of it.
pub trait Kind: Clone + fmt::Debug + Send + Sync + 'static {
    /// What is read of an object.
    type Read: Clone + fmt::Debug + Send + Sync + 'static;

    /// Reads an object from its text: its metadata as far as a cache needs it, and what else is read.
    ///
    /// # Errors
    /// The text is not an object of this kind.
    fn read<'de, D: Deserializer<'de>>(text: D) -> Result<(ObjectMeta, Self::Read), D::Error>;
}

/// An object with what is read of it. It is moved often until it is in a cache, and so is small.
#[derive(Clone, Debug)]
pub struct Watched<K: Kind>(Box<(ObjectMeta, K::Read)>);

impl<K: Kind> Watched<K> {
    /// The same of an object that a write was answered with.
    pub fn of(object: &DynamicObject) -> Option<Watched<K>> {
        serde_json::from_str(&serde_json::to_string(object).ok()?).ok()
    }

    pub fn into_read(self) -> K::Read {
        self.0.1
    }
}

impl<'de, K: Kind> Deserialize<'de> for Watched<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Watched<K>, D::Error> {
        Ok(Watched(Box::new(K::read(deserializer)?)))
    }
}

/// Reads a part of an object, and the metadata that is in it.
///
/// # Errors
/// The text is not an object.
pub fn part<'de, D: Deserializer<'de>>(keep: Keep, deserializer: D) -> Result<(ObjectMeta, Value), D::Error> {
    let value = Partial(keep).deserialize(deserializer)?;
    if !value.is_object() {
        return Err(D::Error::custom("this is not an object"));
    }
    Ok((metadata(&value["metadata"]), value))
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
        &self.0.0
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.0
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
        type Read = Value;

        fn read<'de, D: Deserializer<'de>>(text: D) -> Result<(ObjectMeta, Value), D::Error> {
            part(Keep::Fields(&[("metadata", Keep::Without("managedFields"))]), text)
        }
    }

    #[test]
    fn the_metadata_that_a_cache_needs_is_there() {
        let text = json!({
            "metadata": {"name": "x", "uid": "1", "resourceVersion": "7", "managedFields": [{"a": 1}], "ownerReferences": [{"uid": "2", "controller": true}]},
            "status": {},
        })
        .to_string();
        let watched: Watched<Thing> = serde_json::from_str(&text).unwrap();
        let metadata = watched.meta();
        assert_eq!((metadata.name.as_deref(), metadata.resource_version.as_deref()), (Some("x"), Some("7")));
        assert_eq!(metadata.owner_references.as_ref().unwrap()[0].uid, "2");
        let value = watched.into_read();
        assert!(value["metadata"]["managedFields"].is_null() && value["status"].is_null());
        assert!(serde_json::from_str::<Watched<Thing>>("[]").is_err());
    }
}
