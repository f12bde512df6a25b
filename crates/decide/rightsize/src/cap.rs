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
use crate::limits::{Original, boundary_request};
use crate::pod::{PodContainer, PodView};
use crate::pod_range::{PodRange, Unrecommended};
use crate::post_process::{bounded_lists, lower, raise};

/// What changed a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapNote {
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
    pub recommendation: RecommendedPodResources,
    /// What changed the targets, by container.
    pub notes: BTreeMap<String, Vec<CapNote>>,
}

/// Makes the recommendation of a workload one for a pod. Containers that the pod does not have are left out, and so are those that are not
/// sized: native sidecars without their gate, and containers whose policy is off.
pub fn cap(
    recommendation: &RecommendedPodResources,
    pod: &PodView,
    policy: Option<&PodResourcePolicy>,
    ranges: &LimitRanges,
    gates: Gates,
    unrecommended: Unrecommended,
) -> Capped {
    let policy_of = |container: &PodContainer| policy.and_then(|policy| policy.of(&container.name));
    let is_off = |container: &PodContainer| policy_of(container).is_some_and(ContainerResourcePolicy::is_off);
    let containers: Vec<&PodContainer> = pod.sized(gates).filter(|container| !is_off(container)).collect();
    let of_pod = recommendation.container_recommendations.iter();
    let of_pod = of_pod.filter(|it| containers.iter().any(|container| container.name == it.container_name));
    let mut recommended: Vec<RecommendedContainerResources> = of_pod.map(possible).collect();
    if let Some(range) = &ranges.pod {
        let default_limits = ranges.container.map(|range| range.default).unwrap_or_default();
        let range = PodRange { range, default_limits, pod, sized: &containers, policy };
        range.apply(&mut recommended, unrecommended);
    }
    let mut capped = Capped::default();
    for mut recommended in recommended {
        let Some(container) = containers.iter().find(|container| container.name == recommended.container_name) else {
            continue;
        };
        let capping = Capping { container, policy: policy_of(container), range: ranges.container.as_ref() };
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

/// A recommendation without the amounts that no container can request: negative ones, which a recommender once wrote for a negative
/// `maxAllowed`.
fn possible(recommended: &RecommendedContainerResources) -> RecommendedContainerResources {
    let mut possible = recommended.clone();
    for list in bounded_lists(&mut possible) {
        if list.iter().any(|(_, amount)| amount.is_negative()) {
            let rest = list.iter().filter(|(_, amount)| !amount.is_negative());
            *list = rest.map(|(resource, amount)| (resource.to_owned(), amount)).collect();
        }
    }
    possible
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
        let original = Original::of(self.container, resource, range.default.get(resource));
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
        let (min, max) = self.policy.map(|policy| policy.bounds(resource.name())).unwrap_or_default();
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

#[cfg(test)]
mod tests;
