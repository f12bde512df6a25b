//! The tables of upstream's `pkg/recommender/util/histogram_test.go`, and what must hold of any histogram.
#![expect(clippy::float_cmp, reason = "ends of buckets and whole weights are exact")]

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::buckets::CPU;

const EPSILON: f64 = 1e-15;

static UPSTREAM: LazyLock<Buckets> = LazyLock::new(|| Buckets::linear(10.0, 1.0, EPSILON));

fn histogram(samples: &[(f64, f64)]) -> Histogram {
    let mut histogram = Histogram::new(&UPSTREAM);
    for &(value, weight) in samples {
        histogram.add(value, weight);
    }
    histogram
}

fn weights(histogram: &Histogram) -> Vec<(u8, f64)> {
    histogram.counted().collect()
}

#[test]
fn percentiles_of_an_empty_histogram_are_zero() {
    let empty = histogram(&[]);
    assert!(empty.is_empty());
    for percentile in [-0.5, 0.0, 0.5, 1.0, 1.5] {
        assert_eq!(empty.percentile(percentile).to_bits(), 0);
    }
}

#[test]
fn percentiles_are_ends_of_buckets() {
    let four = histogram(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]);
    let table = [2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0, 5.0, 5.0, 5.0, 5.0];
    for (tenths, end) in (0_u32..).zip(table) {
        assert_eq!(four.percentile(f64::from(tenths) / 10.0), end, "{tenths} tenths");
    }
}

#[test]
fn percentiles_out_of_range_are_those_of_the_outermost_buckets() {
    static TENTHS: LazyLock<Buckets> = LazyLock::new(|| Buckets::linear(1.0, 0.1, EPSILON));
    let mut it = Histogram::new(&TENTHS);
    it.add(0.1, 0.1);
    it.add(0.2, 0.2);
    assert!((it.percentile(-0.1) - 0.2).abs() < 1e-12 && (it.percentile(1.1) - 0.3).abs() < 1e-12);
    it.add(0.0, 0.1);
    it.add(1.0, 0.2);
    assert!((it.percentile(-0.1) - 0.1).abs() < 1e-12 && (it.percentile(1.1) - 1.0).abs() < 1e-12);
}

#[test]
fn a_bucket_below_epsilon_counts_as_empty() {
    let mut it = histogram(&[(1.0, 2.5 * EPSILON)]);
    it.subtract(1.0, EPSILON);
    assert!(!it.is_empty());
    it.subtract(1.0, EPSILON);
    assert!(it.is_empty());

    let edges = histogram(&[(9.9, 3.0 * EPSILON), (0.1, 0.3 * EPSILON), (999.9, 0.3 * EPSILON)]);
    assert!(!edges.is_empty());
    assert_eq!(edges.percentile(0.5), 10.0);
}

#[test]
fn merging_is_adding_all_samples() {
    let mut merged = histogram(&[(1.0, 1.0), (2.0, 1.0)]);
    merged.merge(&histogram(&[(2.0, 1.0), (3.0, 1.0)]));
    assert_eq!(weights(&merged), weights(&histogram(&[(1.0, 1.0), (2.0, 1.0), (2.0, 1.0), (3.0, 1.0)])));
}

#[test]
fn checkpoints_store_weights_relative_to_the_largest() {
    let saved = |samples: &[(f64, f64)]| {
        let saved = histogram(samples).save();
        (saved.total_weight, saved.bucket_weights.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(saved(&[(1.0, 1.0)]), (1.0, vec![(1, 10_000)]));
    assert_eq!(saved(&[(1.0, 1.0), (2.0, 100_000.0)]), (100_001.0, vec![(2, 10_000)]));
    assert_eq!(saved(&[(1.0, 1.0), (2.0, 10_000.0), (3.0, 50.0)]), (10_051.0, vec![(1, 1), (2, 10_000), (3, 50)]));
    assert_eq!(saved(&[]), (0.0, vec![]));
}

fn checkpoint(total_weight: f64, weights: &[(i32, u32)]) -> HistogramCheckpoint {
    HistogramCheckpoint { reference_timestamp: None, bucket_weights: weights.iter().copied().collect(), total_weight }
}

#[test]
fn loading_gives_back_weights_in_proportion_to_the_total() {
    let mut it = histogram(&[]);
    it.load(&checkpoint(6.0, &[(0, 1), (1, 2)])).unwrap();
    assert_eq!(weights(&it), [(0, 2.0), (1, 4.0)]);
    assert_eq!(it.total, 6.0);
}

#[test]
fn a_checkpoint_that_makes_no_sense_is_rejected_and_changes_nothing() {
    let mut it = histogram(&[]);
    assert_eq!(it.load(&checkpoint(1.0, &[(-1, 1)])), Err(CheckpointError::NegativeBucket(-1)));
    assert_eq!(it.load(&checkpoint(1.0, &[(99, 1)])), Err(CheckpointError::NoSuchBucket { bucket: 99, count: 11 }));
    assert_eq!(it.load(&checkpoint(-1.0, &[])), Err(CheckpointError::NegativeWeight(-1.0)));
    assert!(it.is_empty());
}

/// `TestHistogramLoadFromCheckpointReturnsErrorOn…` and the guard for issue 7726.
#[test]
fn a_saved_histogram_that_is_not_empty_is_not_empty_when_it_is_loaded() {
    let saved = histogram(&[(1.0, EPSILON), (2.0, 9999.0 * EPSILON)]).save();
    let mut loaded = histogram(&[]);
    loaded.load(&saved).unwrap();
    assert!(!loaded.is_empty());
}

#[test]
fn the_weights_of_a_constant_workload_take_a_few_bytes() {
    let mut it = Histogram::new(&CPU);
    (0..10_000).for_each(|_| it.add(0.25, 0.1));
    assert_eq!(it.heap_size(), 8);
}

fn samples() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((0.0..2000.0_f64, 0.1..10.0_f64), 1..80)
}

fn of(samples: &[(f64, f64)]) -> Histogram {
    let mut histogram = Histogram::new(&CPU);
    for &(value, weight) in samples {
        histogram.add(value, weight);
    }
    histogram
}

proptest! {
    #[test]
    fn a_higher_percentile_is_never_lower(samples in samples(), a in 0.0..=1.0_f64, b in 0.0..=1.0_f64) {
        let it = of(&samples);
        prop_assert!(it.percentile(a.min(b)) <= it.percentile(a.max(b)));
    }

    #[test]
    fn merging_is_the_same_as_adding_one_after_the_other(a in samples(), b in samples()) {
        let mut merged = of(&a);
        merged.merge(&of(&b));
        let all = of(&[a, b].concat());
        prop_assert_eq!((merged.min, merged.max), (all.min, all.max));
        prop_assert!((merged.total - all.total).abs() < 1e-6);
        for ((bucket, weight), (other_bucket, other)) in merged.counted().zip(all.counted()) {
            prop_assert_eq!(bucket, other_bucket);
            prop_assert!((weight - other).abs() < 1e-9);
        }
    }

    #[test]
    fn adding_and_then_subtracting_leaves_what_was_there(samples in samples(), value in 0.0..2000.0_f64) {
        let before = of(&samples);
        let mut after = before.clone();
        after.add(value, 1.0);
        after.subtract(value, 1.0);
        prop_assert_eq!((before.min, before.max), (after.min, after.max));
        prop_assert!(before.counted().zip(after.counted()).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-9));
    }

    #[test]
    fn a_checkpoint_of_a_loaded_checkpoint_is_the_same(samples in samples()) {
        let saved = of(&samples).save();
        let mut loaded = Histogram::new(&CPU);
        loaded.load(&saved).unwrap();
        prop_assert_eq!(loaded.save(), saved);
    }

    /// A checkpoint rounds to a ten-thousandth of the largest weight: the percentile moves by a bucket at most where it
    /// was on the edge of one, and never for a percentile in the middle.
    #[test]
    fn a_checkpoint_keeps_the_outermost_values(samples in samples()) {
        let it = of(&samples);
        let mut loaded = Histogram::new(&CPU);
        loaded.load(&it.save()).unwrap();
        prop_assert!((loaded.total - it.total).abs() < 1e-9);
        prop_assert!(loaded.percentile(0.0) >= it.percentile(0.0) && loaded.percentile(1.0) <= it.percentile(1.0));
    }

    #[test]
    fn scaling_keeps_percentiles(samples in samples(), percentile in 0.01..0.99_f64, halvings in 0..3_i32) {
        let it = of(&samples);
        let mut scaled = it.clone();
        scaled.scale(crate::float::power_of_two(-halvings));
        prop_assert_eq!(scaled.percentile(percentile).to_bits(), it.percentile(percentile).to_bits());
    }
}
