//! The tables of upstream's `pkg/recommender/model/aggregate_container_state_test.go` and
//! `pkg/recommender/checkpoint/checkpoint_writer_test.go`.

use proptest::prelude::*;

use super::*;

const GIB: i64 = 1 << 30;

fn hours(count: i64) -> Timestamp {
    Timestamp::from_second(1_500_000_000).unwrap() + SignedDuration::from_hours(count)
}

fn empty() -> Aggregate {
    Aggregate::new(&SampleSettings::default(), hours(0))
}

#[test]
fn a_checkpoint_has_the_buckets_and_the_version() {
    let mut it = empty();
    it.add_cpu(1000, hours(0).into());
    it.add_peak(1, hours(0).into(), hours(0).into());
    it.add_peak(10_000_000, hours(0).into(), hours(0).into());
    let saved = it.to_checkpoint([], hours(0));
    assert_eq!(saved.version, "v3");
    assert_eq!((saved.cpu_histogram.bucket_weights.len(), saved.memory_histogram.bucket_weights.len()), (1, 2));
    assert_eq!(saved.total_samples_count, 1);
}

#[test]
fn a_checkpoint_of_another_version_is_rejected() {
    let saved = VerticalPodAutoscalerCheckpointStatus { version: "foo".into(), ..Default::default() };
    let error = Aggregate::from_checkpoint(&saved, &SampleSettings::default()).unwrap_err();
    assert_eq!(error.to_string(), r#"unsupported checkpoint version "foo"; expected "v3""#);
}

#[test]
fn the_peak_of_an_open_window_is_not_stored() {
    let (mut aggregate, mut container) = (empty(), Container::default());
    container.add_memory(&mut aggregate, &MemorySettings::default(), GIB, hours(0)).unwrap();
    assert!(aggregate.to_checkpoint([&container], hours(0)).memory_histogram.bucket_weights.is_empty());
    assert_eq!(aggregate.to_checkpoint([&container], hours(24)).memory_histogram.bucket_weights.len(), 1);
    assert!(!aggregate.is_empty(Resource::Memory));
}

/// Upstream leaves it out, and forgets the kill with a restart.
#[test]
fn an_oom_kill_in_an_open_window_is_stored() {
    let (mut aggregate, mut container) = (empty(), Container::default());
    let settings = MemorySettings::default();
    container.add_memory(&mut aggregate, &settings, GIB, hours(0)).unwrap();
    container.record_oom(&mut aggregate, &settings, GIB, hours(1)).unwrap();
    let saved = aggregate.to_checkpoint([&container], hours(1));
    let loaded = Aggregate::from_checkpoint(&saved, &SampleSettings::default()).unwrap();
    assert_eq!(loaded.percentile(Resource::Memory, 0.9), aggregate.percentile(Resource::Memory, 0.9));
    // What is measured above it takes its place, and is left out until its window ends.
    container.add_memory(&mut aggregate, &settings, 4 * GIB, hours(2)).unwrap();
    assert!(aggregate.to_checkpoint([&container], hours(2)).memory_histogram.bucket_weights.is_empty());
}

#[test]
fn history_expires_after_eight_days_without_a_sample() {
    let settings = MemorySettings::default();
    let mut it = empty();
    assert!(!it.is_expired(&settings, hours(7 * 24)) && it.is_expired(&settings, hours(8 * 24)));
    it.add_cpu(1000, hours(24).into());
    assert!(!it.is_expired(&settings, hours(8 * 24)) && it.is_expired(&settings, hours(9 * 24)));
    let four = MemorySettings { interval_count: 4, ..settings };
    assert!(!it.is_expired(&four, hours(24 + 95)) && it.is_expired(&four, hours(24 + 96)));
}

/// Upstream counts only CPU samples, and loses what it knows of short jobs from OOM kills (autoscaler issue 10211).
#[test]
fn history_that_is_known_only_from_oom_kills_is_kept_as_long() {
    let (mut aggregate, mut container) = (empty(), Container::default());
    container.record_oom(&mut aggregate, &MemorySettings::default(), GIB, hours(5 * 24)).unwrap();
    assert!(!aggregate.is_expired(&MemorySettings::default(), hours(12 * 24)));
}

#[test]
fn merging_adds_samples_and_widens_their_span() {
    let (mut a, mut b) = (empty(), empty());
    a.add_cpu(1000, hours(1).into());
    b.add_cpu(2000, hours(0).into());
    b.add_cpu(2000, hours(2).into());
    a.merge(&b);
    a.merge(&empty());
    assert_eq!(a.samples(), 3);
    assert_eq!((a.first_sample(), a.last_sample()), (Some(hours(0)), Some(hours(2))));
}

/// Ten days with a CPU sample each minute that varies by a factor of four, and a peak of memory each day.
#[test]
fn a_container_at_rest_takes_less_than_a_kilobyte() {
    let (mut aggregate, mut container) = (empty(), Container::default());
    let settings = MemorySettings::default();
    for minute in 0..10 * 24 * 60_i64 {
        let at = hours(0) + SignedDuration::from_mins(minute);
        let wave = (minute * 7919) % 300;
        container.add_cpu(&mut aggregate, 100 + wave, at).unwrap();
        container.add_memory(&mut aggregate, &settings, (200 + wave) << 20, at).unwrap();
    }
    assert_eq!(aggregate.samples(), 14_400);
    let size = aggregate.size() + size_of::<Container>();
    assert!(size < 1024, "{size} bytes");
}

proptest! {
    #[test]
    fn a_checkpoint_of_a_loaded_checkpoint_is_the_same(
        cpu in prop::collection::vec((0..100_000_i64, 0..200_i64), 0..60),
        memory in prop::collection::vec((0..GIB * 64, 0..200_i64), 0..60),
    ) {
        let mut it = empty();
        for &(millicores, at) in &cpu {
            it.add_cpu(millicores, hours(at).into());
        }
        for &(bytes, at) in &memory {
            it.add_peak(bytes, hours(at).into(), hours(at).into());
        }
        let saved = it.to_checkpoint([], hours(300));
        let loaded = Aggregate::from_checkpoint(&saved, &SampleSettings::default()).unwrap();
        prop_assert_eq!(loaded.to_checkpoint([], hours(300)), saved);
    }

    #[test]
    fn a_checkpoint_survives_json(cpu in prop::collection::vec((0..100_000_i64, 0..200_i64), 0..60)) {
        let mut it = empty();
        for &(millicores, at) in &cpu {
            it.add_cpu(millicores, hours(at).into());
        }
        let mut saved = it.to_checkpoint([], hours(300));
        let text = serde_json::to_string(&saved).unwrap();
        let read: VerticalPodAutoscalerCheckpointStatus = serde_json::from_str(&text).unwrap();
        // JSON numbers are read to within the last bit.
        let (written, stored) = (saved.cpu_histogram.total_weight, read.cpu_histogram.total_weight);
        prop_assert!((written - stored).abs() <= written * 1e-15);
        saved.cpu_histogram.total_weight = stored;
        prop_assert_eq!(read, saved);
    }
}
