//! What events of this node are about.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use pillion_events::reference;

pub(crate) fn pod(pod: &Pod) -> ObjectReference {
    reference(pod)
}

pub(crate) fn container(of: &Pod, name: &str) -> ObjectReference {
    let init = of.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten()).any(|one| one.name == name);
    let list = if init { "initContainers" } else { "containers" };
    ObjectReference { field_path: Some(format!("spec.{list}{{{name}}}")), ..pod(of) }
}

/// The node itself. Its uid is its name, as kubelets have it.
pub(crate) fn node(name: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("Node".into()),
        name: Some(name.to_owned()),
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

/// A pod as messages name it.
pub(crate) fn pod_name(pod: &Pod) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    format!("{}_{}({})", text(&pod.metadata.name), text(&pod.metadata.namespace), text(&pod.metadata.uid))
}
