//! Estimates and checkpoints against those of upstream for the same samples.
//!
//! The expected values were computed with upstream's histograms (autoscaler `55c37cd5eb`, Go 1.26, amd64) and a transcription of its
//! aggregation and estimators, fed with the samples of [`feed`]. Amounts, the number of stored buckets and the bits of total weights must be the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot set its stage stops there")]

use jiff::{SignedDuration, Timestamp};
use pillion_rightsize::{
    Aggregate, Candidate, Container, ContainerKind, EstimatorSettings, MemorySettings, SampleSettings, recommend,
};

struct Expected {
    seed: u64,
    /// Lower bound, target and upper bound of CPU in millicores, then of memory in bytes.
    amounts: [i64; 6],
    /// Of CPU and memory.
    total_weights: [u64; 2],
    buckets: [usize; 2],
    samples: i64,
}

const UPSTREAM: &[Expected] = &[
    Expected {
        seed: 1,
        amounts: [10_581, 16_610, 51_274, 6_739_916_691, 7_117_981_766, 21_972_900_234],
        total_weights: [0x4065_2625_55d3_b121, 0x402d_499d_719f_223a],
        buckets: [29, 3],
        samples: 690,
    },
    Expected {
        seed: 2,
        amounts: [6_710, 9_616, 52_543, 22_153_101_549, 25_897_018_079, 134_619_193_104],
        total_weights: [0x40b8_ed49_f74c_d827, 0x409a_08fb_ddc8_edd2],
        buckets: [28, 5],
        samples: 343,
    },
    Expected {
        seed: 8,
        amounts: [4_482, 6_434, 23_567, 22_228_985_123, 31_527_553_769, 109_802_859_678],
        total_weights: [0x421c_7d36_0e93_8f16, 0x4216_aee7_3088_572b],
        buckets: [27, 7],
        samples: 580,
    },
    Expected {
        seed: 12,
        amounts: [6_406, 9_147, 30_501, 11_120_771_559, 11_739_088_017, 37_235_749_773],
        total_weights: [0x4052_b628_4fed_387c, 0x4003_3cda_a845_ab12],
        buckets: [28, 3],
        samples: 663,
    },
    Expected {
        seed: 13,
        amounts: [2_147, 3_136, 14_162, 23_314_423_264, 25_897_018_079, 111_037_899_434],
        total_weights: [0x40e1_268c_b804_613b, 0x40d6_c20d_9ac7_2520],
        buckets: [26, 6],
        samples: 438,
    },
    Expected {
        seed: 57,
        amounts: [974, 1_469, 3_486, 33_024_672_058, 33_115_431_458, 78_588_624_051],
        total_weights: [0x406d_83da_93d1_8170, 0x4009_578c_9bde_67ae],
        buckets: [22, 1],
        samples: 1719,
    },
    Expected {
        seed: 150,
        amounts: [4_443, 6_767, 55_919, 15_595_113_542, 17_453_794_248, 144_084_159_685],
        total_weights: [0x4050_bc38_b036_5e71, 0x4040_cf79_4a43_e49c],
        buckets: [27, 6],
        samples: 210,
    },
    Expected {
        seed: 211,
        amounts: [7_007, 10_108, 93_336, 10_997_264_491, 11_169_131_444, 98_107_235_656],
        total_weights: [0x4049_d9f3_3dac_12b0, 0x4017_a1bb_bf16_0512],
        buckets: [28, 1],
        samples: 185,
    },
    Expected {
        seed: 300,
        amounts: [4_136, 6_767, 129_122, 13_839_922_422, 16_611_708_808, 301_383_859_802],
        total_weights: [0x4029_e36f_30d1_9b20, 0x4014_fc24_9009_3010],
        buckets: [26, 2],
        samples: 84,
    },
];

/// A generator that is easy to write in any language.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((self.0 >> 33) % bound.unsigned_abs()).unwrap()
    }
}

/// Up to three containers of one workload that run for minutes or weeks, and are OOM killed now and then.
fn feed(seed: u64) -> (Aggregate, Timestamp) {
    let mut random = Random(seed.wrapping_mul(7919));
    let memory = MemorySettings::default();
    let mut aggregate = Aggregate::new(&SampleSettings::default(), Timestamp::UNIX_EPOCH);
    let count = 1 + random.below(3);
    let mut containers: Vec<Container> = (0..count).map(|_| Container::default()).collect();
    let mut now = Timestamp::from_second(1_600_000_000 + random.below(100_000)).unwrap();
    let (steps, seconds) = (10 + random.below(600), 1 + random.below(7200));
    let (millicores, megabytes) = (1 + random.below(5000), 1 + random.below(8000));
    for _ in 0..steps {
        now += SignedDuration::from_secs(seconds);
        for container in &mut containers {
            let cpu = millicores + random.below(millicores * 3 + 1);
            let bytes = (megabytes + random.below(megabytes * 2 + 1)) * 1_000_003;
            container.add_cpu(&mut aggregate, cpu, now).unwrap();
            // After a kill that was reported late, the next sample of the same time is not older than the last.
            let _ = container.add_memory(&mut aggregate, &memory, bytes, now);
            if random.below(50) == 0 {
                let requested = (megabytes + random.below(1000)) << 20;
                let at = now - SignedDuration::from_secs(random.below(3600));
                let _ = container.record_oom(&mut aggregate, &memory, requested, at);
            }
        }
    }
    (aggregate, now)
}

#[test]
fn estimates_and_checkpoints_are_those_of_upstream() {
    for expected in UPSTREAM {
        let (aggregate, now) = feed(expected.seed);
        let candidate = Candidate { name: "app", kind: ContainerKind::Regular, aggregate: &aggregate, policy: None };
        let estimates = recommend(&[candidate], &EstimatorSettings::default());
        let amounts: Vec<i64> = estimates[0].derivations.iter().map(|derivation| derivation.amount).collect();
        assert_eq!(amounts, expected.amounts, "seed {}", expected.seed);

        let checkpoint = aggregate.to_checkpoint([], now);
        let histograms = [&checkpoint.cpu_histogram, &checkpoint.memory_histogram];
        let weights = histograms.map(|histogram| histogram.total_weight.to_bits());
        assert_eq!(weights, expected.total_weights, "seed {}", expected.seed);
        assert_eq!(
            histograms.map(|histogram| histogram.bucket_weights.len()),
            expected.buckets,
            "seed {}",
            expected.seed
        );
        assert_eq!(checkpoint.total_samples_count, expected.samples, "seed {}", expected.seed);
    }
}
