//! A fleet of a hundred thousand pods: how often each is looked at, and how much room it takes.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use pillion_api::pod::Pod;
use pillion_rollout::{PodView, Snapshot, Target, Text, Texts, plan};
use pillion_testkit::{mk_container, mk_injected_pod, mk_set};
use serde_json::json;

use super::fleet::{Kind, spec};

const PODS: usize = 100_000;

/// Pods of a Deployment with three containers and two SidecarSets, in a hundred namespaces.
fn views(texts: &mut Texts) -> Vec<PodView> {
    let mesh = mk_set("mesh", json!({"app": "web"}), spec(Kind::Cold, "envoy:1", json!({})));
    let logs = mk_set("logs", json!({"app": "web"}), json!({"containers": [mk_container("logs")]}));
    let labels = json!({"app": "web", "pod-template-hash": "5d9c7f6b8", "team": "shop", "version": "v12"});
    let pod = mk_injected_pod("web", labels, [mk_container("app")], &[&mesh, &logs]);
    let named = |i: usize| {
        let mut pod = pod.as_value().clone();
        pod["metadata"]["name"] = json!(format!("web-5d9c7f6b8-{i:06}"));
        pod["metadata"]["namespace"] = json!(format!("namespace-{}", i % 100));
        pod["metadata"]["uid"] = json!(format!("3f2c1a5e-0000-4000-8000-{i:012}"));
        pod["metadata"]["resourceVersion"] = json!(i.to_string());
        pod["metadata"]["ownerReferences"] =
            json!([{"kind": "ReplicaSet", "name": "web-5d9c7f6b8", "controller": true}]);
        PodView::new(&Pod::new(pod).unwrap(), texts)
    };
    // Reading a pod is not what is measured, so most are copies of one that was read.
    let read: Vec<PodView> = (0..100).map(named).collect();
    (0..PODS)
        .map(|i| PodView {
            name: format!("web-5d9c7f6b8-{i:06}").into(),
            uid: format!("3f2c1a5e-0000-4000-8000-{i:012}").into(),
            resource_version: i as u64,
            ..read[i % 100].clone()
        })
        .collect()
}

/// What a view takes, besides the texts that it shares.
fn bytes(view: &PodView, shared: &mut HashSet<*const u8>) -> usize {
    let mut text = |text: &Text| if shared.insert(text.as_ptr()) { text.len() + 16 } else { 0 };
    let mut bytes = size_of::<PodView>() + view.name.len() + view.uid.len();
    bytes += text(&view.namespace);
    bytes += size_of_val(&*view.labels) + size_of_val(&*view.containers) + size_of_val(&*view.injected);
    bytes += view.labels.iter().map(|(key, value)| text(key) + text(value)).sum::<usize>();
    for container in &view.containers {
        bytes += text(&container.name) + text(&container.image);
        bytes += container.reported_image.iter().chain(&container.image_id).map(&mut text).sum::<usize>();
    }
    for injected in &view.injected {
        bytes += text(&injected.name) + text(&injected.hash) + text(&injected.hash_without_image);
        bytes += injected.revision.iter().map(&mut text).sum::<usize>();
    }
    bytes
}

#[test]
fn each_of_a_hundred_thousand_pods_is_looked_at_once_and_takes_less_than_a_kilobyte() {
    let views = views(&mut Texts::default());
    let mut shared = HashSet::new();
    let total: usize = views.iter().map(|view| bytes(view, &mut shared)).sum();
    assert!(total / PODS < 1024, "{} bytes for each pod", total / PODS);

    let strategy = json!({
        "maxUnavailable": "5%", "partition": "20%",
        "priorityStrategy": {"weightPriority": [{"weight": 5, "matchSelector": {"matchLabels": {"team": "shop"}}}]},
        "scatterStrategy": [{"key": "team", "value": "*"}],
    });
    let new = mk_set("mesh", json!({"app": "web"}), spec(Kind::Cold, "envoy:2", strategy));
    let target = Target::new(Arc::new(new));
    // The namespace of a pod is asked for once in each look at it.
    let scopes = Cell::new(0);
    let in_scope = |_: &str| {
        scopes.set(scopes.get() + 1);
        true
    };
    let snapshot = Snapshot {
        target: &target,
        revisions: &[],
        is_used_elsewhere: &|_| false,
        is_in_scope: &in_scope,
        refusals: &pillion_rollout::Refusals::default(),
        system_namespace: "kruise-system",
    };
    let plan = plan(&snapshot, &views, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(scopes.get(), PODS);
    assert_eq!(plan.updates.len(), PODS / 20);
    assert_eq!(plan.status.matched_pods, i32::try_from(PODS).unwrap());
}
