//! From history to amounts: a percentile, a margin, less or more where there is little history, and a minimum.
//!
//! Each amount comes with its derivation, so that it can be explained.

use std::fmt;

use jiff::SignedDuration;
use pillion_expr::Resource;

use crate::aggregate::Aggregate;
use crate::amount::{quantity, scale};
use crate::float::power;

/// What the flags of the recommender set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimatorSettings {
    /// `--target-cpu-percentile` and its bounds.
    pub cpu: Percentiles,
    /// `--target-memory-percentile` and its bounds.
    pub memory: Percentiles,
    /// `--recommendation-margin-fraction`.
    pub margin_fraction: f64,
    /// `--confidence-interval-cpu`.
    pub cpu_confidence_interval: SignedDuration,
    /// `--confidence-interval-memory`.
    pub memory_confidence_interval: SignedDuration,
    /// `--pod-recommendation-min-cpu-millicores`.
    pub pod_min_millicores: i64,
    /// `--pod-recommendation-min-memory-mb`, in bytes. The flag's MB are 1024 × 1024 bytes.
    pub pod_min_bytes: i64,
}

impl Default for EstimatorSettings {
    fn default() -> Self {
        let day = SignedDuration::from_hours(24);
        EstimatorSettings {
            cpu: Percentiles::default(),
            memory: Percentiles::default(),
            margin_fraction: 0.15,
            cpu_confidence_interval: day,
            memory_confidence_interval: day,
            pod_min_millicores: 25,
            pod_min_bytes: 250 * 1024 * 1024,
        }
    }
}

impl EstimatorSettings {
    fn percentile(&self, resource: Resource, bound: Bound) -> f64 {
        let percentiles = match resource {
            Resource::Cpu => &self.cpu,
            Resource::Memory => &self.memory,
        };
        match bound {
            Bound::Lower => percentiles.lower,
            Bound::Target => percentiles.target,
            Bound::Upper => percentiles.upper,
        }
    }

    fn confidence_interval(&self, resource: Resource) -> SignedDuration {
        match resource {
            Resource::Cpu => self.cpu_confidence_interval,
            Resource::Memory => self.memory_confidence_interval,
        }
    }

    /// The least for each of `containers` that share the minimum of a pod.
    pub(crate) fn minimum(&self, resource: Resource, containers: usize) -> i64 {
        let of_pod = match resource {
            Resource::Cpu => self.pod_min_millicores,
            Resource::Memory => self.pod_min_bytes,
        };
        let count = u32::try_from(containers.max(1)).unwrap_or(u32::MAX);
        scale(of_pod, 1.0 / f64::from(count))
    }
}

/// Percentiles of usage, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    /// For the lower bound.
    pub lower: f64,
    pub target: f64,
    /// For the upper bound.
    pub upper: f64,
}

impl Default for Percentiles {
    fn default() -> Self {
        Percentiles { lower: 0.5, target: 0.9, upper: 0.95 }
    }
}

/// Which amount of a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// `lowerBound`.
    Lower,
    /// `target`.
    Target,
    /// `upperBound`.
    Upper,
}

impl Bound {
    pub(crate) const ALL: [Bound; 3] = [Bound::Lower, Bound::Target, Bound::Upper];

    /// By what an amount is multiplied at this confidence. With little history the bounds are far apart.
    fn confidence_factor(self, confidence: f64) -> f64 {
        match self {
            Bound::Lower => power(1.0 + 0.001 / confidence, -2),
            Bound::Target => 1.0,
            Bound::Upper => 1.0 + 1.0 / confidence,
        }
    }
}

/// How one amount was computed, in millicores or bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Derivation {
    /// What it is an amount of.
    pub resource: Resource,
    /// Which amount it is.
    pub bound: Bound,
    /// The percentile of usage that was taken.
    pub percentile: f64,
    /// That percentile.
    pub base: i64,
    /// The same with the safety margin.
    pub with_margin: i64,
    /// How much history there is: 1 is a whole confidence interval.
    pub confidence: f64,
    /// By what it was multiplied for that confidence.
    pub factor: f64,
    /// The least that is recommended.
    pub minimum: i64,
    /// The result.
    pub amount: i64,
}

/// Computes one amount.
pub(crate) fn estimate(
    aggregate: &Aggregate,
    resource: Resource,
    bound: Bound,
    settings: &EstimatorSettings,
    minimum: i64,
) -> Derivation {
    let percentile = settings.percentile(resource, bound);
    let base = aggregate.percentile(resource, percentile);
    let with_margin = base + scale(base, settings.margin_fraction);
    let confidence = aggregate.confidence(settings.confidence_interval(resource));
    let factor = bound.confidence_factor(confidence);
    let scaled = if bound == Bound::Target { with_margin } else { scale(with_margin, factor) };
    let amount = scaled.max(minimum);
    Derivation { resource, bound, percentile, base, with_margin, confidence, factor, minimum, amount }
}

impl fmt::Display for Derivation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |amount| quantity(self.resource, amount);
        let percent = (self.percentile * 1e6).round() / 1e4;
        write!(f, "{percent}th percentile of {} is {}", self.resource, shown(self.base))?;
        write!(f, ", with margin {}", shown(self.with_margin))?;
        match (self.bound, self.confidence > 0.0) {
            (Bound::Target, _) => {}
            (_, true) => write!(f, ", times {:.4} for a confidence of {:.4}", self.factor, self.confidence)?,
            (Bound::Lower, false) => write!(f, ", times 0 because CPU usage was sampled at most once")?,
            (Bound::Upper, false) => write!(f, ", without a limit because CPU usage was sampled at most once")?,
        }
        if self.amount == self.minimum {
            write!(f, ", at least {}", shown(self.minimum))?;
        }
        write!(f, " = {}", shown(self.amount))
    }
}

#[cfg(test)]
mod tests {
    //! The tables of upstream's `pkg/recommender/logic/estimator_test.go`, and the factors that follow from its formulas.

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::settings::SampleSettings;

    fn minutes(count: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_mins(count)
    }

    fn with_samples(millicores: &[i64], every: i64) -> Aggregate {
        let mut aggregate = Aggregate::new(&SampleSettings::default(), minutes(0));
        for (i, millicores) in (0..).zip(millicores) {
            aggregate.add_cpu(*millicores, minutes(i * every).into());
        }
        aggregate
    }

    #[test]
    fn percentiles_are_within_a_bucket_of_the_samples() {
        let mut it = with_samples(&[1000, 2000, 3000], 0);
        for bytes in [1_000_000_000, 2_000_000_000, 3_000_000_000_i64] {
            it.add_peak(bytes, minutes(0).into(), minutes(0).into());
        }
        let within = |value: i64, wanted: i64| (value - wanted).abs() * 20 <= wanted;
        assert!(within(it.percentile(Resource::Cpu, 0.2), 1000));
        assert!(within(it.percentile(Resource::Memory, 0.5), 2_000_000_000));
    }

    /// `TestConfidenceMultiplier`: nine samples in eighteen minutes.
    #[test]
    fn confidence_is_the_lesser_of_the_span_and_the_number_of_samples() {
        let it = with_samples(&[1000; 9], 2);
        assert_eq!(it.confidence(SignedDuration::from_hours(24)).to_bits(), 0.006_25_f64.to_bits());
        assert_eq!(it.confidence(SignedDuration::from_mins(18)).to_bits(), 0.5_f64.to_bits());
        assert_eq!(scale(3140, power(1.0 + 0.1 / 0.006_25, 2)), 907_460);
        assert_eq!(scale(3140, power(1.0 + 0.1 / 0.5, 2)), 4521);
        assert_eq!(scale(3_140_000_000, power(1.0 + 0.1 / 0.5, 2)), 4_521_600_000);
    }

    #[test]
    fn without_history_the_bounds_are_nothing_and_everything() {
        let it = with_samples(&[1000], 1);
        let settings = EstimatorSettings::default();
        let of = |bound| estimate(&it, Resource::Cpu, bound, &settings, 0).amount;
        assert_eq!((of(Bound::Lower), of(Bound::Upper)), (0, crate::MAX_AMOUNT));
        assert_eq!(of(Bound::Target), 1168, "{}", estimate(&it, Resource::Cpu, Bound::Target, &settings, 0));
    }

    #[test]
    fn bounds_come_closer_as_history_grows() {
        let factors = |minutes: i32| {
            let confidence = f64::from(minutes) / (24.0 * 60.0);
            (Bound::Lower.confidence_factor(confidence), Bound::Upper.confidence_factor(confidence))
        };
        for (minutes, lower, upper) in [
            (5, 0.6028, 289.0),
            (30, 0.9105, 49.0),
            (60, 0.9537, 25.0),
            (12 * 60, 0.9960, 3.0),
            (24 * 60, 0.9980, 2.0),
            (7 * 24 * 60, 0.9997, 1.1429),
        ] {
            let (low, high) = factors(minutes);
            assert!((low - lower).abs() < 1e-4 && (high - upper).abs() < 1e-4, "{minutes}: {low} {high}");
        }
    }

    /// `TestMarginEstimator`, and the split of the minimum.
    #[test]
    fn margins_and_minimums_are_cut_to_whole_amounts() {
        assert_eq!(3140 + scale(3140, 0.1), 3454);
        let settings = EstimatorSettings::default();
        for (containers, millicores, bytes) in [(1, 25, 262_144_000), (2, 12, 131_072_000), (3, 8, 87_381_333)] {
            assert_eq!(settings.minimum(Resource::Cpu, containers), millicores);
            assert_eq!(settings.minimum(Resource::Memory, containers), bytes);
        }
    }

    #[test]
    fn a_derivation_reads_as_a_sentence() {
        let it = with_samples(&[100; 60], 1);
        let settings = EstimatorSettings::default();
        assert_eq!(
            estimate(&it, Resource::Cpu, Bound::Upper, &settings, 25).to_string(),
            "95th percentile of cpu is 110m, with margin 126m, times 25.4068 for a confidence of 0.0410 = 3201m"
        );
        assert_eq!(
            estimate(&it, Resource::Memory, Bound::Target, &settings, 262_144_000).to_string(),
            "90th percentile of memory is 0, with margin 0, at least 250Mi = 250Mi"
        );
        // One sample: the factors are zero and infinity.
        let once = with_samples(&[100], 1);
        let sentence = |bound| estimate(&once, Resource::Cpu, bound, &settings, 25).to_string();
        assert_eq!(
            sentence(Bound::Lower),
            "50th percentile of cpu is 110m, with margin 126m, times 0 because CPU usage was sampled at most once, at least 25m = 25m"
        );
        assert_eq!(
            sentence(Bound::Upper),
            "95th percentile of cpu is 110m, with margin 126m, without a limit because CPU usage was sampled at most once = 100G"
        );
    }

    proptest! {
        #[test]
        fn the_target_is_between_its_bounds(millicores in prop::collection::vec(0..64_000_i64, 1..200)) {
            let it = with_samples(&millicores, 1);
            let settings = EstimatorSettings::default();
            let [lower, target, upper] = Bound::ALL.map(|bound| estimate(&it, Resource::Cpu, bound, &settings, 25).amount);
            prop_assert!(lower <= target && target <= upper);
        }
    }
}
