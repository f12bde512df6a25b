//! One admission of an 8 KiB pod that three SidecarSets match, among many that cannot.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot set its stage stops there"
)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pillion_admission::{Snapshot, admit};
use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarSet;
use pillion_gates::Gates;
use pillion_inject::Catalog;
use pillion_note::Draw;
use pillion_testkit::{mk_container, mk_pod, mk_set, mk_sized};
use serde_json::{Value, json};

/// A pod of about 8 KiB, as an app with a long environment is.
fn pod() -> Pod {
    let mut app = mk_sized("app", ("2", "4Gi"), ("500m", "1Gi"));
    app["env"] =
        (0..148).map(|i| json!({"name": format!("VARIABLE_{i}"), "value": format!("value-of-variable-{i}")})).collect();
    app["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/config"}]);
    let mut pod = mk_pod("web-0", json!({"app": "web", "tier": "frontend", "pod-template-hash": "5d8f9c7b6"}), [app])
        .into_value();
    pod["spec"]["volumes"] =
        json!([{"name": "data", "emptyDir": {}}, {"name": "config", "configMap": {"name": "web"}}]);
    Pod::new(pod).expect("a pod")
}

fn matching_sets() -> impl Iterator<Item = SidecarSet> {
    ["logs", "mesh", "metrics"].into_iter().map(|name| {
        mk_set(name, json!({"app": "web"}), json!({
            "containers": [{
                "name": name, "image": format!("{name}:1"), "shareVolumePolicy": {"type": "enabled"},
                "transferEnv": [{"sourceContainerName": "app", "envNames": ["VARIABLE_1", "VARIABLE_2"]}],
                "volumeMounts": [{"name": format!("{name}-data"), "mountPath": "/sidecar"}],
                "resourcesPolicy": {"targetContainersMode": "sum", "targetContainersNameRegex": "^app$", "resourcesExpr": {
                    "limits": {"cpu": "max(cpu*50%, 50m)", "memory": "max(memory*25%, 100Mi)"}, "requests": {"cpu": "cpu*20%", "memory": "memory*15%"}}}
            }],
            "volumes": [{"name": format!("{name}-data"), "emptyDir": {}}]
        }))
    })
}

/// Sets that cannot match: of other apps, of other namespaces, and of other values of a label that the pod has.
fn others(count: usize) -> impl Iterator<Item = SidecarSet> {
    (0..count).map(|i| {
        let spec: Value = match i % 3 {
            0 => json!({"containers": [mk_container("c")]}),
            _ => json!({"containers": [mk_container("c")], "namespaceSelector": {"matchLabels": {"team": format!("team-{i}")}}}),
        };
        let app = if i % 3 == 0 { format!("app-{i}") } else { "web".to_owned() };
        mk_set(&format!("other-{i}"), json!({"app": app, "tier": "frontend"}), spec)
    })
}

fn benches(criterion: &mut Criterion) {
    let pod = pod();
    let size = pod.as_value().to_string().len();
    assert!((7_500..9_000).contains(&size), "the pod has {size} bytes");
    let now = Some("2026-01-01T00:00:00Z".parse().expect("a time"));
    for sets in [3, 100, 50_000] {
        let catalog = Catalog::new(matching_sets().chain(others(sets - 3)), &[]).expect("the sets compile");
        let snapshot = Snapshot { catalog, ..Snapshot::default() };
        criterion.bench_function(&format!("admit/{sets} sets"), |bencher| {
            bencher.iter(|| {
                admit(black_box(&pod), &snapshot, Gates::default(), &Draw::default(), now).outcome.expect("admitted")
            });
        });
    }
}

criterion_group!(admission, benches);
criterion_main!(admission);
