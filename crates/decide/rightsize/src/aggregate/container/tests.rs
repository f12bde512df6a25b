//! The tables of upstream's `pkg/recommender/model/container_test.go`.

use pillion_expr::Resource;

use super::*;
use crate::settings::SampleSettings;

const MIB: i64 = 1 << 20;

fn hours(count: i64) -> Timestamp {
    Timestamp::from_second(1_500_000_000).unwrap() + SignedDuration::from_hours(count)
}

struct It {
    aggregate: Aggregate,
    container: Container,
    memory: MemorySettings,
}

impl It {
    fn new() -> It {
        It {
            aggregate: Aggregate::new(&SampleSettings::default(), hours(0)),
            container: Container::default(),
            memory: MemorySettings::default(),
        }
    }

    fn with_interval(hours: i64) -> It {
        let memory = MemorySettings { interval: SignedDuration::from_hours(hours), ..MemorySettings::default() };
        It { memory, ..It::new() }
    }

    fn cpu(&mut self, millicores: i64, at: Timestamp) -> Result<(), Rejected> {
        self.container.add_cpu(&mut self.aggregate, millicores, at)
    }

    fn memory(&mut self, bytes: i64, at: Timestamp) -> Result<(), Rejected> {
        self.container.add_memory(&mut self.aggregate, &self.memory, bytes, at)
    }

    fn oom(&mut self, requested: i64, at: Timestamp) -> Result<(), Rejected> {
        self.container.record_oom(&mut self.aggregate, &self.memory, requested, at)
    }

    /// The peaks in the histogram, as whole MiB of the end of their bucket.
    fn peaks(&self) -> Vec<i64> {
        let shares = self.aggregate.shares(Resource::Memory);
        shares.iter().map(|(end, _)| crate::amount::amount(*end) / MIB).collect()
    }

    /// The end of the bucket of so many MiB.
    fn bucket(mebibytes: i64) -> i64 {
        let buckets = &crate::buckets::MEMORY;
        let value = crate::amount::to_histogram(Resource::Memory, mebibytes * MIB);
        crate::amount::amount(buckets.end(buckets.find(value))) / MIB
    }
}

#[test]
fn only_the_peak_of_each_window_counts() {
    let mut it = It::new();
    for (at, millicores, mebibytes) in [(0, 3140, 500), (12, 6280, 1000), (24, 1570, 200)] {
        it.cpu(millicores, hours(at)).unwrap();
        it.memory(mebibytes * MIB, hours(at)).unwrap();
    }
    assert_eq!(it.aggregate.samples(), 3);
    assert_eq!(it.peaks(), [It::bucket(200), It::bucket(1000)]);
    assert_eq!(it.container.window_end, Moment::from(hours(48)));

    assert_eq!(it.cpu(1000, hours(24)), Err(Rejected::OutOfOrder));
    assert_eq!(it.cpu(-1000, hours(48)), Err(Rejected::Negative));
    assert_eq!(it.memory(-1, hours(48)), Err(Rejected::Negative));
    assert_eq!(it.memory(1, hours(23)), Err(Rejected::OutOfOrder));
    assert_eq!(it.memory(300 * MIB, hours(24)), Ok(()));
    assert_eq!(it.aggregate.samples(), 3);
}

#[test]
fn an_oom_kill_counts_as_a_fifth_more_than_was_requested() {
    let mut it = It::new();
    it.oom(1000 * MIB, hours(0)).unwrap();
    assert_eq!(it.peaks(), [It::bucket(1200)]);
    for _ in 0..3 {
        it.oom(999 * MIB, hours(0)).unwrap();
    }
    assert_eq!(it.peaks(), [It::bucket(1200)]);
    it.oom(2000 * MIB, hours(0)).unwrap();
    assert_eq!(it.peaks(), [It::bucket(2400)]);
}

#[test]
fn a_small_container_grows_by_at_least_a_hundred_mebibytes() {
    let mut it = It::new();
    it.oom(MIB, hours(0)).unwrap();
    assert_eq!(it.peaks(), [It::bucket(101)]);
}

#[test]
fn usage_above_the_request_is_what_grows() {
    let mut it = It::new();
    it.memory(3000 * MIB, hours(0)).unwrap();
    it.oom(1000 * MIB, hours(0)).unwrap();
    assert_eq!(it.peaks(), [It::bucket(3600)]);
}

#[test]
fn an_oom_kill_older_than_the_window_is_rejected_and_one_just_before_the_last_sample_is_not() {
    let mut it = It::new();
    it.memory(1000 * MIB, hours(0)).unwrap();
    assert_eq!(it.oom(1000 * MIB, hours(-30)), Err(Rejected::TooOld));

    let mut it = It::new();
    it.memory(100 * MIB, hours(0)).unwrap();
    it.memory(2000 * MIB, hours(24)).unwrap();
    it.oom(2000 * MIB, hours(24) - SignedDuration::from_secs(1)).unwrap();
    assert_eq!(it.peaks(), [It::bucket(100), It::bucket(2400)]);
}

#[test]
fn an_oom_kill_in_a_later_window_opens_it() {
    let mut it = It::new();
    it.memory(2000 * MIB, hours(0)).unwrap();
    it.oom(2000 * MIB, hours(48)).unwrap();
    assert_eq!(it.peaks(), [It::bucket(2000), It::bucket(2400)]);
    assert_eq!(it.container.window_end, Moment::from(hours(72)));
}

#[test]
fn the_window_is_as_long_as_its_settings_say() {
    let mut it = It::with_interval(1);
    it.memory(500 * MIB, hours(0)).unwrap();
    it.memory(1000 * MIB, hours(2)).unwrap();
    assert_eq!(it.peaks(), [It::bucket(500), It::bucket(1000)]);
    assert_eq!(it.container.window_end, Moment::from(hours(3)));

    let mut it = It::with_interval(1);
    it.memory(500 * MIB, hours(0)).unwrap();
    it.memory(1000 * MIB, hours(0) + SignedDuration::from_mins(30)).unwrap();
    assert_eq!(it.peaks(), [It::bucket(1000)]);
    assert_eq!(it.oom(1000 * MIB, hours(-2)), Err(Rejected::TooOld));
}

#[test]
fn a_running_container_takes_forty_bytes() {
    assert_eq!(size_of::<Container>(), 40);
}
