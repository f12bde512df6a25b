//! The condition that says whether evictions are stopped.

use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt as _};
use pillion_api::vpa::{Condition, VerticalPodAutoscaler};
use pillion_rightsize::update::{StopCause, stop_conditions};
use serde_json::json;

use crate::resources::autoscalers;

/// Writes why evictions are stopped, if the autoscaler does not say so already, and leaves what recommenders write alone. Returns the
/// autoscaler as it is now.
pub(super) async fn write(
    client: &Client,
    autoscaler: &VerticalPodAutoscaler,
    cause: Option<StopCause>,
    now: Timestamp,
) -> Result<Option<DynamicObject>, kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), autoscaler.namespace(), &autoscalers());
    let Some(current) = api.get_opt(autoscaler.name()).await? else { return Ok(None) };
    let before: Vec<Condition> =
        serde_json::from_value(current.data["status"]["conditions"].clone()).unwrap_or_default();
    let Some(conditions) = stop_conditions(&before, cause, now) else { return Ok(None) };
    // The recommender writes the same list. The second of two writes gets a conflict, and the next pass retries.
    let version = current.resource_version();
    let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
    api.patch_status(autoscaler.name(), &PatchParams::default(), &Patch::Merge(patch)).await.map(Some)
}
