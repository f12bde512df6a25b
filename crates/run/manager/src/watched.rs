//! Objects as a watch reads them: as JSON, without the parts that nobody looks at.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::{ApiResource, DynamicObject, DynamicResourceScope};
pub(crate) use pillion_patch::partial::Keep;
use pillion_patch::partial::Partial;
use serde::de::{DeserializeSeed as _, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

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
        let value = Partial(K::KEEP).deserialize(deserializer)?;
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

#[cfg(test)]
mod tests {
    use kube::Resource as _;
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug)]
    struct Thing;

    impl Kind for Thing {
        const KEEP: Keep = Keep::Fields(&[("metadata", Keep::Without("managedFields"))]);
    }

    #[test]
    fn the_metadata_that_a_cache_needs_is_there() {
        let text = json!({
            "metadata": {"name": "x", "uid": "1", "resourceVersion": "7", "managedFields": [{"a": 1}], "ownerReferences": [{"uid": "2", "controller": true}]},
            "status": {},
        })
        .to_string();
        let watched: Watched<Thing> = serde_json::from_str(&text).unwrap();
        assert!(watched.value["metadata"]["managedFields"].is_null() && watched.value["status"].is_null());
        let metadata = watched.meta();
        assert_eq!((metadata.name.as_deref(), metadata.resource_version.as_deref()), (Some("x"), Some("7")));
        assert_eq!(metadata.owner_references.as_ref().unwrap()[0].uid, "2");
        assert!(serde_json::from_str::<Watched<Thing>>("[]").is_err());
    }
}
