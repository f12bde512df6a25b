//! The preview of one changed SidecarSet over many workloads, a third of which it matches.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark that cannot set its stage stops there")]

use std::collections::BTreeSet;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pillion_admission::{Offline, Snapshot};
use pillion_api::sidecarset::SidecarSet;
use pillion_inject::Catalog;
use pillion_preview::{Input, RunningPod, Workload, preview};
use pillion_testkit::{mk_container, mk_set, mk_sized};
use serde_json::{Value, json};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Namespaces, each of which has workloads of every team.
const NAMESPACES: usize = 50;

fn sets(image: &str) -> impl Iterator<Item = SidecarSet> {
    let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "max(cpu*50%, 50m)"}, "requests": {"cpu": "cpu*20%"}}});
    let proxy = json!({"name": "proxy", "image": image, "resourcesPolicy": policy});
    let mesh = mk_set("mesh", json!({"team": "team-0"}), json!({"containers": [proxy]}));
    let others = (0..100).map(|i| {
        mk_set(
            &format!("other-{i}"),
            json!({"team": format!("team-{i}")}),
            json!({"containers": [mk_container("agent")]}),
        )
    });
    std::iter::once(mesh).chain(others)
}

/// A Deployment with a template of about 3 KiB.
fn workload(i: usize) -> Workload {
    let mut app = mk_sized("app", ("2", "4Gi"), ("500m", "1Gi"));
    app["env"] =
        (0..40).map(|i| json!({"name": format!("VARIABLE_{i}"), "value": format!("value-of-variable-{i}")})).collect();
    let labels = json!({"app": format!("app-{i}"), "team": format!("team-{}", i % 3)});
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": format!("app-{i}"), "namespace": format!("namespace-{}", i % NAMESPACES)},
        "spec": {"replicas": 3, "template": {"metadata": {"labels": labels}, "spec": {"containers": [app]}}},
    });
    Workload::of(object).expect("a workload")
}

/// A pod of the workload, injected before.
fn pod(workload: &Workload, now: &Offline) -> RunningPod {
    let (pod, _) = now.pod(&workload.object).expect("a pod").expect("a pod");
    let mut value: Value = pod.as_value().clone();
    let patch = now.decide(&pod, Some("2026-01-01T00:00:00Z".parse().expect("a time"))).outcome.expect("admitted");
    json_patch::patch(&mut value, &patch).expect("the patch fits");
    RunningPod::of(&value).expect("it runs")
}

fn benches(criterion: &mut Criterion) {
    let offline = |image: &str| Offline {
        snapshot: Snapshot {
            catalog: Catalog::new(sets(image), &[]).expect("the sets compile"),
            ..Snapshot::default()
        },
        ..Offline::default()
    };
    let (now, then) = (offline("envoy:1"), offline("envoy:2"));
    let applied: BTreeSet<String> = ["mesh".to_owned()].into();
    let mut group = criterion.benchmark_group("preview");
    group.sample_size(10);
    for count in [1_000, 10_000] {
        let workloads: Vec<Workload> = (0..count).map(workload).collect();
        let pods: Vec<RunningPod> = workloads.iter().map(|workload| pod(workload, &now)).collect();
        let input = Input { now: &now, then: &then, applied: &applied, workloads: &workloads, pods: &pods };
        assert_eq!(preview(&input).workloads.len(), count.div_ceil(3), "every workload of the team changes");
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("{count} workloads"), |bencher| bencher.iter(|| preview(black_box(&input))));
    }
    group.finish();
}

criterion_group!(previews, benches);
criterion_main!(previews);
