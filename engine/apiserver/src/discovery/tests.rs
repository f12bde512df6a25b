//! Documents as kube-apiserver 1.35 writes them.

use pillion_kinds::resource;
use serde_json::{Value, json};

use super::*;

fn served() -> Vec<Served> {
    let definition = json!({
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "versions": [
                {"name": "v1alpha1", "served": true, "storage": false},
                {"name": "v1", "served": true, "storage": true, "subresources": {"scale": {}, "status": {}}},
                {"name": "v0", "served": false, "storage": false},
            ],
        },
        "status": {"acceptedNames": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"], "categories": ["all"]}},
    });
    let other = json!({
        "spec": {"group": "a.dev", "scope": "Cluster", "versions": [{"name": "v1", "served": true, "storage": true}]},
        "status": {"acceptedNames": {"plural": "things", "singular": "thing", "kind": "Thing"}},
    });
    let mut served: Vec<Served> = resource::all().iter().map(Served::builtin).collect();
    served.extend(Served::custom(&definition));
    served.extend(Served::custom(&other));
    served
}

fn named<'a>(list: &'a Value, key: &str, name: &str) -> &'a Value {
    list.as_array().expect("a list").iter().find(|entry| entry[key] == name).expect("an entry of that name")
}

#[test]
fn groups_are_listed_in_the_order_of_their_priority() {
    let document = api_group_list(&served());
    let groups: Vec<&str> =
        document["groups"].as_array().expect("groups").iter().filter_map(|group| group["name"].as_str()).collect();
    assert_eq!(groups[..4], ["apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io"]);
    assert_eq!(groups[groups.len() - 3..], ["a.dev", "example.dev", "metrics.k8s.io"]);
}

#[test]
fn the_preferred_version_comes_first() {
    let document = api_group_document(&served(), "example.dev").expect("the group");
    let want = json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "example.dev",
        "versions": [
            {"groupVersion": "example.dev/v1", "version": "v1"},
            {"groupVersion": "example.dev/v1alpha1", "version": "v1alpha1"},
        ],
        "preferredVersion": {"groupVersion": "example.dev/v1", "version": "v1"},
    });
    assert_eq!(document, want);
    let autoscaling = api_group_document(&served(), "autoscaling").expect("the group");
    assert_eq!(autoscaling["preferredVersion"]["version"], "v2");
    assert_eq!(api_group_document(&served(), "none.dev"), None);
}

#[test]
fn resources_are_listed_with_what_hangs_below_them() {
    let core = api_resource_list(&served(), "", "v1").expect("the core group");
    assert_eq!(core.get("apiVersion"), None);
    let token = json!({
        "name": "serviceaccounts/token",
        "singularName": "",
        "namespaced": true,
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
        "verbs": ["create"],
    });
    assert_eq!(named(&core["resources"], "name", "serviceaccounts/token"), &token);
    let config_maps = json!({
        "name": "configmaps",
        "singularName": "configmap",
        "namespaced": true,
        "kind": "ConfigMap",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["cm"],
        "storageVersionHash": "qFsyl6wFWjQ=",
    });
    assert_eq!(named(&core["resources"], "name", "configmaps"), &config_maps);
    assert_eq!(named(&core["resources"], "name", "bindings").get("storageVersionHash"), None);
    let apps = api_resource_list(&served(), "apps", "v1").expect("the group");
    assert_eq!(named(&apps["resources"], "name", "daemonsets")["storageVersionHash"], "dd7pWHUlMKQ=");
    assert_eq!(api_resource_list(&served(), "apps", "v2"), None);
}

#[test]
fn a_custom_resource_is_listed_in_every_version_that_is_served() {
    let served = served();
    let newest = api_resource_list(&served, "example.dev", "v1").expect("the version");
    let names: Vec<&str> =
        newest["resources"].as_array().expect("a list").iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert_eq!(names, ["gadgets", "gadgets/status", "gadgets/scale"]);
    let oldest = api_resource_list(&served, "example.dev", "v1alpha1").expect("the version");
    assert_eq!(oldest["resources"].as_array().map(Vec::len), Some(1));
    assert_eq!(oldest["resources"][0]["storageVersionHash"], newest["resources"][0]["storageVersionHash"]);
    assert_eq!(api_resource_list(&served, "example.dev", "v0"), None);
}

#[test]
fn the_aggregated_form_says_it_all_in_one_document() {
    let served = served();
    let groups = aggregated_groups(&served);
    let apps = groups["items"].as_array().expect("groups").iter().find(|group| group["metadata"]["name"] == "apps");
    let want = json!({
        "resource": "deployments",
        "responseKind": {"group": "", "version": "", "kind": "Deployment"},
        "scope": "Namespaced",
        "singularResource": "deployment",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["deploy"],
        "categories": ["all"],
        "subresources": [
            {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "verbs": ["get", "patch", "update"]},
            {"subresource": "status", "responseKind": {"group": "", "version": "", "kind": "Deployment"}, "verbs": ["get", "patch", "update"]},
        ],
    });
    let apps = &apps.expect("the group")["versions"][0];
    assert_eq!(apps["freshness"], "Current");
    assert_eq!(named(&apps["resources"], "resource", "deployments"), &want);
    let custom =
        groups["items"].as_array().and_then(|all| all.iter().find(|group| group["metadata"]["name"] == "example.dev"));
    let gadgets = &custom.expect("the group")["versions"][0]["resources"][0];
    let own = json!({"group": "example.dev", "version": "v1", "kind": "Gadget"});
    assert_eq!(gadgets["responseKind"], own);
    assert_eq!(gadgets["subresources"][0]["responseKind"], own);
    assert_eq!(aggregated_core(&served)["items"][0]["versions"][0]["version"], "v1");
}
