//! One pass of the recommender: usage of every container, then a recommendation for every workload.
//!
//! Two containers in a pod and ten pods in a workload. Each container has a day of samples behind it.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::{Gates, PodResourcePolicy, ResourceList};
use pillion_rightsize::{
    Candidate, ContainerKind, EstimatorSettings, RecommendationFormat, SampleSettings, Usage, Workload, cap_to_policy,
    recommend,
};

const CONTAINERS: [&str; 2] = ["app", "mesh"];
const PODS_PER_WORKLOAD: usize = 10;

struct Fleet {
    usage: Usage,
    workloads: Vec<Workload>,
    pods: Vec<String>,
    minute: i64,
}

impl Fleet {
    fn new(containers: usize) -> Fleet {
        let pods = containers / CONTAINERS.len();
        let workload =
            |i: usize| Workload { namespace: "load".into(), kind: "Deployment".into(), name: format!("web-{i}") };
        let workloads: Vec<Workload> = (0..pods / PODS_PER_WORKLOAD).map(workload).collect();
        let gates = Gates { native_sidecar: true, ..Gates::default() };
        let mut usage = Usage::new(SampleSettings::default(), gates);
        let pods: Vec<String> = (0..pods).map(|i| format!("load/web-{}-{i}", i / PODS_PER_WORKLOAD)).collect();
        for (i, pod) in pods.iter().enumerate() {
            let containers = [("app", ContainerKind::Regular), ("mesh", ContainerKind::NativeSidecar)];
            usage.add_pod(pod, &workloads[i / PODS_PER_WORKLOAD], containers, Timestamp::UNIX_EPOCH);
        }
        let mut fleet = Fleet { usage, workloads, pods, minute: 0 };
        for _ in 0..24 {
            fleet.minute += 59;
            fleet.sample();
        }
        fleet
    }

    /// One minute of usage, which varies by a factor of four.
    fn sample(&mut self) {
        self.minute += 1;
        let at = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(self.minute);
        for (i, pod) in (0_i64..).zip(&self.pods) {
            let wave = (self.minute * 7919 + i * 104_729) % 300;
            for container in CONTAINERS {
                let _ = self.usage.add_sample(pod, container, 100 + wave, (200 + wave) << 20, at);
            }
        }
    }

    /// How many containers get a recommendation.
    fn recommend(&self) -> usize {
        let (settings, format) = (EstimatorSettings::default(), RecommendationFormat::default());
        let policy = PodResourcePolicy::default();
        let recommend_for = |workload: &Workload| {
            let candidates: Vec<Candidate<'_>> = self
                .usage
                .containers(workload)
                .filter_map(|usage| {
                    Some(Candidate {
                        name: usage.name(),
                        kind: usage.kind()?,
                        aggregate: usage.aggregate(),
                        policy: policy.of(usage.name()),
                    })
                })
                .collect();
            let mut recommendation = format.apply(&recommend(&candidates, &settings));
            cap_to_policy(&mut recommendation, Some(&policy), &ResourceList::default());
            recommendation.container_recommendations.len()
        };
        self.workloads.iter().map(recommend_for).sum()
    }
}

fn pass(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rightsize");
    group.sample_size(10);
    for containers in [10_000, 100_000] {
        let mut fleet = Fleet::new(containers);
        group.throughput(Throughput::Elements(containers as u64));
        group.bench_function(BenchmarkId::new("pass", containers), |bencher| {
            bencher.iter(|| {
                fleet.sample();
                black_box(fleet.recommend())
            });
        });
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(fleet.minute);
        group.bench_function(BenchmarkId::new("checkpoints", containers), |bencher| {
            let checkpoint =
                |workload| fleet.usage.containers(workload).map(|it| it.to_checkpoint(now)).collect::<Vec<_>>();
            bencher.iter(|| fleet.workloads.iter().map(checkpoint).collect::<Vec<_>>());
        });
    }
    group.finish();
}

criterion_group!(benches, pass);
criterion_main!(benches);
