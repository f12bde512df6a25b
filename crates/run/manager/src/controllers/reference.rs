//! What an event is about.

use k8s_openapi::api::core::v1::ObjectReference;
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use pillion_events::reference_to;

pub(crate) fn set(set: &SidecarSet) -> ObjectReference {
    reference_to(names::V1BETA1, names::SIDECARSET_KIND, None, set.name(), set.metadata.uid.as_deref())
}

pub(crate) fn pod(namespace: &str, name: &str, uid: &str) -> ObjectReference {
    reference_to("v1", "Pod", Some(namespace), name, Some(uid))
}
