//! What is served, against what discovery of a kube-apiserver 1.35 lists (without hashes).

use std::collections::BTreeSet;

use pillion_kinds::resource::{self, Resource};
use serde_json::{Map, Value, json};

fn path_of(resource: &Resource) -> String {
    match resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    }
}

fn entry(name: String, singular: &str, namespaced: bool, kind: &str, verbs: &[&str]) -> Map<String, Value> {
    let entry = json!({"name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": verbs});
    entry.as_object().unwrap().clone()
}

/// The entries of discovery for a resource and what hangs below it.
fn entries(resource: &Resource) -> Vec<Value> {
    let mut own =
        entry(resource.plural.to_owned(), resource.singular, resource.namespaced, resource.kind, resource.verbs);
    for (field, names) in [("shortNames", resource.short_names), ("categories", resource.categories)] {
        if !names.is_empty() {
            own.insert(field.to_owned(), json!(names));
        }
    }
    let below = resource.subresources.iter().map(|sub| {
        let name = format!("{}/{}", resource.plural, sub.name);
        let mut entry = entry(name, "", resource.namespaced, sub.kind, sub.verbs);
        for (field, value) in [("group", sub.group), ("version", sub.version)] {
            if !value.is_empty() {
                entry.insert(field.to_owned(), json!(value));
            }
        }
        Value::Object(entry)
    });
    std::iter::once(Value::Object(own)).chain(below).collect()
}

#[test]
fn what_is_served_is_listed_as_by_the_api_server() {
    let listed: Value = serde_json::from_str(include_str!("../fixtures/discovery.json")).unwrap();
    for resource in resource::all().iter().filter(|resource| resource.group != "metrics.k8s.io") {
        let listed = listed[path_of(resource)].as_array().unwrap();
        for entry in entries(resource) {
            assert!(listed.contains(&entry), "{entry} is not in {}", path_of(resource));
        }
    }
}

#[test]
fn what_is_listed_and_not_served_is_known() {
    let listed: Value = serde_json::from_str(include_str!("../fixtures/discovery.json")).unwrap();
    let served: BTreeSet<String> = resource::all()
        .iter()
        .flat_map(|resource| {
            entries(resource)
                .into_iter()
                .map(|entry| format!("{}/{}", path_of(resource), entry["name"].as_str().unwrap()))
        })
        .collect();
    let missing: Vec<String> = listed
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, listed)| {
            listed.as_array().unwrap().iter().map(move |entry| format!("{path}/{}", entry["name"].as_str().unwrap()))
        })
        .filter(|name| !served.contains(name))
        .collect();
    insta::assert_snapshot!(missing.join("\n"), @r"
    /api/v1/componentstatuses
    /api/v1/pods/proxy
    /api/v1/services/proxy
    /apis/networking.k8s.io/v1/ipaddresses
    /apis/networking.k8s.io/v1/servicecidrs
    /apis/networking.k8s.io/v1/servicecidrs/status
    /apis/storage.k8s.io/v1/csidrivers
    /apis/storage.k8s.io/v1/csinodes
    /apis/storage.k8s.io/v1/csistoragecapacities
    /apis/storage.k8s.io/v1/volumeattachments
    /apis/storage.k8s.io/v1/volumeattachments/status
    /apis/storage.k8s.io/v1/volumeattributesclasses
    ");
}

#[test]
fn resources_of_a_group_are_listed_by_name() {
    for pair in resource::all().windows(2) {
        let [first, second] = pair else { continue };
        if path_of(first) == path_of(second) {
            assert!(first.plural < second.plural, "{} before {}", first.plural, second.plural);
        }
        assert!(first.subresources.is_sorted_by_key(|sub| sub.name), "{}", first.plural);
    }
}

#[test]
fn a_resource_that_is_kept_as_another_names_one_that_is_served() {
    for resource in resource::all() {
        let Some(storage) = resource.storage else { continue };
        let keeper = resource::all().iter().find(|other| {
            (other.group, other.version, other.plural) == (storage.group, storage.version, resource.plural)
        });
        assert!(keeper.is_some_and(|keeper| keeper.storage.is_none()), "{}", resource.plural);
    }
}
