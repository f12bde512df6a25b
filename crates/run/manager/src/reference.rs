//! What an event is about.

use k8s_openapi::api::core::v1::ObjectReference;
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;

/// A SidecarSet.
pub(crate) fn set(set: &SidecarSet) -> ObjectReference {
    ObjectReference {
        api_version: Some(names::V1BETA1.to_owned()),
        kind: Some(names::SIDECARSET_KIND.to_owned()),
        name: Some(set.name().to_owned()),
        uid: set.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// A pod.
pub(crate) fn pod(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
