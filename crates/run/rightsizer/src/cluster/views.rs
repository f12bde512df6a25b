//! What is kept of autoscalers and LimitRanges.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use pillion_api::names;
use pillion_api::vpa::{self, VerticalPodAutoscaler};
use pillion_rightsize::keep_recommenders;
use serde_json::Value;

/// An autoscaler, without the fields that are not used. It keeps its `resourceVersion`, for writes that must not undo another one.
#[derive(Debug)]
pub struct AutoscalerView(pub Arc<VerticalPodAutoscaler>);

impl pillion_informer::View for AutoscalerView {
    type Object = DynamicObject;

    /// `None` for one that cannot be read: it was stored while no webhook checked it.
    fn of(object: DynamicObject) -> Option<AutoscalerView> {
        let name = object.name_any();
        let mut value = serde_json::to_value(object).ok()?;
        value["apiVersion"] = names::AUTOSCALING_V1.into();
        value["kind"] = names::VPA_KIND.into();
        let read = vpa::decode(value);
        let mut autoscaler = read
            .inspect_err(|error| tracing::warn!(autoscaler = name, %error, "a VerticalPodAutoscaler cannot be used"))
            .ok()?;
        keep_recommenders(&mut autoscaler.metadata);
        Some(AutoscalerView(Arc::new(autoscaler)))
    }

    fn is_same(&self, old: &AutoscalerView) -> bool {
        self.0 == old.0
    }
}

/// A LimitRange, as JSON.
#[derive(Debug)]
pub struct RangeView(pub(super) Value);

impl pillion_informer::View for RangeView {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Option<RangeView> {
        Some(RangeView(object.data))
    }

    fn is_same(&self, old: &RangeView) -> bool {
        self.0 == old.0
    }
}
