//! What events are about.

use k8s_openapi::api::core::v1::ObjectReference;
use pillion_api::names;
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_events::reference_to;
use pillion_informer::NamespacedName;
use pillion_rightsize::PodView;

pub fn pod_reference(pod: &PodView) -> ObjectReference {
    reference_to("v1", "Pod", Some(&pod.namespace), &pod.name, Some(&pod.uid))
}

pub(crate) fn of_autoscaler(autoscaler: &VerticalPodAutoscaler) -> ObjectReference {
    let (namespace, uid) = (Some(autoscaler.namespace()), autoscaler.metadata.uid.as_deref());
    reference_to(names::AUTOSCALING_V1, names::VPA_KIND, namespace, autoscaler.name(), uid)
}

pub(crate) fn name_of(autoscaler: &VerticalPodAutoscaler) -> NamespacedName {
    NamespacedName::new(autoscaler.namespace(), autoscaler.name())
}
