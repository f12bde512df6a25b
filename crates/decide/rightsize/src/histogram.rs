//! Weights by bucket, and percentiles of them.
//!
//! Only buckets with weight take room: a bit for each bucket, and a float for each bit that is set. A container whose usage
//! stays within a factor of four needs about thirty of 176.

use std::collections::BTreeMap;

use pillion_api::vpa::HistogramCheckpoint;

use crate::buckets::{Buckets, MAX_BUCKETS};

/// The weight of the largest bucket in a checkpoint.
const MAX_CHECKPOINT_WEIGHT: f64 = 10_000.0;

/// A histogram without a notion of time.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: &'static Buckets,
    /// Which buckets have weight.
    present: [u64; MAX_BUCKETS / 64],
    /// The weights of those buckets, in order.
    weights: Vec<f64>,
    total: f64,
    /// The first and the last bucket that count as not empty.
    min: u8,
    max: u8,
}

/// Why a checkpoint cannot be loaded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CheckpointError {
    /// The total weight is negative.
    #[error("cannot load checkpoint with negative weight {0}")]
    NegativeWeight(f64),
    /// A bucket does not exist.
    #[error("checkpoint has bucket {bucket} that is exceeding histogram buckets {count}")]
    NoSuchBucket {
        /// The index.
        bucket: i32,
        /// How many buckets there are.
        count: u16,
    },
    #[error("checkpoint has a negative bucket {0}")]
    NegativeBucket(i32),
    /// The format is not known.
    #[error("unsupported checkpoint version {0:?}; expected \"v3\"")]
    Version(String),
}

impl Histogram {
    pub(crate) fn new(buckets: &'static Buckets) -> Histogram {
        Histogram { buckets, present: Default::default(), weights: Vec::new(), total: 0.0, min: buckets.last(), max: 0 }
    }

    /// Adds a sample. The weight may not be negative.
    pub(crate) fn add(&mut self, value: f64, weight: f64) {
        let bucket = self.buckets.find(value);
        let sum = self.weight(bucket) + weight;
        self.set(bucket, sum);
        self.total += weight;
        if sum >= self.buckets.epsilon() {
            self.min = self.min.min(bucket);
            self.max = self.max.max(bucket);
        }
    }

    /// Takes a sample back.
    pub(crate) fn subtract(&mut self, value: f64, weight: f64) {
        let epsilon = self.buckets.epsilon();
        let rest = |from: f64| if from - weight < epsilon { 0.0 } else { from - weight };
        let bucket = self.buckets.find(value);
        self.total = rest(self.total);
        self.set(bucket, rest(self.weight(bucket)));
        self.trim();
    }

    /// Adds all samples of another histogram with the same buckets.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (bucket, weight) in other.counted() {
            self.set(bucket, self.weight(bucket) + weight);
        }
        self.total += other.total;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Multiplies all weights. Buckets at either end that become empty are forgotten.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.weights.iter_mut().for_each(|weight| *weight *= factor);
        self.total *= factor;
        self.trim();
        let (min, max) = (self.min, self.max);
        let is_kept = |bucket: u8| (min..=max).contains(&bucket);
        for bucket in self.buckets_present().filter(|bucket| !is_kept(*bucket)).collect::<Vec<_>>() {
            self.set(bucket, 0.0);
        }
        self.weights.shrink_to_fit();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.weight(self.min) < self.buckets.epsilon()
    }

    /// The end of the bucket below which `percentile` (0 to 1) of the weight lies; 0 if the histogram is empty.
    pub(crate) fn percentile(&self, percentile: f64) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let threshold = percentile * self.total;
        let mut sum = 0.0;
        let reached = |&(bucket, weight): &(u8, f64)| {
            sum += weight;
            bucket >= self.max || sum >= threshold
        };
        let bucket = self.counted().find(reached).map_or(self.max, |(bucket, _)| bucket);
        self.buckets.end(bucket)
    }

    /// The weights relative to the largest, as whole numbers, and the total.
    pub(crate) fn save(&self) -> HistogramCheckpoint {
        let largest = self.counted().map(|(_, weight)| weight).fold(0.0, f64::max);
        let ratio = MAX_CHECKPOINT_WEIGHT / largest;
        let stored = |(bucket, weight): (u8, f64)| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10000")]
            let weight = (weight * ratio + 0.5).floor() as u32;
            (weight > 0).then_some((i32::from(bucket), weight))
        };
        let bucket_weights: BTreeMap<i32, u32> =
            if largest > 0.0 { self.counted().filter_map(stored).collect() } else { BTreeMap::new() };
        HistogramCheckpoint { reference_timestamp: None, bucket_weights, total_weight: self.total }
    }

    /// Adds what a checkpoint stores.
    pub(crate) fn load(&mut self, checkpoint: &HistogramCheckpoint) -> Result<(), CheckpointError> {
        if checkpoint.total_weight < 0.0 {
            return Err(CheckpointError::NegativeWeight(checkpoint.total_weight));
        }
        let last = i32::from(self.buckets.last());
        for &bucket in checkpoint.bucket_weights.keys() {
            if bucket > last {
                let count = u16::from(self.buckets.last()) + 1;
                return Err(CheckpointError::NoSuchBucket { bucket, count });
            }
            if bucket < 0 {
                return Err(CheckpointError::NegativeBucket(bucket));
            }
        }
        let sum: u64 = checkpoint.bucket_weights.values().map(|weight| u64::from(*weight)).sum();
        if sum == 0 {
            return Ok(());
        }
        #[expect(clippy::cast_precision_loss, reason = "at most 176 numbers of 32 bits")]
        let ratio = checkpoint.total_weight / sum as f64;
        for (&bucket, &weight) in &checkpoint.bucket_weights {
            let bucket = u8::try_from(bucket).unwrap_or(u8::MAX);
            self.min = self.min.min(bucket);
            self.max = self.max.max(bucket);
            self.set(bucket, self.weight(bucket) + f64::from(weight) * ratio);
        }
        self.total += checkpoint.total_weight;
        self.trim();
        Ok(())
    }

    /// The buckets that count, and their weights, in order.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (u8, f64)> {
        let weighted = self.buckets_present().zip(&self.weights).map(|(bucket, weight)| (bucket, *weight));
        weighted.filter(|(bucket, _)| (self.min..=self.max).contains(bucket))
    }

    /// Where each bucket that counts ends, and its share of the weight.
    pub(crate) fn shares(&self) -> Vec<(f64, f64)> {
        self.counted().map(|(bucket, weight)| (self.buckets.end(bucket), weight / self.total)).collect()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        self.weights.capacity() * size_of::<f64>()
    }

    /// Narrows to the buckets that are not empty.
    fn trim(&mut self) {
        let epsilon = self.buckets.epsilon();
        while self.min < self.buckets.last() && self.weight(self.min) < epsilon {
            self.min += 1;
        }
        while self.max > 0 && self.weight(self.max) < epsilon {
            self.max -= 1;
        }
    }

    fn weight(&self, bucket: u8) -> f64 {
        if self.is_present(bucket) { self.weights.get(self.rank(bucket)).copied().unwrap_or_default() } else { 0.0 }
    }

    fn set(&mut self, bucket: u8, weight: f64) {
        let rank = self.rank(bucket);
        match (self.is_present(bucket), weight == 0.0) {
            (true, false) => {
                if let Some(old) = self.weights.get_mut(rank) {
                    *old = weight;
                }
            }
            (true, true) => {
                self.weights.remove(rank);
                self.flip(bucket);
            }
            (false, false) => {
                self.weights.reserve_exact(1);
                self.weights.insert(rank, weight);
                self.flip(bucket);
            }
            (false, true) => {}
        }
    }

    fn is_present(&self, bucket: u8) -> bool {
        self.present.get(usize::from(bucket / 64)).is_some_and(|word| word >> (bucket % 64) & 1 == 1)
    }

    fn flip(&mut self, bucket: u8) {
        if let Some(word) = self.present.get_mut(usize::from(bucket / 64)) {
            *word ^= 1 << (bucket % 64);
        }
    }

    /// How many buckets before this one have weight.
    fn rank(&self, bucket: u8) -> usize {
        let (word, bit) = (usize::from(bucket / 64), bucket % 64);
        let before = self.present.iter().take(word).map(|word| word.count_ones()).sum::<u32>();
        let within = self.present.get(word).map_or(0, |word| (word & ((1 << bit) - 1)).count_ones());
        (before + within) as usize
    }

    fn buckets_present(&self) -> impl Iterator<Item = u8> + use<> {
        let mut words = self.present;
        let mut index = 0_u8;
        std::iter::from_fn(move || {
            loop {
                let word = words.get_mut(usize::from(index))?;
                if *word == 0 {
                    index += 1;
                    continue;
                }
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return u8::try_from(u32::from(index) * 64 + bit).ok();
            }
        })
    }
}

#[cfg(test)]
mod tests;
