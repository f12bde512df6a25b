//! What the flags of the updater set.

use jiff::SignedDuration;
use pillion_api::vpa::{Gates, VerticalPodAutoscaler};

/// What the flags of the updater set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdaterSettings {
    /// `--min-replicas`: groups with fewer pods are left alone.
    pub min_replicas: i64,
    /// `--eviction-tolerance`: the share of a group that may be disrupted at once.
    pub eviction_tolerance: f64,
    /// `--pod-update-threshold`: pods within their bounds are updated only for at least this change.
    pub update_threshold: f64,
    /// `--in-recommendation-bounds-eviction-lifetime-threshold`: and only when they are at least this old.
    pub lifetime_threshold: SignedDuration,
    /// `--evict-after-oom-threshold`: an OOM kill within this time after the start counts as a quick one.
    pub evict_after_oom: SignedDuration,
    /// `--in-place-skip-disruption-budget`: resizes that restart nothing do not count as disruptions.
    pub in_place_skips_budget: bool,
    /// How long the node may put a resize off before the pod is evicted instead.
    pub deferred_timeout: SignedDuration,
    /// How long a resize may take before the pod is evicted instead.
    pub in_progress_timeout: SignedDuration,
}

impl Default for UpdaterSettings {
    fn default() -> Self {
        UpdaterSettings {
            min_replicas: 2,
            eviction_tolerance: 0.5,
            update_threshold: 0.1,
            lifetime_threshold: SignedDuration::from_hours(12),
            evict_after_oom: SignedDuration::from_mins(10),
            in_place_skips_budget: false,
            deferred_timeout: SignedDuration::from_mins(5),
            in_progress_timeout: SignedDuration::from_hours(1),
        }
    }
}

impl UpdaterSettings {
    /// How many pods a group must have.
    pub(super) fn min_replicas(&self, autoscaler: &VerticalPodAutoscaler) -> i64 {
        let own = autoscaler.spec.update_policy.as_ref().and_then(|policy| policy.min_replicas);
        own.map_or(self.min_replicas, i64::from)
    }

    /// How soon after its start an OOM kill is a quick one.
    pub(super) fn evict_after_oom(&self, autoscaler: &VerticalPodAutoscaler, gates: Gates) -> SignedDuration {
        let own = autoscaler.spec.update_policy.as_ref().and_then(|policy| policy.evict_after_oom_seconds);
        let own = own.filter(|_| gates.per_vpa_config).map(|seconds| SignedDuration::from_secs(seconds.into()));
        own.unwrap_or(self.evict_after_oom)
    }
}
