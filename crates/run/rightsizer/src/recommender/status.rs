//! The status of an autoscaler: what is recommended, and in which condition it is.

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use pillion_api::vpa::{RecommendedPodResources, VerticalPodAutoscaler, VerticalPodAutoscalerStatus};
use pillion_rightsize::{
    Candidate, ContainerUsage, Observed, cap_to_policy, ignored_bounds, recommend, retain_controlled,
    round_to_whole_cores, update_conditions,
};
use serde_json::{Value, json};

use crate::config::Config;
use crate::resources::autoscalers;

/// What is recommended for an autoscaler. Empty while nothing is known of the containers that it sizes.
pub(crate) fn recommendation<'a>(
    autoscaler: &VerticalPodAutoscaler,
    containers: impl Iterator<Item = &'a ContainerUsage>,
    config: &Config,
) -> RecommendedPodResources {
    let candidates: Vec<Candidate<'_>> = containers
        .filter_map(|container| {
            Some(Candidate {
                name: container.name(),
                kind: container.kind()?,
                aggregate: container.aggregate(),
                policy: autoscaler.container_policy(container.name()),
            })
        })
        .collect();
    let mut recommendation = config.format.apply(&recommend(&candidates, &config.estimator));
    if config.rounds_to_whole_cores {
        round_to_whole_cores(&mut recommendation, autoscaler);
    }
    cap_to_policy(&mut recommendation, autoscaler.spec.resource_policy.as_ref(), &config.max_allowed);
    recommendation
}

/// What was recommended and stays while nothing new is known, as after a start: not for containers that `containers` show to be gone, nor
/// for what the policy does not control any more.
pub(crate) fn kept<'a>(
    autoscaler: &VerticalPodAutoscaler,
    containers: impl Iterator<Item = &'a ContainerUsage>,
) -> RecommendedPodResources {
    let known: Vec<&str> = containers.map(ContainerUsage::name).collect();
    let mut kept = autoscaler.status.recommendation.clone().unwrap_or_default();
    let exists = |name: &str| known.is_empty() || known.contains(&name);
    retain_controlled(&mut kept, autoscaler.spec.resource_policy.as_ref(), exists);
    kept
}

pub(crate) fn status(
    autoscaler: &VerticalPodAutoscaler,
    recommendation: RecommendedPodResources,
    has_pods: bool,
    unsupported: Option<&str>,
    now: Timestamp,
) -> VerticalPodAutoscalerStatus {
    let before = &autoscaler.status;
    let has_recommendation = !recommendation.container_recommendations.is_empty();
    let ignored = ignored_bounds(autoscaler);
    let observed = Observed { has_pods, has_recommendation, unsupported, ignored: ignored.as_deref() };
    VerticalPodAutoscalerStatus {
        recommendation: has_recommendation.then_some(recommendation),
        conditions: update_conditions(&before.conditions, observed, now),
        observed_generation: autoscaler.metadata.generation.or(before.observed_generation),
    }
}

/// Writes a status. Returns the autoscaler as it is now. If the conditions change and another client has written the autoscaler since it
/// was read, the answer is a conflict.
pub(crate) async fn write(
    client: &Client,
    field_manager: String,
    autoscaler: &VerticalPodAutoscaler,
    status: &VerticalPodAutoscalerStatus,
) -> Result<DynamicObject, kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), autoscaler.namespace(), &autoscalers());
    let patch = Patch::Merge(patch(autoscaler, status));
    let parameters = PatchParams { field_manager: Some(field_manager), ..PatchParams::default() };
    api.patch_status(autoscaler.name(), &parameters, &patch).await
}

/// Lists are replaced as a whole, and what is left out stays. The updater writes the same list of conditions: they are left out if they are as
/// they were, and otherwise written only over those that they were computed from.
fn patch(autoscaler: &VerticalPodAutoscaler, status: &VerticalPodAutoscalerStatus) -> Value {
    let mut patch = json!({"status": status});
    if status.recommendation.is_none() {
        patch["status"]["recommendation"] = Value::Null;
    }
    if status.conditions != autoscaler.status.conditions {
        patch["metadata"] = json!({"resourceVersion": autoscaler.metadata.resource_version});
    } else if let Some(fields) = patch["status"].as_object_mut() {
        fields.remove("conditions");
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_written_only_if_they_change_and_then_with_the_version_that_they_come_from() {
        let condition = json!({"type": "EvictionsStopped", "status": "True", "reason": "NoSuccessor", "message": ""});
        let autoscaler = pillion_api::vpa::decode(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "web", "resourceVersion": "7"}, "status": {"conditions": [condition]}
        }))
        .unwrap();
        let same = patch(&autoscaler, &autoscaler.status);
        assert_eq!(same, json!({"status": {"recommendation": null}}));
        let now = Timestamp::UNIX_EPOCH;
        let other = status(&autoscaler, RecommendedPodResources::default(), true, None, now);
        let other = patch(&autoscaler, &other);
        assert_eq!(other["metadata"], json!({"resourceVersion": "7"}));
        assert_eq!(other["status"]["conditions"].as_array().map(Vec::len), Some(2), "{other}");
    }
}
