//! How each number of a recommendation follows from the usage that is stored.

use std::fmt::Write as _;

use pillion_api::vpa::{
    Gates, RecommendedPodResources, ResourceList, VerticalPodAutoscaler, VerticalPodAutoscalerCheckpoint,
};
use pillion_quantity::Quantity;
use pillion_rightsize::{
    Aggregate, Bound, Candidate, ContainerKind, EstimatorSettings, LimitRanges, PodContainer, PodView,
    RecommendationFormat, SampleSettings, cap_to_policy, container_targets, has_bound_moved, recommend,
    round_to_whole_cores,
};

/// The derivation of every number of an autoscaler, for containers as they are in a pod.
pub(crate) fn text(
    autoscaler: &VerticalPodAutoscaler,
    checkpoints: &[VerticalPodAutoscalerCheckpoint],
    containers: &[PodContainer],
) -> Result<String, String> {
    let mut history = Vec::new();
    for checkpoint in checkpoints {
        let name = &checkpoint.spec.container_name;
        let aggregate = Aggregate::from_checkpoint(&checkpoint.status, &SampleSettings::default())
            .map_err(|error| format!("the checkpoint of container {name:?} cannot be read: {error}"))?;
        let kind = containers.iter().find(|container| container.name == *name);
        history.push((name, kind.map_or(ContainerKind::Regular, |container| container.kind), aggregate));
    }
    if history.is_empty() {
        return Err(
            "there is no checkpoint yet: the recommender writes the first one after a minute of samples".to_owned()
        );
    }
    let candidates: Vec<Candidate<'_>> = history
        .iter()
        .map(|(name, kind, aggregate)| Candidate {
            name,
            kind: *kind,
            aggregate,
            policy: autoscaler.container_policy(name),
        })
        .collect();
    let estimates = recommend(&candidates, &EstimatorSettings::default());
    let uncapped = RecommendationFormat::default().apply(&estimates);
    let mut whole = uncapped.clone();
    round_to_whole_cores(&mut whole, autoscaler);
    let policy = autoscaler.spec.resource_policy.as_ref();
    let (mut capped, mut capped_whole) = (uncapped.clone(), whole.clone());
    cap_to_policy(&mut capped, policy, &ResourceList::default());
    cap_to_policy(&mut capped_whole, policy, &ResourceList::default());
    let mut text = String::new();
    for estimate in &estimates {
        // A String takes whatever is written.
        let _ = writeln!(text, "{}", estimate.container);
        for derivation in &estimate.derivations {
            let bound = match derivation.bound {
                Bound::Lower => "lower bound",
                Bound::Target => "target",
                Bound::Upper => "upper bound",
            };
            let of = |all: &RecommendedPodResources| {
                let recommended = all.of(&estimate.container)?;
                let list = match derivation.bound {
                    Bound::Lower => recommended.lower_bound.as_ref()?,
                    Bound::Target => &recommended.target,
                    Bound::Upper => recommended.upper_bound.as_ref()?,
                };
                list.get(derivation.resource.name())
            };
            let by_policy = |before: Option<Quantity>, after: Option<Quantity>| match (before, after) {
                (Some(before), Some(after)) if before != after => format!(", {after} by its policy"),
                _ => String::new(),
            };
            // The recommender rounds to whole cores first.
            let cores = match (of(&uncapped), of(&whole)) {
                (Some(before), Some(after)) if before != after => {
                    let policy = by_policy(of(&whole), of(&capped_whole));
                    format!("; with --cpu-integer-post-processor-enabled {after} in whole cores{policy}")
                }
                _ => String::new(),
            };
            let policy = by_policy(of(&uncapped), of(&capped));
            let _ = writeln!(text, "  {} {bound}: {derivation}{policy}{cores}", derivation.resource);
            let derived = [of(&capped), of(&capped_whole)];
            if let Some(stated) = autoscaler.status.recommendation.as_ref().and_then(of)
                && !derived.into_iter().flatten().any(|derived| is_stated(derivation.bound, derived, stated))
            {
                let _ = writeln!(
                    text,
                    "    the status says {stated}: the recommender has other settings or newer samples than the checkpoint, or keeps \
                     the bounds from before its start"
                );
            }
        }
    }
    Ok(text)
}

/// Whether a status may state one amount where the recommender has derived another. Bounds are not written for every small change.
fn is_stated(bound: Bound, derived: Quantity, stated: Quantity) -> bool {
    if bound == Bound::Target { derived == stated } else { !has_bound_moved(stated, derived) }
}

/// What a pod gets of it: the recommendation within LimitRanges, policy and the pod's own limits, and limits in proportion.
pub(crate) fn of_pod(autoscaler: &VerticalPodAutoscaler, pod: &PodView, ranges: &LimitRanges, gates: Gates) -> String {
    let mut text = String::new();
    for target in container_targets(autoscaler, pod, ranges, gates) {
        let lists = [("requests", target.requests), ("limits", target.limits)];
        let amounts = lists.into_iter().flat_map(|(list, amounts)| {
            let all: Vec<String> = ResourceList::from(amounts)
                .iter()
                .map(|(resource, amount)| format!("{list}.{resource} = {amount}"))
                .collect();
            all
        });
        let amounts: Vec<String> = amounts.collect();
        let notes: Vec<String> = target.notes.iter().map(ToString::to_string).collect();
        let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
        let _ = writeln!(text, "{} in this pod: {}{notes}", target.container, amounts.join(", "));
    }
    text
}
