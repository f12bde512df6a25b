//! Noisy usage that is the same in every run, and the checkpoints of two days of it.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::PODS;

/// Usage is spread over as many buckets of a histogram.
const BUCKETS: u32 = 20;
/// The first bucket of CPU in millicores, and of memory in kibibytes. Each further one is larger by a twentieth.
const FIRST: (f64, f64) = (10.0, 1e7 / 1024.0);
/// Samples of ten pods in two days, one a minute.
const SAMPLES: u32 = 28_800;
/// What they weigh together after two days, in which older ones have lost weight: a tenth for each sample of CPU, and one for the peak of each
/// pod and day.
const WEIGHTS: (f64, f64) = (1_500.0, 12.0);

/// What a container uses in a sample, in millicores and kibibytes: anything between the ends of its buckets. The first sample has the peak of
/// memory of the day, or nearly: pods did not start just now.
pub(super) fn usage(pod: usize, container: &str, number: u64) -> (usize, usize) {
    let (cpu, memory) = buckets(pod / PODS, container);
    let seed = (pod as u64) << 24 | number << 1 | u64::from(container == "app");
    let peak = if number == 1 { 0.9 } else { 0.0 };
    (between(FIRST.0, cpu, random(seed)), between(FIRST.1, memory, peak + (1.0 - peak) * random(!seed)))
}

/// The checkpoint of a container before `start`: usage was evenly spread, so that each bucket weighs as much as it is wide, and the peak of a
/// day was in one of the last buckets.
pub(super) fn checkpoint(group: usize, container: &str, start: Timestamp) -> Value {
    let name = format!("web-{group}");
    let (cpu, memory) = buckets(group, container);
    let day = 86_400;
    let midnight = Timestamp::from_second(start.as_second() / day * day).unwrap_or(start);
    let histogram = |first: u32, from: u32, total: f64| {
        let weight = |bucket: u32| whole(10_000.0 * growth(bucket) / growth(BUCKETS - 1));
        let weights: Map<String, Value> =
            (from..BUCKETS).map(|bucket| ((first + bucket).to_string(), json!(weight(bucket)))).collect();
        json!({"referenceTimestamp": midnight, "bucketWeights": weights, "totalWeight": total})
    };
    json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": format!("{name}-{container}")},
        "spec": {"vpaObjectName": name, "containerName": container},
        "status": {
            "version": "v3", "totalSamplesCount": SAMPLES, "lastUpdateTime": start,
            "firstSampleStart": start - SignedDuration::from_hours(48), "lastSampleStart": start,
            "cpuHistogram": histogram(cpu, 0, WEIGHTS.0), "memoryHistogram": histogram(memory, BUCKETS - 4, WEIGHTS.1)
        }
    })
}

/// The first buckets of CPU and memory of a container.
fn buckets(group: usize, container: &str) -> (u32, u32) {
    let shift = u32::try_from(group % 20).unwrap_or_default() + u32::from(container == "app") * 7;
    (4 + shift, 10 + shift)
}

/// An amount between the ends of buckets, by a share.
fn between(size: f64, first: u32, share: f64) -> usize {
    let begin = |bucket: u32| size * (growth(bucket) - 1.0) / 0.05;
    let (low, high) = (begin(first), begin(first + BUCKETS));
    usize::try_from(whole(low + (high - low) * share)).unwrap_or_default()
}

fn growth(bucket: u32) -> f64 {
    1.05_f64.powi(i32::try_from(bucket).unwrap_or_default())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "amounts of a container")]
fn whole(amount: f64) -> u64 {
    amount as u64
}

/// From 0 to 1, by a seed.
fn random(seed: u64) -> f64 {
    // SplitMix64.
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let high = u32::try_from((bits ^ (bits >> 31)) >> 32).unwrap_or_default();
    f64::from(high) / f64::from(u32::MAX)
}
