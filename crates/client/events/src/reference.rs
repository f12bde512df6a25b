//! What an event is about.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Resource, ResourceExt as _};

/// An object as it was read.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: object.namespace(),
        name: Some(object.name_any()),
        uid: object.uid(),
        resource_version: object.resource_version(),
        field_path: None,
    }
}

/// An object by name.
pub fn reference_to(
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
    name: &str,
    uid: Option<&str>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(api_version.to_owned()),
        kind: Some(kind.to_owned()),
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        uid: uid.map(str::to_owned),
        ..ObjectReference::default()
    }
}
