//! The status of an autoscaler: what is recommended, and in which condition it is.

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use kube::core::DynamicObject;
use pillion_api::vpa::{RecommendedPodResources, VerticalPodAutoscaler, VerticalPodAutoscalerStatus};
use pillion_rightsize::{
    Candidate, ContainerUsage, Observed, cap_to_policy, recommend, round_to_whole_cores, update_conditions,
};
use serde_json::json;

use crate::config::Config;
use crate::resources::autoscalers;

/// What is recommended for an autoscaler. Empty while nothing is known of its containers.
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

/// The status of an autoscaler. What was recommended stays while nothing new is known.
pub(crate) fn status(
    autoscaler: &VerticalPodAutoscaler,
    recommendation: RecommendedPodResources,
    has_pods: bool,
    unsupported: Option<&str>,
    now: Timestamp,
) -> VerticalPodAutoscalerStatus {
    let before = &autoscaler.status;
    let is_known = !recommendation.container_recommendations.is_empty();
    let recommendation = if is_known { Some(recommendation) } else { before.recommendation.clone() };
    let has_recommendation =
        recommendation.as_ref().is_some_and(|recommendation| !recommendation.container_recommendations.is_empty());
    let observed = Observed { has_pods, has_recommendation, unsupported };
    VerticalPodAutoscalerStatus {
        recommendation,
        conditions: update_conditions(&before.conditions, observed, now),
        observed_generation: autoscaler.metadata.generation.or(before.observed_generation),
    }
}

/// Writes a status. Returns the autoscaler as it is now.
pub(crate) async fn write(
    client: &Client,
    autoscaler: &VerticalPodAutoscaler,
    status: &VerticalPodAutoscalerStatus,
) -> Result<DynamicObject, kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), autoscaler.namespace(), &autoscalers());
    // Lists are replaced as a whole.
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(autoscaler.name(), &PatchParams::default(), &patch).await
}
