//! Which pods are worth an update, and which first.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::{Gates, RecommendedPodResources, VerticalPodAutoscaler};
use pillion_expr::Resource;
use pillion_quantity::Quantity;

use super::reason::SkipReason;
use super::settings::UpdaterSettings;
use crate::amount::RESOURCES;
use crate::pod::{PodContainer, PodView};

/// How much a pod needs an update.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Priority {
    /// Some request is below its lower or above its upper bound, or missing.
    pub outside: bool,
    /// Some container would get more.
    pub scale_up: bool,
    /// How much would change, in comparison with what the pod requests.
    pub resource_diff: f64,
    /// A container was OOM killed soon after its start.
    pub quick_oom: bool,
}

impl Priority {
    /// What a recommendation would change about a pod.
    ///
    /// Changes are added up without regard to their sign: what one container gains does not make up for what another loses.
    pub fn of(
        pod: &PodView,
        recommendation: &RecommendedPodResources,
        autoscaler: &VerticalPodAutoscaler,
        settings: &UpdaterSettings,
        gates: Gates,
        now: Timestamp,
    ) -> Priority {
        let mut priority = Priority::default();
        let mut sums = RESOURCES.map(|resource| (resource, Sum::default()));
        for container in pod.sized(gates).filter(|container| pod.is_observed(container)) {
            let Some(recommended) = recommendation.of(&container.name) else { continue };
            for (resource, sum) in &mut sums {
                let Some(target) = recommended.target.get(resource.name()) else { continue };
                let bound = |list: &Option<pillion_api::vpa::ResourceList>| list.as_ref()?.get(resource.name());
                let bounds = (bound(&recommended.lower_bound), bound(&recommended.upper_bound));
                priority.add(container, *resource, target, bounds, sum);
            }
        }
        priority.resource_diff = sums.iter().map(|(_, sum)| sum.relative()).sum();
        let threshold = settings.evict_after_oom(autoscaler, gates);
        let counts = |container: &&PodContainer| {
            pod.is_observed(container)
                && autoscaler.container_policy(&container.name).is_none_or(|policy| !policy.is_off())
        };
        let is_quick = |container: &PodContainer| is_quick_oom(container, threshold, settings.lifetime_threshold, now);
        priority.quick_oom = pod.sized(gates).filter(counts).any(is_quick);
        priority
    }

    fn add(
        &mut self,
        container: &PodContainer,
        resource: Resource,
        target: Quantity,
        (lower, upper): (Option<Quantity>, Option<Quantity>),
        sum: &mut Sum,
    ) {
        let request = container.requests.get(resource);
        sum.add(request, target);
        let Some(request) = request else {
            (self.scale_up, self.outside) = (true, true);
            return;
        };
        self.scale_up |= target > request;
        self.outside |= lower.is_some_and(|lower| request < lower) || upper.is_some_and(|upper| request > upper);
    }

    /// Whether the pod is worth an update.
    pub(super) fn check(&self, pod: &PodView, settings: &UpdaterSettings, now: Timestamp) -> Result<(), SkipReason> {
        if !self.outside && !self.quick_oom {
            let start = pod.start_time.ok_or(SkipReason::NoStartTime)?;
            if now.duration_since(start) < settings.lifetime_threshold {
                return Err(SkipReason::ShortLived);
            }
            if self.resource_diff < settings.update_threshold {
                return Err(SkipReason::SmallChange);
            }
        }
        if self.quick_oom && self.resource_diff <= 0.0 {
            return Err(SkipReason::NothingChanges);
        }
        Ok(())
    }

    /// The order of updates: pods that grow first, then those that change most.
    pub(super) fn order(&self, other: &Priority) -> Ordering {
        other.scale_up.cmp(&self.scale_up).then(other.resource_diff.total_cmp(&self.resource_diff))
    }
}

/// Requests and changes of one resource over all containers, in thousandths.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    requested: i128,
    changed: i128,
}

impl Sum {
    fn add(&mut self, request: Option<Quantity>, target: Quantity) {
        let request = request.map_or(0, Quantity::milli_value);
        self.requested = self.requested.saturating_add(request);
        self.changed = self.changed.saturating_add(target.milli_value().abs_diff(request).cast_signed());
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn relative(&self) -> f64 {
        self.changed as f64 / self.requested.max(1) as f64
    }
}

/// Whether a container was OOM killed soon after its start, and not so long ago that it says nothing any more.
fn is_quick_oom(container: &PodContainer, threshold: SignedDuration, recent: SignedDuration, now: Timestamp) -> bool {
    container.last_oom.is_some_and(|oom| {
        oom.finished.duration_since(oom.started) < threshold && now.duration_since(oom.finished) < recent
    })
}

#[cfg(test)]
mod tests;
