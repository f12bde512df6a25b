//! One pass over the pods of a set: 10,000 and 100,000, which grow as n log n at most.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pillion_rollout::{PodView, Snapshot, Target, Texts, plan};
use pillion_testkit::{mk_container, mk_injected_pod, mk_set};
use serde_json::json;

fn set(image: &str) -> pillion_api::sidecarset::SidecarSet {
    let spec = json!({
        "containers": [{"name": "proxy", "image": image}],
        "updateStrategy": {"maxUnavailable": "5%", "partition": "20%"},
    });
    mk_set("mesh", json!({"app": "web"}), spec)
}

/// Half of the pods are updated.
fn views(pods: usize) -> Vec<PodView> {
    let mut texts = Texts::default();
    let [old, new] = ["envoy:1", "envoy:2"].map(|image| {
        let pod = mk_injected_pod("web", json!({"app": "web", "team": "shop"}), [mk_container("app")], &[&set(image)]);
        PodView::new(&pod, &mut texts)
    });
    let named = |i: usize| PodView {
        name: format!("web-{}", i.wrapping_mul(7919) % pods).into(),
        uid: i.to_string().into(),
        ..if i.is_multiple_of(2) { old.clone() } else { new.clone() }
    };
    (0..pods).map(named).collect()
}

fn pass(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rollout/plan");
    group.sample_size(10);
    for pods in [10_000, 100_000] {
        let views = views(pods);
        let target = Target::new(Arc::new(set("envoy:2")));
        let snapshot = Snapshot {
            target: &target,
            revisions: &[],
            is_used_elsewhere: &|_| false,
            is_in_scope: &|_| true,
            refusals: &pillion_rollout::Refusals::default(),
            system_namespace: "kruise-system",
        };
        group.throughput(Throughput::Elements(pods as u64));
        group.bench_function(BenchmarkId::from_parameter(pods), |bencher| {
            bencher.iter(|| plan(&snapshot, black_box(&views), jiff::Timestamp::UNIX_EPOCH));
        });
    }
    group.finish();
}

criterion_group!(benches, pass);
criterion_main!(benches);
