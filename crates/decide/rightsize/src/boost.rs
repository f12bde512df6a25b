//! `startupBoost`: more CPU while a container starts, and back to normal afterwards.

use jiff::{SignedDuration, Timestamp};
use pillion_api::names::VPA_CPU_STARTUP_BOOST_PREFIX;
use pillion_api::vpa::{ContainerResourcePolicy, Gates, ResourceList, UpdateMode, VerticalPodAutoscaler};
use pillion_quantity::Quantity;
use serde_json::{Value, json};

use crate::boosted_cpu::{MILLICORE, boosted_cpu};
use crate::limit_range::LimitRanges;
use crate::pod::{Amounts, PodContainer, PodView};
use crate::target::{ContainerTarget, TargetNote, limits_in_proportion, running_targets};

/// The annotation of a boosted container: its key, and the resources that the container had before.
pub(crate) fn boost_annotation(container: &PodContainer) -> (String, String) {
    let list = |amounts: Option<Amounts>| ResourceList::from(amounts.unwrap_or_default());
    let before = json!({"requests": list(container.spec.requests), "limits": list(container.spec.limits)});
    (format!("{VPA_CPU_STARTUP_BOOST_PREFIX}{}", container.name), before.to_string())
}

/// Boosts the target of a container, if it has a boost. Returns the annotation that remembers what it had before.
pub(crate) fn apply_boost(
    target: &mut ContainerTarget,
    container: &PodContainer,
    autoscaler: &VerticalPodAutoscaler,
    most: Option<Quantity>,
) -> Option<(String, String)> {
    let policy = autoscaler.container_policy(&container.name);
    if policy.is_some_and(ContainerResourcePolicy::is_off) {
        return None;
    }
    let boost = autoscaler.cpu_boost(&container.name)?;
    let original = container.spec.requests.and_then(|requests| requests.cpu);
    let base = target.requests.cpu.filter(|cpu| !cpu.is_zero()).or(original)?;
    let boosted = match boosted_cpu(base, boost, most) {
        Ok(boosted) => boosted,
        Err(error) => {
            target.notes.push(TargetNote::Boost(error));
            return None;
        }
    };
    let limit = container.spec.limits.and_then(|limits| limits.cpu);
    if policy.is_some_and(ContainerResourcePolicy::requests_only) {
        // Below its limit, so that the QoS class of the pod is not Guaranteed for the time of the boost only.
        let below =
            |limit: Quantity| if limit > MILLICORE { limit.checked_sub(MILLICORE).unwrap_or(limit) } else { limit };
        let exceeded = limit.filter(|limit| boosted.milli_value() > limit.milli_value());
        target.requests.cpu = Some(exceeded.map_or(boosted, below));
    } else {
        target.requests.cpu = Some(boosted);
        let requests = Amounts { cpu: Some(boosted), memory: None };
        let (limits, _) = limits_in_proportion(container, &requests, &LimitRanges::default());
        target.limits.cpu = limits.cpu.or(target.limits.cpu);
    }
    Some(boost_annotation(container))
}

/// What ends the boosts of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Unboost {
    /// What the containers should have from now on.
    pub targets: Vec<ContainerTarget>,
    /// Annotations to remove.
    pub annotations: Vec<String>,
}

/// Ends the boosts of a pod that are over. `None` if none is.
///
/// A container gets its recommendation, or without one, or with mode Off, what it had before. Containers that are still
/// boosted are left alone.
pub fn unboost(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    ranges: &LimitRanges,
    gates: Gates,
    now: Timestamp,
) -> Option<Unboost> {
    let over = |container: &str| is_over(autoscaler, pod, container, now);
    let ended: Vec<&(String, Value)> = pod.boosted.iter().filter(|(container, _)| over(container)).collect();
    if ended.is_empty() {
        return None;
    }
    let recommended = match autoscaler.update_mode() {
        UpdateMode::Off => Vec::new(),
        _ => running_targets(autoscaler, pod, ranges, gates),
    };
    let target = |(container, before): &&(String, Value)| {
        let recommended = recommended.iter().find(|target| target.container == *container && !target.is_empty());
        recommended.cloned().unwrap_or_else(|| ContainerTarget {
            container: container.clone(),
            requests: Amounts::of(&before["requests"]),
            limits: Amounts::of(&before["limits"]),
            notes: Vec::new(),
        })
    };
    let annotations = ended.iter().map(|(container, _)| format!("{VPA_CPU_STARTUP_BOOST_PREFIX}{container}")).collect();
    Some(Unboost { targets: ended.iter().map(target).collect(), annotations })
}

/// Whether the boost of a container has lasted long enough since the pod is Ready.
fn is_over(autoscaler: &VerticalPodAutoscaler, pod: &PodView, container: &str, now: Timestamp) -> bool {
    let Some(ready) = pod.ready_since else { return false };
    let seconds = autoscaler.cpu_boost(container).and_then(|boost| boost.duration_seconds).unwrap_or_default();
    seconds <= 0 || now.duration_since(ready) > SignedDuration::from_secs(seconds.into())
}

#[cfg(test)]
mod tests;
