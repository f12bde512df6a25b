//! What pods become, with the tables of Kruise's own tests (`pkg/webhook/pod/mutating/sidecarset_test.go`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot set its stage stops there"
)]

mod hot_upgrade;
mod metadata;
mod order;
mod pod_fields;
mod properties;
mod resources;
mod revision;
mod selection;
mod share;

use std::collections::BTreeMap;

use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarSet;
use pillion_gates::Gates;
use pillion_inject::{Accounts, Catalog, Context, Namespace, Selection};
use pillion_note::{Denied, Draft, Draw, Note};
use serde_json::{Value, json};

const NOW: &str = "2026-01-02T03:04:05Z";

/// The pod after injection.
fn inject(pod: &Pod, sets: impl IntoIterator<Item = SidecarSet>) -> Value {
    try_inject(pod, sets).expect("the pod is admitted").0
}

fn try_inject(pod: &Pod, sets: impl IntoIterator<Item = SidecarSet>) -> Result<(Value, Vec<Note>), Denied> {
    inject_with(pod, &Catalog::new(sets, &[]).expect("the sets compile"), &Draw::default())
}

fn inject_with(pod: &Pod, catalog: &Catalog, draw: &Draw) -> Result<(Value, Vec<Note>), Denied> {
    inject_at(NOW, pod, catalog, draw, Gates::default())
}

fn inject_at(now: &str, pod: &Pod, catalog: &Catalog, draw: &Draw, gates: Gates) -> Result<(Value, Vec<Note>), Denied> {
    let namespace = Namespace::new(pod.namespace(), BTreeMap::new());
    let mut draft = Draft::new(pod);
    let now = Some(now.parse().expect("a time"));
    let mut accounts = Accounts::default();
    accounts.insert(pod.namespace(), "agent");
    let selection = Selection::of(pod, &namespace, catalog);
    let context = Context { selection: &selection, accounts: &accounts, draw, gates, now };
    let injected = pillion_inject::inject(&mut draft, &context)?;
    pillion_inject::size(&mut draft, &injected)?;
    let mut after = pod.as_value().clone();
    json_patch::patch(&mut after, &draft.patch()).expect("the patch fits the pod it was made for");
    assert_eq!(after, draft.to_value());
    Ok((after, draft.into_notes()))
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(|item| item["name"].as_str()).collect()
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
        .find(|container| container["name"] == name)
        .unwrap_or_else(|| panic!("the pod has no container {name}"))
}

/// Kruise's test pod: an init container, and nginx with two variables, two mounts and their volumes.
fn base_pod() -> Pod {
    Pod::new(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "test-pod", "namespace": "default", "labels": {"app": "test"}},
        "spec": {
            "initContainers": [{"name": "init-0", "image": "busybox:1.0.0"}],
            "containers": [{
                "name": "nginx", "image": "nginx:1.15.1",
                "env": [{"name": "hello1", "value": "world1"}, {"name": "hello2", "value": "world2"}],
                "volumeMounts": [{"name": "volume-a", "mountPath": "/a/b"}, {"name": "volume-b", "mountPath": "/e/f"}]
            }],
            "volumes": [{"name": "volume-a"}, {"name": "volume-b"}]
        }
    }))
    .expect("a pod")
}
