//! What the containers of a pod should have: requests from the recommendation, and limits in proportion.

use std::fmt;

use pillion_api::vpa::{ContainerResourcePolicy, Gates, VerticalPodAutoscaler};
use pillion_expr::Resource;
use pillion_quantity::Quantity;

use crate::amount::RESOURCES;
use crate::boosted_cpu::BoostError;
use crate::cap::{CapNote, Capped, cap};
use crate::limit_range::LimitRanges;
use crate::limits::{LimitNote, Original, proportional_limit};
use crate::pod::{Amounts, PodContainer, PodView};
use crate::pod_range::Unrecommended;

/// What one container should have. Resources that are not set stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerTarget {
    /// Name of the container.
    pub container: String,
    /// Requests to set.
    pub requests: Amounts,
    /// Limits to set.
    pub limits: Amounts,
    /// What led to them.
    pub notes: Vec<TargetNote>,
}

/// What led to the resources of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetNote {
    /// A bound changed the request.
    Cap(CapNote),
    /// Something about a limit.
    Limit(LimitNote),
    /// A boost that could not be computed, and was left out.
    Boost(BoostError),
}

impl fmt::Display for TargetNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetNote::Cap(note) => note.fmt(f),
            TargetNote::Limit(note) => note.fmt(f),
            TargetNote::Boost(error) => error.fmt(f),
        }
    }
}

impl ContainerTarget {
    /// Whether there is nothing to set.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.limits.is_empty()
    }

    /// Whether the container has it, in its spec and in fact, but for so many millicores and bytes of its requests. Limits keep their
    /// proportion to requests: each unit of a request is several units of the limit, and the limit is rounded once more.
    pub(crate) fn is_near(&self, container: &PodContainer, slack: usize) -> bool {
        let slack = i128::try_from(slack).unwrap_or(i128::MAX);
        RESOURCES.into_iter().all(|resource| {
            let unit = if resource == Resource::Cpu { 1_000_000 } else { 1_000_000_000 };
            let of_limit = match slack {
                0 => 0,
                _ => slack.saturating_mul(self.limit_ratio(resource)).saturating_add(1),
            };
            let is_near = |target: Amounts, spec: Option<Amounts>, actual: Amounts, slack: i128| {
                let Some(wanted) = target.get(resource) else { return true };
                let near = |amount: Quantity| (amount.nanos() - wanted.nanos()).abs() <= slack.saturating_mul(unit);
                spec.and_then(|spec| spec.get(resource)).is_some_and(near) && actual.get(resource).is_none_or(near)
            };
            is_near(self.requests, container.spec.requests, container.requests, slack)
                && is_near(self.limits, container.spec.limits, container.limits, of_limit)
        })
    }

    /// How many times the request the limit is, rounded up.
    fn limit_ratio(&self, resource: Resource) -> i128 {
        let nanos = |amounts: Amounts| amounts.get(resource).map_or(0, Quantity::nanos);
        match (nanos(self.requests), nanos(self.limits)) {
            (request, limit) if request > 0 && limit > 0 => (limit - 1) / request + 1,
            _ => 1,
        }
    }

    /// Whether the container does not have it yet.
    pub fn differs(&self, container: &PodContainer) -> bool {
        RESOURCES.into_iter().any(|resource| {
            let other = |target: Amounts, spec: Option<Amounts>| {
                let wanted = target.get(resource);
                wanted.is_some() && wanted != spec.and_then(|spec| spec.get(resource))
            };
            other(self.requests, container.spec.requests) || other(self.limits, container.spec.limits)
        })
    }
}

/// What each container of a new pod should have, in the order of the pod. Containers that are not sized are left out.
pub fn container_targets(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    ranges: &LimitRanges,
    gates: Gates,
) -> Vec<ContainerTarget> {
    let capped = capped_for(autoscaler, pod, ranges, gates, Unrecommended::Scaled);
    targets(autoscaler, pod, ranges, gates, &capped)
}

/// The recommendation of an autoscaler for a running pod. Empty while nothing is recommended.
pub fn capped_recommendation(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    ranges: &LimitRanges,
    gates: Gates,
) -> Capped {
    capped_for(autoscaler, pod, ranges, gates, Unrecommended::Kept)
}

/// What each container of a running pod should have, likewise.
pub fn running_targets(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    ranges: &LimitRanges,
    gates: Gates,
) -> Vec<ContainerTarget> {
    let capped = capped_recommendation(autoscaler, pod, ranges, gates);
    targets(autoscaler, pod, ranges, gates, &capped)
}

fn capped_for(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    ranges: &LimitRanges,
    gates: Gates,
    unrecommended: Unrecommended,
) -> Capped {
    let Some(recommendation) = &autoscaler.status.recommendation else { return Capped::default() };
    cap(recommendation, pod, autoscaler.spec.resource_policy.as_ref(), ranges, gates, unrecommended)
}

fn targets(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    ranges: &LimitRanges,
    gates: Gates,
    capped: &Capped,
) -> Vec<ContainerTarget> {
    let target = |container: &PodContainer| {
        let recommended = capped.recommendation.of(&container.name)?;
        let requests = Amounts::from(&recommended.target);
        let caps = capped.notes.get(&container.name).into_iter().flatten();
        let mut notes: Vec<TargetNote> = caps.map(|note| TargetNote::Cap(*note)).collect();
        let policy = autoscaler.container_policy(&container.name);
        let limits = if policy.is_some_and(ContainerResourcePolicy::requests_only) {
            Amounts::default()
        } else {
            let (limits, limit_notes) = limits_in_proportion(container, &requests, ranges);
            notes.extend(limit_notes.into_iter().map(TargetNote::Limit));
            limits
        };
        Some(ContainerTarget { container: container.name.clone(), requests, limits, notes })
    };
    pod.sized(gates).filter_map(target).collect()
}

/// The limits that keep their proportion to new requests. Nothing is noted where no limit is set at all.
pub(crate) fn limits_in_proportion(
    container: &PodContainer,
    requests: &Amounts,
    ranges: &LimitRanges,
) -> (Amounts, Vec<LimitNote>) {
    let default = ranges.container.map(|range| range.default).unwrap_or_default();
    let (mut limits, mut notes) = (Amounts::default(), Vec::new());
    for resource in RESOURCES {
        let original = Original::of(container, resource, default.get(resource));
        let (limit, note) = proportional_limit(resource, &original, requests.get(resource));
        limits.set(resource, limit);
        notes.extend(note);
    }
    if limits.is_empty() { (limits, Vec::new()) } else { (limits, notes) }
}

#[cfg(test)]
mod tests {
    //! The tables of upstream's `pkg/admission-controller/resource/pod/recommendation/recommendation_provider_test.go`.

    use pillion_api::pod::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::limit_range::LimitRangeItem;

    fn autoscaler(policy: Value, target: Value) -> VerticalPodAutoscaler {
        pillion_api::vpa::decode(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "vpa"},
            "spec": {"resourcePolicy": {"containerPolicies": [policy]}},
            "status": {"recommendation": {"containerRecommendations": [
                {"containerName": "app", "target": target},
                {"containerName": "mesh", "target": target},
                {"containerName": "setup", "target": target}
            ]}}
        }))
        .unwrap()
    }

    fn pod(requests: Value, limits: Value) -> PodView {
        let resources = json!({"requests": requests, "limits": limits});
        PodView::new(&Pod::new(json!({"spec": {"containers": [{"name": "app", "resources": resources}]}})).unwrap())
    }

    fn both(cpu: &str, memory: &str) -> Value {
        json!({"cpu": cpu, "memory": memory})
    }

    fn it(policy: Value, target: Value, pod: &PodView, ranges: &LimitRanges) -> ContainerTarget {
        let mut policy = policy;
        policy["containerName"] = json!("app");
        let targets = container_targets(&autoscaler(policy, target), pod, ranges, Gates::default());
        targets.into_iter().next().unwrap()
    }

    #[test]
    fn limits_keep_their_ratio_unless_only_requests_are_controlled() {
        let none = LimitRanges::default();
        let target = || both("2", "200Mi");
        for (policy, requests, limits, wanted, wanted_limits) in [
            (json!({}), both("2", "200Mi"), both("2", "200Mi"), both("2", "200Mi"), both("2", "200Mi")),
            (json!({}), both("1", "100Mi"), both("2", "200Mi"), both("2", "200Mi"), both("4", "400Mi")),
            (
                json!({"controlledValues": "RequestsOnly"}),
                both("1", "100Mi"),
                both("2", "200Mi"),
                both("2", "200Mi"),
                json!({}),
            ),
            (json!({"minAllowed": both("4", "300Mi")}), both("1", "100Mi"), json!({}), both("4", "300Mi"), json!({})),
            (
                json!({"maxAllowed": both("1", "100Mi")}),
                both("1", "100Mi"),
                both("1", "100Mi"),
                both("1", "100Mi"),
                both("1", "100Mi"),
            ),
            (json!({}), json!({}), json!({}), both("2", "200Mi"), json!({})),
        ] {
            let result = it(policy.clone(), target(), &pod(requests, limits), &none);
            assert_eq!(result.requests, Amounts::of(&wanted), "{policy}");
            assert_eq!(result.limits, Amounts::of(&wanted_limits), "{policy}");
        }
    }

    #[test]
    fn a_high_target_is_capped_to_the_limit_when_only_requests_are_controlled() {
        let result = it(
            json!({"controlledValues": "RequestsOnly"}),
            both("3", "500Mi"),
            &pod(both("1", "100Mi"), both("2", "200Mi")),
            &LimitRanges::default(),
        );
        assert_eq!(result.requests, Amounts::of(&both("2", "200Mi")));
        let notes: Vec<String> = result.notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes, ["cpu capped to container limit", "memory capped to container limit"]);
    }

    #[test]
    fn a_limit_beyond_every_quantity_is_capped_with_a_note() {
        let ten = pod(both("1", "1"), both("10", "10"));
        let result = it(json!({}), both("1Ei", "1Ei"), &ten, &LimitRanges::default());
        assert_eq!(result.limits.memory.unwrap().value(), i128::from(i64::MAX));
        let notes: Vec<String> = result.notes.iter().map(ToString::to_string).collect();
        assert_eq!(
            notes,
            [
                "cpu: failed to keep limit to request ratio; capping limit to int64",
                "memory: failed to keep limit to request ratio; capping limit to int64"
            ]
        );
    }

    #[test]
    fn the_default_limit_of_a_limit_range_is_the_limit_of_a_container_without_one() {
        let default = Amounts::of(&both("2", "100Mi"));
        let ranges = LimitRanges { container: Some(LimitRangeItem { default, ..Default::default() }), pod: None };
        let result = it(json!({}), both("2", "200Mi"), &pod(both("2", "100Mi"), json!({})), &ranges);
        assert_eq!(result.limits, Amounts::of(&both("2", "200Mi")));
    }

    /// The provider tests of the pull request for native sidecars (autoscaler 8498).
    #[test]
    fn native_sidecars_have_targets_only_with_the_gate_and_init_containers_never() {
        let pod = PodView::new(
            &Pod::new(json!({"spec": {
                "containers": [{"name": "app"}],
                "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}]
            }}))
            .unwrap(),
        );
        let of = |gates| -> Vec<String> {
            let autoscaler = autoscaler(json!({"containerName": "*"}), both("2", "200Mi"));
            container_targets(&autoscaler, &pod, &LimitRanges::default(), gates)
                .into_iter()
                .map(|it| it.container)
                .collect()
        };
        assert_eq!(of(Gates { native_sidecar: true, ..Gates::default() }), ["app", "mesh"]);
        assert_eq!(of(Gates::default()), ["app"]);
    }

    #[test]
    fn a_target_differs_only_if_the_spec_says_something_else() {
        let pod = pod(both("1", "1Gi"), json!({}));
        let target = |requests: Value| ContainerTarget { requests: Amounts::of(&requests), ..Default::default() };
        assert!(!target(both("1000m", "1024Mi")).differs(&pod.containers[0]));
        assert!(!target(json!({"cpu": "1"})).differs(&pod.containers[0]));
        assert!(target(json!({"cpu": "2"})).differs(&pod.containers[0]));
    }
}
