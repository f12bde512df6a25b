//! How each number of a recommendation follows from the usage that is stored.

use std::fmt::Write as _;

use pillion_api::vpa::{
    Gates, RecommendedPodResources, ResourceList, VerticalPodAutoscaler, VerticalPodAutoscalerCheckpoint,
};
use pillion_rightsize::{
    Aggregate, Bound, Candidate, ContainerKind, EstimatorSettings, LimitRanges, PodContainer, PodView,
    RecommendationFormat, SampleSettings, cap_to_policy, container_targets, recommend, round_to_whole_cores,
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
    let mut capped = uncapped.clone();
    cap_to_policy(&mut capped, autoscaler.spec.resource_policy.as_ref(), &ResourceList::default());
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
            let cores = match (of(&uncapped), of(&whole)) {
                (Some(before), Some(after)) if before != after => {
                    format!(", {after} in whole cores with --cpu-integer-post-processor-enabled")
                }
                _ => String::new(),
            };
            let policy = match (of(&uncapped), of(&capped)) {
                (Some(before), Some(after)) if before != after => format!(", {after} by its policy"),
                _ => String::new(),
            };
            let _ = writeln!(text, "  {} {bound}: {derivation}{cores}{policy}", derivation.resource);
        }
    }
    Ok(text)
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
