//! The condition that says whether evictions are stopped.

use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt as _};
use pillion_api::vpa::{Condition, VerticalPodAutoscaler};
use pillion_informer::{NamespacedName, Outcome};
use pillion_rightsize::update::{StopCause, stop_conditions};
use serde_json::json;

use super::key::Key;
use super::{Updater, is_wanted};
use crate::references::{name_of, of_autoscaler};
use crate::resources::autoscalers;

impl Updater<'_> {
    /// Has the condition of an autoscaler written, if it says something else.
    pub(super) fn check_stop(&self, autoscaler: &VerticalPodAutoscaler) {
        let name = name_of(autoscaler);
        let cause = self.lock().brakes.cause(&name);
        if stop_conditions(&autoscaler.status.conditions, cause, (self.config.now)()).is_some() {
            // The receiver lives as long as the reconciler that calls this.
            let _ = self.due.unbounded_send(Key::Status(name));
        }
    }

    /// Writes a condition when evictions for an autoscaler are stopped, or go on, and an event when they are stopped.
    pub(super) async fn say_whether_stopped(&self, name: &NamespacedName) -> Outcome {
        let Some(view) = self.cluster.autoscalers().get(&name.namespace, &name.name) else {
            return Outcome::Done(None);
        };
        let (autoscaler, now) = (&view.0, (self.config.now)());
        let (is_known, cause) = {
            let brakes = &self.lock().brakes;
            (brakes.has(name), brakes.cause(name))
        };
        // Where pods are updated they are looked at first.
        let is_early = !is_known && is_wanted(self.config, autoscaler);
        if is_early || stop_conditions(&autoscaler.status.conditions, cause, now).is_none() {
            return Outcome::Done(None);
        }
        match write(&self.config.client, autoscaler, cause, now).await {
            Ok(Some(written)) => {
                self.cluster.autoscalers().written(written);
                if let Some(cause) = cause {
                    let text = cause.to_string();
                    tracing::warn!(autoscaler = autoscaler.name(), namespace = autoscaler.namespace(), text);
                    self.recorder.warning(&of_autoscaler(autoscaler), "EvictionsStopped", text);
                }
                Outcome::Done(None)
            }
            Ok(None) => Outcome::Done(None),
            // It was deleted meanwhile.
            Err(kube::Error::Api(answer)) if answer.is_not_found() => Outcome::Done(None),
            Err(error) => Outcome::failed(&error),
        }
    }
}

/// Writes why evictions are stopped, if the autoscaler does not say so already, and leaves what recommenders write alone. Returns the
/// autoscaler as it is now.
async fn write(
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
    // The recommender writes the same list. The second of two writes gets a conflict, and is tried again.
    let version = current.resource_version();
    let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
    api.patch_status(autoscaler.name(), &PatchParams::default(), &Patch::Merge(patch)).await.map(Some)
}
