//! Where the buckets of a histogram begin and end.

use std::sync::LazyLock;

use crate::float::power;

/// The largest number of buckets. A histogram keeps one bit for each.
pub(crate) const MAX_BUCKETS: usize = 192;

/// Samples weigh at least this much; CPU samples weigh exactly this much.
pub(crate) const MIN_SAMPLE_WEIGHT: f64 = 0.1;

/// A bucket with less weight than this counts as empty.
const EPSILON: f64 = 0.001 * MIN_SAMPLE_WEIGHT;

/// Each bucket is this many times as wide as the one before it.
const RATIO: f64 = 1.05;

/// The buckets of CPU usage in cores: from 10m up, 5 % wider each, to about 1000 cores.
pub(crate) static CPU: LazyLock<Buckets> = LazyLock::new(|| Buckets::exponential(176, 0.01, RATIO, EPSILON));

/// The buckets of memory usage in bytes: from 10 MB up, 5 % wider each, to about 1 TB.
pub(crate) static MEMORY: LazyLock<Buckets> = LazyLock::new(|| {
    let mut buckets = Buckets::exponential(176, 1e7, RATIO, EPSILON);
    // Upstream computes the index by a logarithm, which puts two whole numbers of bytes that are the start of a bucket into
    // the bucket below. All other whole numbers of bytes, and all whole thousandths of cores, are where they belong.
    for (bucket, start) in [(2, 20_500_000.0_f64), (3, 31_525_000.0)] {
        if let Some(first) = buckets.firsts.get_mut(bucket) {
            *first = start.next_up();
        }
    }
    buckets
});

/// The buckets of a histogram. Fixed: checkpoints store indices.
#[derive(Debug, PartialEq)]
pub(crate) struct Buckets {
    /// Where each bucket starts.
    starts: Vec<f64>,
    /// The smallest value that is put into each bucket.
    firsts: Vec<f64>,
    epsilon: f64,
}

impl Buckets {
    /// `count` buckets, the first of them `first` wide and each of the others `ratio` times as wide as the one before.
    pub(crate) fn exponential(count: usize, first: f64, ratio: f64, epsilon: f64) -> Buckets {
        let exponents = (0..i32::try_from(count.min(MAX_BUCKETS)).unwrap_or_default()).collect::<Vec<_>>();
        Buckets::new(exponents.into_iter().map(|n| first * (power(ratio, n) - 1.0) / (ratio - 1.0)).collect(), epsilon)
    }

    /// Buckets of the same size.
    #[cfg(test)]
    pub(crate) fn linear(max: f64, size: f64, epsilon: f64) -> Buckets {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small numbers of tests")]
        let last = (max / size).ceil() as u32;
        Buckets::new((0..=last).map(|bucket| f64::from(bucket) * size).collect(), epsilon)
    }

    fn new(starts: Vec<f64>, epsilon: f64) -> Buckets {
        Buckets { firsts: starts.clone(), starts, epsilon }
    }

    pub(crate) fn last(&self) -> u8 {
        u8::try_from(self.starts.len() - 1).unwrap_or(u8::MAX)
    }

    pub(crate) fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// The bucket of a value: the first for values below 0, the last for those beyond the end.
    pub(crate) fn find(&self, value: f64) -> u8 {
        let above = self.firsts.partition_point(|first| *first <= value);
        u8::try_from(above.saturating_sub(1)).unwrap_or(u8::MAX)
    }

    /// Where a bucket ends; for the last one, where it starts.
    pub(crate) fn end(&self, bucket: u8) -> f64 {
        self.starts.get(usize::from(bucket) + 1).or(self.starts.last()).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starts_of(buckets: &Buckets, wanted: &[f64]) {
        for (start, wanted) in buckets.starts.iter().zip(wanted) {
            assert!((start - wanted).abs() < 1e-9, "{start} {wanted}");
        }
    }

    /// `histogram_options_test.go`.
    #[test]
    fn linear_buckets_are_those_of_upstream() {
        let buckets = Buckets::linear(5.0, 0.3, 0.001);
        assert_eq!(buckets.starts.len(), 18);
        assert!((buckets.starts[17] - 5.1).abs() < 1e-9);
        assert_eq!([-1.0, 0.0, 1.3, 100.0].map(|value| buckets.find(value)), [0, 0, 4, 17]);
    }

    /// `histogram_options_test.go`.
    #[test]
    fn exponential_buckets_are_those_of_upstream() {
        let buckets = Buckets::exponential(6, 40.0, 1.5, 0.001);
        starts_of(&buckets, &[0.0, 40.0, 100.0, 190.0, 325.0, 527.5]);
        assert_eq!([-1.0, 39.99, 40.0, 100.0, 900.0].map(|value| buckets.find(value)), [0, 0, 1, 2, 5]);
    }

    /// Computed with upstream's own code (Go 1.26, amd64): a hash over the bits of all starts.
    #[test]
    fn starts_have_the_bits_of_upstream() {
        let hash = |buckets: &Buckets| {
            buckets.starts.iter().fold(14_695_981_039_346_656_037_u64, |hash, start| {
                (hash ^ start.to_bits()).wrapping_mul(1_099_511_628_211)
            })
        };
        assert_eq!(CPU.starts.len(), 176);
        assert_eq!(hash(&CPU), 0x5338_157a_46d1_b8c2);
        assert_eq!(hash(&MEMORY), 0x2e0a_93a9_cd9d_201e);
    }

    /// Computed with upstream's own code: 20.5 MB and 31.525 MB are below the bucket that starts there.
    #[test]
    fn values_on_an_edge_are_where_upstream_puts_them() {
        let millis = [(9, 0), (10, 1), (20, 1), (21, 2), (32, 3), (44, 4)];
        for (millicores, bucket) in millis {
            assert_eq!(CPU.find(f64::from(millicores) / 1000.0), bucket, "{millicores}m");
        }
        for (bytes, bucket) in [
            (9_999_999, 0),
            (10_000_000, 1),
            (20_500_000, 1),
            (20_500_001, 2),
            (31_525_000, 2),
            (31_525_001, 3),
            (43_101_249, 3),
            (43_101_250, 4),
        ] {
            assert_eq!(MEMORY.find(f64::from(bytes)), bucket, "{bytes}");
        }
        assert_eq!((CPU.find(1e9), MEMORY.find(f64::MAX)), (175, 175));
    }
}
