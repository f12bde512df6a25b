//! A LimitRange of type Pod: what the containers of a pod request together, and what their limits are together.
//!
//! The API server counts all containers. Those that are not sized keep what they have, and what is left is shared by the others in
//! proportion to what is recommended for them.

use pillion_api::vpa::{ContainerResourcePolicy, PodResourcePolicy, RecommendedContainerResources, ResourceList};
use pillion_expr::Resource;
use pillion_quantity::Quantity;

use crate::amount::RESOURCES;
use crate::limit_range::LimitRangeItem;
use crate::limits::{Original, Rounding, proportional_limit, scale};
use crate::pod::{Amounts, ContainerKind, PodContainer, PodView};

/// What happens to containers that are sized and have no recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecommended {
    /// They are scaled with the others, from what the template requests. This is for new pods, as upstream does it.
    Scaled,
    /// They keep what they have. This is for running pods: admission has scaled them already, and would scale the template again, not the
    /// outcome.
    Kept,
}

/// The LimitRange, and the pod that it is about.
pub(crate) struct PodRange<'a> {
    pub(crate) range: &'a LimitRangeItem,
    /// The limits that a LimitRange gives containers without any.
    pub(crate) default_limits: Amounts,
    pub(crate) pod: &'a PodView,
    pub(crate) sized: &'a [&'a PodContainer],
    pub(crate) policy: Option<&'a PodResourcePolicy>,
}

/// One of the lists of a recommendation.
type List = for<'a> fn(&'a mut RecommendedContainerResources) -> Option<&'a mut ResourceList>;

/// What containers have together: a part that is scaled, and a part that stays.
#[derive(Clone, Copy)]
struct Share {
    scaled: Quantity,
    fixed: Quantity,
}

impl Share {
    const NONE: Share = Share { scaled: Quantity::ZERO, fixed: Quantity::ZERO };

    fn total(&self) -> Quantity {
        sum(self.scaled, self.fixed)
    }

    /// What is left for the scaled part if all of it may be `total`. `None` if nothing is left.
    fn room(&self, total: Quantity) -> Option<Quantity> {
        total.checked_sub(self.fixed).filter(|room| *room > Quantity::ZERO)
    }
}

#[derive(Clone, Copy)]
struct Shares {
    requests: Share,
    limits: Share,
}

/// The containers that run at the same time.
#[derive(Clone, Copy)]
enum Phase {
    /// All but the plain init containers.
    Running,
    /// A plain init container, by its place, beside the native sidecars before it.
    Init(usize),
}

impl Phase {
    fn has(self, container: &PodContainer) -> bool {
        match self {
            Phase::Running => true,
            Phase::Init(index) => container.kind == ContainerKind::NativeSidecar && container.index < index,
        }
    }
}

impl PodRange<'_> {
    /// Scales what is recommended so that the pod is within the LimitRange. Where that is not possible it stays as it is.
    pub(crate) fn apply(&self, recommended: &mut Vec<RecommendedContainerResources>, unrecommended: Unrecommended) {
        if unrecommended == Unrecommended::Scaled {
            recommended.extend(self.requested(recommended));
        }
        let lists: [List; 3] = [
            |recommended| recommended.upper_bound.as_mut(),
            |recommended| Some(&mut recommended.target),
            |recommended| recommended.lower_bound.as_mut(),
        ];
        for list in lists {
            for resource in RESOURCES {
                self.scale(recommended, resource, list);
            }
        }
        recommended.iter_mut().for_each(keep_order);
    }

    /// What the sized containers without a recommendation request, as their recommendation.
    fn requested(&self, recommended: &[RecommendedContainerResources]) -> Vec<RecommendedContainerResources> {
        let is_missing = |container: &&&PodContainer| {
            !recommended.iter().any(|recommended| recommended.container_name == container.name)
        };
        let requested = |container: &&PodContainer| {
            let policy = self.policy_of(container);
            let requests = ResourceList::from(container.requests);
            let controlled =
                requests.iter().filter(|(resource, _)| policy.is_none_or(|policy| policy.controls(resource)));
            let target: ResourceList = controlled.map(|(resource, amount)| (resource.to_owned(), amount)).collect();
            let container_name = container.name.clone();
            (!target.is_empty()).then(|| RecommendedContainerResources { container_name, target, ..Default::default() })
        };
        self.sized.iter().filter(is_missing).filter_map(requested).collect()
    }

    fn policy_of(&self, container: &PodContainer) -> Option<&ContainerResourcePolicy> {
        self.policy.and_then(|policy| policy.of(&container.name))
    }

    fn scale(&self, recommended: &mut [RecommendedContainerResources], resource: Resource, list: List) {
        let min = self.range.min.get(resource).unwrap_or(Quantity::ZERO);
        let max = self.range.max.get(resource).filter(|max| !max.is_zero());
        let together = self.shares(recommended, resource, list, Phase::Running);
        let (requests, limits) = (together.requests, together.limits);
        if limits.total().is_zero() {
            return;
        }
        let mut to = |share: Share, total: Quantity, rounding: Rounding, phase: Phase| {
            if let Some(room) = share.room(total) {
                self.scale_by(recommended, resource, list, phase, (share.scaled, room, rounding));
            }
        };
        if min > requests.total() {
            return to(requests, min, Rounding::Up, Phase::Running);
        }
        if let Some(max) = max.filter(|max| *max < limits.total()) {
            to(limits, max, Rounding::Down, Phase::Running);
        } else if min > limits.total() {
            return to(limits, min, Rounding::Up, Phase::Running);
        }
        let Some(max) = max else { return };
        // Without limits of their own containers may request more than all limits together.
        let init = self.pod.init.iter().map(|init| Phase::Init(init.index));
        for phase in std::iter::once(Phase::Running).chain(init) {
            for of in [|shares: Shares| shares.limits, |shares: Shares| shares.requests] {
                let share = of(self.shares(recommended, resource, list, phase));
                if let Some(room) = share.room(max).filter(|room| *room < share.scaled) {
                    self.scale_by(recommended, resource, list, phase, (share.scaled, room, Rounding::Down));
                }
            }
        }
    }

    /// What the containers of a phase request, and what their limits are.
    fn shares(
        &self,
        recommended: &mut [RecommendedContainerResources],
        resource: Resource,
        list: List,
        phase: Phase,
    ) -> Shares {
        let mut shares = Shares { requests: Share::NONE, limits: Share::NONE };
        if let Phase::Init(index) = phase
            && let Some(init) = self.pod.init.iter().find(|init| init.index == index)
        {
            let of = |amounts: Option<Amounts>| amounts.and_then(|amounts| amounts.get(resource));
            let default_limit = self.default_limits.get(resource);
            add(&mut shares.requests.fixed, of(init.spec.requests).or(of(init.spec.limits)));
            add(&mut shares.limits.fixed, of(init.spec.limits).or(default_limit));
        }
        for container in self.pod.containers.iter().filter(|container| phase.has(container)) {
            let found = recommended.iter_mut().find(|recommended| recommended.container_name == container.name);
            // A list that does not exist bounds nothing.
            let amount = match found.map(list) {
                Some(None) => continue,
                Some(Some(list)) => list.get(resource.name()),
                None => None,
            };
            self.add(&mut shares, container, resource, amount);
        }
        shares
    }

    fn add(&self, shares: &mut Shares, container: &PodContainer, resource: Resource, recommended: Option<Quantity>) {
        let default_limit = self.default_limits.get(resource);
        let limit = container.limits.get(resource).or(default_limit);
        let Some(amount) = recommended else {
            add(&mut shares.requests.fixed, container.requests.get(resource));
            return add(&mut shares.limits.fixed, limit);
        };
        add(&mut shares.requests.scaled, Some(amount));
        if self.keeps_limits(container) {
            return add(&mut shares.limits.fixed, limit);
        }
        let original = Original::of(container, resource, default_limit);
        add(&mut shares.limits.scaled, proportional_limit(resource, &original, Some(amount)).0);
    }

    fn keeps_limits(&self, container: &PodContainer) -> bool {
        self.policy_of(container).is_some_and(ContainerResourcePolicy::requests_only)
    }

    fn scale_by(
        &self,
        recommended: &mut [RecommendedContainerResources],
        resource: Resource,
        list: List,
        phase: Phase,
        (from, to, rounding): (Quantity, Quantity, Rounding),
    ) {
        for container in self.pod.containers.iter().filter(|container| phase.has(container)) {
            let found = recommended.iter_mut().find(|recommended| recommended.container_name == container.name);
            let Some(list) = found.and_then(list) else { continue };
            if let Some(amount) = list.get(resource.name()) {
                list.set(resource.name(), scale(resource, amount, from, to, rounding).0);
            }
        }
    }
}

/// The lists were scaled on their own: the target stays within its bounds, or pods that have it would be updated again and again.
fn keep_order(recommended: &mut RecommendedContainerResources) {
    let target = recommended.target.clone();
    for (resource, bound) in recommended.lower_bound.iter_mut().flat_map(ResourceList::iter_mut) {
        *bound = target.get(resource).map_or(*bound, |target| target.min(*bound));
    }
    for (resource, bound) in recommended.upper_bound.iter_mut().flat_map(ResourceList::iter_mut) {
        *bound = target.get(resource).map_or(*bound, |target| target.max(*bound));
    }
}

fn sum(a: Quantity, b: Quantity) -> Quantity {
    a.checked_add(b).unwrap_or(Quantity::MAX)
}

fn add(total: &mut Quantity, amount: Option<Quantity>) {
    *total = amount.map_or(*total, |amount| sum(*total, amount));
}
