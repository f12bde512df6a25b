//! The history of one container of one workload: all its pods, past and present.

pub(crate) mod container;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pillion_api::vpa::{CHECKPOINT_VERSION, VerticalPodAutoscalerCheckpointStatus};
use pillion_expr::Resource;

use crate::amount::{from_histogram, to_histogram};
use crate::buckets::{self, MIN_SAMPLE_WEIGHT};
use crate::decaying_histogram::{DecayingHistogram, whole_seconds};
use crate::histogram::CheckpointError;
use crate::settings::{MemorySettings, SampleSettings};
use crate::time::{Moment, nanos};
use container::Container;

/// The weight of a peak of memory.
const PEAK_WEIGHT: f64 = 1.0;

/// CPU usage and peaks of memory usage of one container, over all pods of its workload.
#[derive(Clone, Debug)]
pub struct Aggregate {
    cpu: DecayingHistogram,
    memory: DecayingHistogram,
    /// Of CPU samples, as in a checkpoint.
    first_sample: Moment,
    last_sample: Moment,
    samples: i64,
    /// Of any sample, so that what is only known from OOM kills does not expire early.
    last_of_any: Moment,
}

impl Aggregate {
    /// No history; `now` counts as the last sign of life.
    pub fn new(settings: &SampleSettings, now: Timestamp) -> Aggregate {
        Aggregate {
            cpu: DecayingHistogram::new(&buckets::CPU, settings.cpu_half_life),
            memory: DecayingHistogram::new(&buckets::MEMORY, settings.memory_half_life),
            first_sample: Moment::NEVER,
            last_sample: Moment::NEVER,
            samples: 0,
            last_of_any: now.into(),
        }
    }

    /// The history that a checkpoint stores.
    ///
    /// # Errors
    /// The checkpoint has another version, or buckets or weights that cannot be.
    pub fn from_checkpoint(
        checkpoint: &VerticalPodAutoscalerCheckpointStatus,
        settings: &SampleSettings,
    ) -> Result<Aggregate, CheckpointError> {
        if checkpoint.version != CHECKPOINT_VERSION {
            return Err(CheckpointError::Version(checkpoint.version.clone()));
        }
        let moment = |time: &Option<Time>| Moment::from(time.as_ref().map(|time| time.0));
        let mut aggregate = Aggregate::new(settings, Timestamp::UNIX_EPOCH);
        aggregate.memory.load(&checkpoint.memory_histogram)?;
        aggregate.cpu.load(&checkpoint.cpu_histogram)?;
        aggregate.samples = checkpoint.total_samples_count.max(0);
        aggregate.first_sample = moment(&checkpoint.first_sample_start);
        aggregate.last_sample = moment(&checkpoint.last_sample_start);
        aggregate.last_of_any = aggregate.last_sample.max(moment(&checkpoint.last_update_time));
        Ok(aggregate)
    }

    /// What to store. Peaks of windows that are still open are left out: after a restart the same window would be counted
    /// again from its beginning. What a container was OOM killed for is stored: it may never be measured again.
    pub fn to_checkpoint<'a>(
        &self,
        live: impl IntoIterator<Item = &'a Container>,
        now: Timestamp,
    ) -> VerticalPodAutoscalerCheckpointStatus {
        let mut memory = None;
        for (peak, window_end) in live.into_iter().filter_map(Container::measured_peak) {
            if window_end > now.into() {
                let memory = memory.get_or_insert_with(|| self.memory.clone());
                memory.subtract(to_histogram(Resource::Memory, peak), PEAK_WEIGHT, window_end);
            }
        }
        VerticalPodAutoscalerCheckpointStatus {
            last_update_time: whole_seconds(now.into()),
            version: CHECKPOINT_VERSION.to_owned(),
            cpu_histogram: self.cpu.save(),
            memory_histogram: memory.as_ref().unwrap_or(&self.memory).save(),
            first_sample_start: whole_seconds(self.first_sample),
            last_sample_start: whole_seconds(self.last_sample),
            total_samples_count: self.samples,
        }
    }

    /// Adds the history of another aggregate with the same half-lives.
    pub fn merge(&mut self, other: &Aggregate) {
        self.cpu.merge(&other.cpu);
        self.memory.merge(&other.memory);
        if self.first_sample.is_never() || (!other.first_sample.is_never() && other.first_sample < self.first_sample) {
            self.first_sample = other.first_sample;
        }
        self.last_sample = self.last_sample.max(other.last_sample);
        self.last_of_any = self.last_of_any.max(other.last_of_any);
        self.samples += other.samples;
    }

    pub(crate) fn add_cpu(&mut self, millicores: i64, at: Moment) {
        self.cpu.add(to_histogram(Resource::Cpu, millicores), MIN_SAMPLE_WEIGHT, at);
        self.last_sample = self.last_sample.max(at);
        self.last_of_any = self.last_of_any.max(at);
        if self.first_sample.is_never() || at < self.first_sample {
            self.first_sample = at;
        }
        self.samples += 1;
    }

    pub(crate) fn add_peak(&mut self, bytes: i64, window_end: Moment, at: Moment) {
        self.memory.add(to_histogram(Resource::Memory, bytes), PEAK_WEIGHT, window_end);
        self.last_of_any = self.last_of_any.max(at);
    }

    pub(crate) fn subtract_peak(&mut self, bytes: i64, window_end: Moment) {
        self.memory.subtract(to_histogram(Resource::Memory, bytes), PEAK_WEIGHT, window_end);
    }

    /// A percentile (0 to 1) of usage, in millicores or bytes.
    pub fn percentile(&self, resource: Resource, percentile: f64) -> i64 {
        from_histogram(resource, self.of(resource).percentile(percentile))
    }

    /// Whether nothing is known of a resource.
    pub fn is_empty(&self, resource: Resource) -> bool {
        self.of(resource).is_empty()
    }

    /// Where each bucket with weight ends (in cores or bytes), and its share of the weight.
    pub fn shares(&self, resource: Resource) -> Vec<(f64, f64)> {
        self.of(resource).shares()
    }

    /// How many CPU samples there were.
    pub fn samples(&self) -> i64 {
        self.samples
    }

    /// Time of the first CPU sample.
    pub fn first_sample(&self) -> Option<Timestamp> {
        self.first_sample.timestamp()
    }

    /// Time of the last CPU sample.
    pub fn last_sample(&self) -> Option<Timestamp> {
        self.last_sample.timestamp()
    }

    /// Time of the last sample or OOM kill; of a checkpoint, also when that was written.
    pub fn last_change(&self) -> Option<Timestamp> {
        self.last_of_any.timestamp()
    }

    /// How much history there is: 1 is a whole interval with a sample in each minute.
    pub(crate) fn confidence(&self, interval: SignedDuration) -> f64 {
        if self.samples == 0 || self.first_sample.is_never() {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "as upstream does")]
        let (span, interval_nanos, samples) =
            (self.last_sample.nanos_since(self.first_sample) as f64, nanos(interval) as f64, self.samples as f64);
        let minutes = interval_nanos / 60e9;
        (span / interval_nanos).min(samples / minutes)
    }

    /// Whether the history is too old to keep.
    pub fn is_expired(&self, settings: &MemorySettings, now: Timestamp) -> bool {
        Moment::from(now).nanos_since(self.last_of_any) >= nanos(settings.window())
    }

    /// Bytes that this history takes.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.cpu.heap_size() + self.memory.heap_size()
    }

    fn of(&self, resource: Resource) -> &DecayingHistogram {
        match resource {
            Resource::Cpu => &self.cpu,
            Resource::Memory => &self.memory,
        }
    }
}

#[cfg(test)]
mod tests;
