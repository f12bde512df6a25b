//! The resources that are read and written.

use kube::core::{ApiResource, GroupVersionKind};
use pillion_api::names;

/// VerticalPodAutoscalers.
pub fn autoscalers() -> ApiResource {
    resource(names::VPA_KIND, "verticalpodautoscalers")
}

/// Their checkpoints.
pub fn checkpoints() -> ApiResource {
    resource(names::VPA_CHECKPOINT_KIND, "verticalpodautoscalercheckpoints")
}

fn resource(kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(names::AUTOSCALING_GROUP, "v1", kind), plural)
}
