//! What events are about.

use k8s_openapi::api::core::v1::ObjectReference;
use pillion_api::names;
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_rightsize::PodView;

pub(crate) fn of_pod(pod: &PodView) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    }
}

pub(crate) fn of_autoscaler(autoscaler: &VerticalPodAutoscaler) -> ObjectReference {
    ObjectReference {
        api_version: Some(names::AUTOSCALING_V1.to_owned()),
        kind: Some(names::VPA_KIND.to_owned()),
        namespace: Some(autoscaler.namespace().to_owned()),
        name: Some(autoscaler.name().to_owned()),
        uid: autoscaler.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}
