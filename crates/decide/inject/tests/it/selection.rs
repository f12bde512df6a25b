use std::collections::BTreeMap;

use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarSet;
use pillion_inject::{Catalog, Namespace, explain};
use pillion_testkit::{mk_container, mk_pod, mk_set};
use serde_json::{Value, json};

use super::{base_pod, inject, names};

fn set(name: &str, more: Value) -> SidecarSet {
    let mut spec = json!({"containers": [mk_container(&format!("of-{name}"))]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    mk_set(name, json!({"app": "test"}), spec)
}

fn canary(name: &str, base: &str, more: Value) -> SidecarSet {
    let mut set = set(name, more);
    let annotations = set.metadata.annotations.get_or_insert_default();
    annotations.insert("apps.kruise.io/sidecarset-canary".into(), "true".into());
    annotations.insert("apps.kruise.io/sidecarset-base".into(), base.into());
    set
}

fn verdicts(pod: &Pod, labels: &[(&str, &str)], sets: impl IntoIterator<Item = SidecarSet>) -> Vec<String> {
    let labels: BTreeMap<String, String> = labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    let catalog = Catalog::new(sets, &[]).unwrap();
    let verdicts = explain(pod, &Namespace::new(pod.namespace(), labels), &catalog);
    verdicts.into_iter().map(|v| format!("{} {} {}: {}", v.sidecar_set, v.matched, v.reason, v.message)).collect()
}

#[test]
fn a_pod_that_nothing_selects_stays_as_it_is() {
    let other = mk_pod("p", json!({"app": "other"}), [mk_container("app")]);
    assert_eq!(&inject(&other, [set("s", json!({}))]), other.as_value());
    let paused = set("s", json!({"injectionStrategy": {"paused": true}}));
    assert_eq!(&inject(&base_pod(), [paused]), base_pod().as_value());
}

#[test]
fn a_canary_stands_in_for_its_base_only_where_it_matches() {
    let sets = |more: Value| [set("base", json!({})), canary("canary", "base", more)];
    let containers = |sets| names(&inject(&base_pod(), sets)["spec"]["containers"]).join(",");
    assert_eq!(containers(sets(json!({}))), "of-canary,nginx");
    assert_eq!(containers(sets(json!({"injectionStrategy": {"paused": true}}))), "of-base,nginx");
    assert_eq!(containers(sets(json!({"namespaceSelector": {"matchLabels": {"stage": "beta"}}}))), "of-base,nginx");
}

#[test]
fn every_set_says_why_it_is_injected_or_not() {
    let mut without_selector = set("e", json!({}));
    without_selector.spec.selector = None;
    let sets = [
        set("a", json!({})),
        set("b", json!({"namespaceSelector": {"matchLabels": {"stage": "beta"}}})),
        mk_set("c", json!({"app": "test", "tier": "db"}), json!({"containers": [mk_container("c")]})),
        set("d", json!({"injectionStrategy": {"paused": true}})),
        without_selector,
        set("f", json!({})),
        canary("g", "f", json!({})),
    ];
    assert_eq!(
        verdicts(&base_pod(), &[("stage", "alpha")], sets),
        [
            "a true Matched: selector app=test matches",
            r#"b false NamespaceSelector: namespaceSelector wants stage=beta of the namespace; it has "alpha""#,
            "c false Selector: selector wants tier=db of the pod; it has no such label",
            "d false Paused: injectionStrategy.paused is true",
            "e false NoSelector: its selector is empty, which matches nothing",
            r#"f false Canary: its canary "g" is injected in its place"#,
            "g true Matched: selector app=test matches",
        ]
    );
}

#[test]
fn a_pod_can_opt_out() {
    let mut pod = base_pod().into_value();
    pod["metadata"]["annotations"] = json!({"pillion.dev/inject": "false"});
    let pod = Pod::new(pod).unwrap();
    assert_eq!(&inject(&pod, [set("s", json!({}))]), pod.as_value());
    assert_eq!(
        verdicts(&pod, &[], [set("s", json!({}))]),
        [r#"s false OptedOut: the pod's annotation pillion.dev/inject: "false" keeps every SidecarSet out"#]
    );
}

#[test]
fn a_pod_that_has_ended_is_left_alone() {
    for ended in [
        json!({"status": {"phase": "Succeeded"}}),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "test"}}}),
    ] {
        let mut pod = base_pod().into_value();
        pod.as_object_mut().unwrap().extend(ended.as_object().unwrap().clone());
        let pod = Pod::new(pod).unwrap();
        assert_eq!(&inject(&pod, [set("s", json!({}))]), pod.as_value());
    }
}

#[test]
fn the_namespace_is_selected_by_its_name_without_its_labels_being_known() {
    let by_name = set("s", json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}));
    assert_eq!(names(&inject(&base_pod(), [by_name])["spec"]["containers"]), ["of-s", "nginx"]);
}
