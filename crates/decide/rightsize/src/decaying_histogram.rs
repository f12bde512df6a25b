//! A histogram in which samples lose half of their weight in every half-life.
//!
//! Nothing is recomputed as time passes: a newer sample is added with more weight instead. Only every hundred half-lives
//! all weights are scaled down, so that they stay within the range of a float.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pillion_api::vpa::HistogramCheckpoint;

use crate::buckets::Buckets;
use crate::float::{exp2, power_of_two};
use crate::histogram::{CheckpointError, Histogram};
use crate::time::{Moment, nanos};

/// Half-lives after which weights are scaled down.
const MAX_DECAY_EXPONENT: i64 = 100;

/// A histogram of samples that are forgotten gradually.
#[derive(Clone, Debug)]
pub(crate) struct DecayingHistogram {
    histogram: Histogram,
    half_life: i64,
    /// A sample of this time has its own weight.
    reference: Moment,
}

impl DecayingHistogram {
    pub(crate) fn new(buckets: &'static Buckets, half_life: SignedDuration) -> DecayingHistogram {
        DecayingHistogram {
            histogram: Histogram::new(buckets),
            half_life: nanos(half_life).max(1),
            reference: Moment::NEVER,
        }
    }

    pub(crate) fn add(&mut self, value: f64, weight: f64, at: Moment) {
        let weight = weight * self.decay_factor(at);
        self.histogram.add(value, weight);
    }

    pub(crate) fn subtract(&mut self, value: f64, weight: f64, at: Moment) {
        let weight = weight * self.decay_factor(at);
        self.histogram.subtract(value, weight);
    }

    /// Adds all samples of another histogram with the same buckets and half-life.
    pub(crate) fn merge(&mut self, other: &DecayingHistogram) {
        if self.reference < other.reference {
            self.shift(other.reference);
        }
        if other.reference < self.reference {
            let mut other = other.clone();
            other.shift(self.reference);
            self.histogram.merge(&other.histogram);
        } else {
            self.histogram.merge(&other.histogram);
        }
    }

    pub(crate) fn percentile(&self, percentile: f64) -> f64 {
        self.histogram.percentile(percentile)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// The buckets that count, with their share of the weight.
    pub(crate) fn shares(&self) -> Vec<(f64, f64)> {
        self.histogram.shares()
    }

    pub(crate) fn save(&self) -> HistogramCheckpoint {
        let reference_timestamp = whole_seconds(self.reference);
        HistogramCheckpoint { reference_timestamp, ..self.histogram.save() }
    }

    /// Replaces this empty histogram by what a checkpoint stores.
    pub(crate) fn load(&mut self, checkpoint: &HistogramCheckpoint) -> Result<(), CheckpointError> {
        self.histogram.load(checkpoint)?;
        self.reference = Moment::from(checkpoint.reference_timestamp.as_ref().map(|time| time.0));
        Ok(())
    }

    pub(crate) fn heap_size(&self) -> usize {
        self.histogram.heap_size()
    }

    /// What a sample of this time weighs more than one of the reference time.
    fn decay_factor(&mut self, at: Moment) -> f64 {
        let horizon = self.half_life.saturating_mul(MAX_DECAY_EXPONENT);
        if self.reference.is_never() || at > self.reference.plus(horizon) {
            self.shift(at);
        }
        #[expect(clippy::cast_precision_loss, reason = "as upstream does")]
        let half_lives = at.nanos_since(self.reference) as f64 / self.half_life as f64;
        exp2(half_lives)
    }

    /// Makes another time the reference, rounded to a multiple of the half-life so that weights are scaled exactly.
    fn shift(&mut self, to: Moment) {
        let to = to.round(self.half_life);
        if !self.reference.is_never() {
            #[expect(clippy::cast_precision_loss, reason = "as upstream does")]
            let half_lives = self.reference.nanos_since(to) as f64 / self.half_life as f64;
            #[expect(clippy::cast_possible_truncation, reason = "saturates, and the factor is 0 long before")]
            let exponent = (half_lives + 0.5).floor() as i32;
            self.histogram.scale(power_of_two(exponent));
        }
        self.reference = to;
    }
}

/// Kubernetes' times have whole seconds.
pub(crate) fn whole_seconds(moment: Moment) -> Option<Time> {
    let seconds = moment.timestamp()?.as_second();
    jiff::Timestamp::from_second(seconds).ok().map(Time)
}

#[cfg(test)]
mod tests {
    //! The tables of upstream's `pkg/recommender/util/decaying_histogram_test.go`.
    #![expect(clippy::float_cmp, reason = "ends of buckets are exact")]

    use std::sync::LazyLock;

    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;

    static BUCKETS: LazyLock<Buckets> = LazyLock::new(|| Buckets::linear(10.0, 1.0, 1e-15));
    const HALF_LIFE: SignedDuration = SignedDuration::from_hours(1);

    fn hours(count: i64) -> Moment {
        let start = Timestamp::from_second(1_234_567_890).unwrap();
        Moment::from(start + SignedDuration::from_hours(count))
    }

    /// Value, weight, hours after the start.
    fn of(samples: &[(f64, f64, i64)]) -> DecayingHistogram {
        let mut histogram = DecayingHistogram::new(&BUCKETS, HALF_LIFE);
        for &(value, weight, at) in samples {
            histogram.add(value, weight, hours(at));
        }
        histogram
    }

    #[test]
    fn a_sample_that_is_twenty_half_lives_old_weighs_next_to_nothing() {
        let it = of(&[(2.0, 1000.0, 0), (1.0, 1.0, 20)]);
        assert_eq!((it.percentile(0.999), it.percentile(1.0)), (2.0, 3.0));
    }

    #[test]
    fn a_sample_that_is_a_hundred_half_lives_old_is_forgotten() {
        let it = of(&[(2.0, 1.0, 0), (1.0, 1.0, 101)]);
        assert_eq!(it.percentile(1.0), 2.0);
        assert_eq!(it.heap_size(), 8);
    }

    #[test]
    fn newer_samples_weigh_more() {
        let it = of(&[(1.0, 1.0, 0), (2.0, 2.0, 1), (3.0, 3.0, 2), (4.0, 4.0, 3)]);
        for (percentile, end) in
            [(0.0, 2.0), (0.02, 2.0), (0.03, 3.0), (0.10, 3.0), (0.11, 4.0), (0.34, 4.0), (0.35, 5.0), (1.0, 5.0)]
        {
            assert_eq!(it.percentile(percentile), end, "{percentile}");
        }
    }

    #[test]
    fn samples_of_the_same_time_weigh_what_they_say() {
        let it = of(&[(1.0, 1.0, 0), (2.0, 2.0, 0), (3.0, 3.0, 0), (4.0, 4.0, 0)]);
        for (percentile, end) in [(0.0, 2.0), (0.2, 3.0), (0.4, 4.0), (0.7, 5.0), (1.0, 5.0)] {
            assert_eq!(it.percentile(percentile), end, "{percentile}");
        }
    }

    #[test]
    fn merging_is_adding_all_samples() {
        let (first, second) = ([(1.0, 1.0, 0), (2.0, 1.0, 1)], [(2.0, 1.0, 2), (3.0, 1.0, 1)]);
        let mut merged = of(&first);
        merged.merge(&of(&second));
        let all = of(&[first, second].concat());
        for ((end, share), (other_end, other)) in merged.shares().into_iter().zip(all.shares()) {
            assert!(end == other_end && (share - other).abs() < 1e-12);
        }
    }

    #[test]
    fn a_checkpoint_stores_the_reference_time() {
        let saved = of(&[(2.0, 1.0, 0)]).save();
        assert_eq!(saved.reference_timestamp.as_ref().unwrap().0.to_string(), "2009-02-14T00:00:00Z");
        let time: Timestamp = "2018-01-02T03:04:05Z".parse().unwrap();
        let stored = HistogramCheckpoint { reference_timestamp: Some(Time(time)), ..saved };
        let mut loaded = DecayingHistogram::new(&BUCKETS, HALF_LIFE);
        loaded.load(&stored).unwrap();
        assert_eq!(loaded.reference, Moment::from(time));
    }

    proptest! {
        /// Decay changes what samples weigh in comparison, never by which of two that are equally old comes first.
        #[test]
        fn the_order_of_arrival_does_not_matter(samples in prop::collection::vec((0.0..10.0_f64, 0..90_i64), 1..30)) {
            let weighted: Vec<_> = samples.iter().map(|&(value, at)| (value, 1.0, at)).collect();
            let reversed: Vec<_> = weighted.iter().rev().copied().collect();
            let (a, b) = (of(&weighted), of(&reversed));
            let mut c = of(&[]);
            for sample in &weighted {
                c.merge(&of(&[*sample]));
            }
            for percentile in [0.11, 0.53, 0.87] {
                let close = |other: &DecayingHistogram| (a.percentile(percentile) - other.percentile(percentile)).abs() <= 1.0;
                prop_assert!(close(&b) && close(&c));
            }
        }

        #[test]
        fn waiting_forgets_everything(value in 0.0..10.0_f64, later in 101..100_000_i64) {
            let it = of(&[(value, 1.0, 0), (0.0, 1.0, later)]);
            prop_assert_eq!(it.percentile(1.0), 1.0);
        }
    }
}
