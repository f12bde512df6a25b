//! A recommendation for one pod: within the LimitRanges of its namespace, its policy and its own limits, in this order.
//!
//! What comes later wins: a policy overrides a LimitRange.

use std::collections::BTreeMap;
use std::fmt;

use pillion_api::vpa::{
    ContainerResourcePolicy, Gates, PodResourcePolicy, RecommendedContainerResources, RecommendedPodResources,
    ResourceList,
};
use pillion_expr::Resource;
use pillion_quantity::Quantity;

use crate::amount::RESOURCES;
use crate::limit_range::{LimitRangeItem, LimitRanges};
use crate::limits::{Original, Rounding, boundary_request, proportional_limit, scale};
use crate::pod::{PodContainer, PodView};
use crate::post_process::{lower, raise};

/// What changed a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapNote {
    /// The resource.
    pub resource: Resource,
    /// What changed it.
    pub cap: Cap,
}

/// A bound that changed a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// `minAllowed` of the policy.
    MinAllowed,
    /// `maxAllowed` of the policy.
    MaxAllowed,
    /// The container's own limit, which is not changed.
    ContainerLimit,
    /// The maximum of a LimitRange.
    LimitRangeMax,
    /// The minimum of a LimitRange.
    LimitRangeMin,
}

impl fmt::Display for CapNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cap = match self.cap {
            Cap::MinAllowed => "capped to minAllowed",
            Cap::MaxAllowed => "capped to maxAllowed",
            Cap::ContainerLimit => "capped to container limit",
            Cap::LimitRangeMax => "capped to fit Max in container LimitRange",
            Cap::LimitRangeMin => "capped to fit Min in container LimitRange",
        };
        write!(f, "{} {cap}", self.resource)
    }
}

/// A recommendation for one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capped {
    /// The recommendation.
    pub recommendation: RecommendedPodResources,
    /// What changed the targets, by container.
    pub notes: BTreeMap<String, Vec<CapNote>>,
}

/// Makes the recommendation of a workload one for a pod. Containers that the pod does not have are left out.
pub fn cap(
    recommendation: &RecommendedPodResources,
    pod: &PodView,
    policy: Option<&PodResourcePolicy>,
    ranges: &LimitRanges,
    gates: Gates,
) -> Capped {
    let containers: Vec<&PodContainer> = pod.sized(gates).collect();
    let mut recommended: Vec<RecommendedContainerResources> = recommendation.container_recommendations.clone();
    if let Some(range) = &ranges.pod {
        cap_to_pod_range(&mut recommended, &containers, range);
    }
    let mut capped = Capped::default();
    for mut recommended in recommended {
        let Some(container) = containers.iter().find(|container| container.name == recommended.container_name) else {
            continue;
        };
        let policy = policy.and_then(|policy| policy.of(&container.name));
        let capping = Capping { container, policy, range: ranges.container.as_ref() };
        let notes = capping.apply(&mut recommended.target);
        for bound in recommended.lower_bound.iter_mut().chain(&mut recommended.upper_bound) {
            capping.apply(bound);
        }
        if !notes.is_empty() {
            capped.notes.insert(container.name.clone(), notes);
        }
        capped.recommendation.container_recommendations.push(recommended);
    }
    capped
}

/// The bounds of one container.
struct Capping<'a> {
    container: &'a PodContainer,
    policy: Option<&'a ContainerResourcePolicy>,
    range: Option<&'a LimitRangeItem>,
}

impl Capping<'_> {
    fn apply(&self, list: &mut ResourceList) -> Vec<CapNote> {
        let mut notes = Vec::new();
        let steps = [Capping::to_limit_range, Capping::to_policy, Capping::to_limit];
        for step in steps {
            for resource in RESOURCES {
                if let Some(amount) = list.get(resource.name()) {
                    let mut note = |cap, (amount, is_capped): (Quantity, bool)| {
                        if is_capped {
                            notes.push(CapNote { resource, cap });
                        }
                        amount
                    };
                    list.set(resource.name(), step(self, resource, amount, &mut note));
                }
            }
        }
        notes
    }

    fn to_limit_range(
        &self,
        resource: Resource,
        amount: Quantity,
        note: &mut dyn FnMut(Cap, (Quantity, bool)) -> Quantity,
    ) -> Quantity {
        let Some(range) = self.range else { return amount };
        let original = original(self.container, resource, range);
        let boundary = |bound: Option<Quantity>| boundary_request(resource, &original, bound?);
        let min = range.min.get(resource);
        // Both the request and the limit must be above the minimum.
        let min = boundary(min).into_iter().chain(min).max();
        let amount = note(Cap::LimitRangeMin, raise(amount, min));
        note(Cap::LimitRangeMax, lower(amount, boundary(range.max.get(resource))))
    }

    fn to_policy(
        &self,
        resource: Resource,
        amount: Quantity,
        note: &mut dyn FnMut(Cap, (Quantity, bool)) -> Quantity,
    ) -> Quantity {
        let bound = |list: Option<&ResourceList>| list?.get(resource.name());
        let min = bound(self.policy.and_then(|policy| policy.min_allowed.as_ref()));
        let max = bound(self.policy.and_then(|policy| policy.max_allowed.as_ref()));
        let amount = note(Cap::MinAllowed, raise(amount, min));
        note(Cap::MaxAllowed, lower(amount, max))
    }

    fn to_limit(
        &self,
        resource: Resource,
        amount: Quantity,
        note: &mut dyn FnMut(Cap, (Quantity, bool)) -> Quantity,
    ) -> Quantity {
        let limit = self.container.limits.get(resource);
        match limit.filter(|limit| amount.milli_value() > limit.milli_value()) {
            Some(limit) if self.policy.is_some_and(ContainerResourcePolicy::requests_only) => {
                note(Cap::ContainerLimit, (limit, true))
            }
            _ => amount,
        }
    }
}

fn original(container: &PodContainer, resource: Resource, range: &LimitRangeItem) -> Original {
    Original {
        request: container.requests.get(resource),
        limit: container.limits.get(resource),
        default_limit: range.default.get(resource),
    }
}

/// Scales all containers so that the pod is within its LimitRange. A container without a recommendation takes part with what it
/// requests, and gets a target of its own.
fn cap_to_pod_range(
    recommended: &mut Vec<RecommendedContainerResources>,
    containers: &[&PodContainer],
    range: &LimitRangeItem,
) {
    for container in containers {
        let exists = recommended.iter().any(|recommended| recommended.container_name == container.name);
        if !exists && !container.requests.is_empty() {
            let container_name = container.name.clone();
            let target = container.requests.into();
            recommended.push(RecommendedContainerResources { container_name, target, ..Default::default() });
        }
    }
    let lists: [for<'a> fn(&'a mut RecommendedContainerResources) -> Option<&'a mut ResourceList>; 3] = [
        |recommended| recommended.upper_bound.as_mut(),
        |recommended| Some(&mut recommended.target),
        |recommended| recommended.lower_bound.as_mut(),
    ];
    for list in lists {
        for resource in RESOURCES {
            scale_to_pod_range(recommended, containers, range, resource, list);
        }
    }
}

fn scale_to_pod_range(
    recommended: &mut [RecommendedContainerResources],
    containers: &[&PodContainer],
    range: &LimitRangeItem,
    resource: Resource,
    list: for<'a> fn(&'a mut RecommendedContainerResources) -> Option<&'a mut ResourceList>,
) {
    let sum = |a: Quantity, b: Quantity| a.checked_add(b).unwrap_or(Quantity::MAX);
    let (mut limits, mut requests) = (Quantity::ZERO, Quantity::ZERO);
    for container in containers {
        let of = recommended.iter_mut().find(|recommended| recommended.container_name == container.name);
        let amount = match of {
            Some(of) => list(of).and_then(|list| list.get(resource.name())),
            None => container.requests.get(resource),
        };
        let (limit, _) = proportional_limit(resource, &original(container, resource, range), amount);
        limits = limit.map_or(limits, |limit| sum(limits, limit));
        requests = amount.map_or(requests, |amount| sum(requests, amount));
    }
    let min = range.min.get(resource).unwrap_or(Quantity::ZERO);
    let max = range.max.get(resource).filter(|max| !max.is_zero());
    let is_above = max.is_some_and(|max| max < limits);
    if limits.is_zero() || (min <= limits && min <= requests && !is_above) {
        return;
    }
    let (from, to, rounding) = if min > requests {
        (requests, min, Rounding::Up)
    } else {
        (limits, max.filter(|_| is_above).unwrap_or(min), Rounding::Down)
    };
    let is_of_pod = |name: &str| containers.iter().any(|container| container.name == name);
    for recommended in recommended.iter_mut().filter(|recommended| is_of_pod(&recommended.container_name)) {
        let Some(list) = list(recommended) else { continue };
        if let Some(amount) = list.get(resource.name()) {
            list.set(resource.name(), scale(resource, amount, from, to, rounding).0);
        }
    }
}

#[cfg(test)]
mod tests;
