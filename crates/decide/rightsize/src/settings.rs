//! What the flags of the recommender set.

use jiff::SignedDuration;
use pillion_api::vpa::{ContainerResourcePolicy, Gates};
use pillion_quantity::Quantity;

use crate::amount::amount;

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// How samples are collected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleSettings {
    /// `--cpu-histogram-decay-half-life`.
    pub cpu_half_life: SignedDuration,
    /// `--memory-histogram-decay-half-life`.
    pub memory_half_life: SignedDuration,
    /// Peaks of memory and what happens after a container was OOM killed.
    pub memory: MemorySettings,
}

impl Default for SampleSettings {
    fn default() -> Self {
        SampleSettings { cpu_half_life: DAY, memory_half_life: DAY, memory: MemorySettings::default() }
    }
}

/// How peaks of memory are collected, and what happens after a container was OOM killed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemorySettings {
    /// `--memory-aggregation-interval`: only the highest sample of each interval counts.
    pub interval: SignedDuration,
    /// `--memory-aggregation-interval-count`: history without a sample for this many intervals expires.
    pub interval_count: i64,
    /// `--oom-bump-up-ratio`.
    pub oom_bump_up_ratio: f64,
    /// `--oom-min-bump-up-bytes`.
    pub oom_min_bump_up: i64,
}

impl Default for MemorySettings {
    fn default() -> Self {
        MemorySettings { interval: DAY, interval_count: 8, oom_bump_up_ratio: 1.2, oom_min_bump_up: 100 * 1024 * 1024 }
    }
}

impl MemorySettings {
    /// These settings with what a policy overrides. An override ends when it is removed from the policy.
    #[must_use]
    pub fn with_policy(self, policy: Option<&ContainerResourcePolicy>, gates: Gates) -> MemorySettings {
        let Some(policy) = policy.filter(|_| gates.per_vpa_config) else { return self };
        let seconds = policy.memory_aggregation_interval_seconds.filter(|seconds| *seconds > 0);
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let float = |quantity: Quantity| quantity.nanos() as f64 / 1e9;
        MemorySettings {
            interval: seconds.map_or(self.interval, |seconds| SignedDuration::from_secs(seconds.into())),
            interval_count: policy
                .memory_aggregation_interval_count
                .filter(|count| *count > 0)
                .unwrap_or(self.interval_count),
            oom_bump_up_ratio: policy.oom_bump_up_ratio.map_or(self.oom_bump_up_ratio, float),
            oom_min_bump_up: policy.oom_min_bump_up.map_or(self.oom_min_bump_up, |bytes| amount(float(bytes))),
        }
    }

    /// How long history without a sample is kept.
    pub fn window(&self) -> SignedDuration {
        let count = i32::try_from(self.interval_count).unwrap_or(i32::MAX);
        self.interval.checked_mul(count).unwrap_or(SignedDuration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TestUpdateFromPolicy…` in upstream's `pkg/recommender/model/aggregate_container_state_test.go`.
    #[test]
    fn a_policy_overrides_flags_only_with_the_gate_and_only_while_it_says_so() {
        let policy = ContainerResourcePolicy {
            memory_aggregation_interval_seconds: Some(3600),
            memory_aggregation_interval_count: Some(4),
            oom_bump_up_ratio: Some("1.5".parse().unwrap()),
            oom_min_bump_up: Some("10Mi".parse().unwrap()),
            ..Default::default()
        };
        let on = Gates { per_vpa_config: true, ..Gates::default() };
        let flags = MemorySettings::default();
        let overridden = flags.with_policy(Some(&policy), on);
        assert_eq!(overridden.window(), SignedDuration::from_hours(4));
        assert_eq!((overridden.oom_bump_up_ratio, overridden.oom_min_bump_up), (1.5, 10 << 20));
        assert_eq!(flags.with_policy(Some(&policy), Gates::default()), flags);
        assert_eq!(flags.with_policy(Some(&ContainerResourcePolicy::default()), on), flags);
        assert_eq!(flags.window(), SignedDuration::from_hours(8 * 24));
    }
}
