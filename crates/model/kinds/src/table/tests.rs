//! Objects, and what kube-apiserver 1.35 shows of them.

use serde_json::{Value, json};

use super::*;
use crate::resource::{self, Service};

/// Objects that were written to kube-apiserver and asked for as a Table; fields that no column shows are left out.
fn captured() -> Vec<Value> {
    serde_json::from_str(include_str!("captured.json")).expect("what was captured")
}

#[test]
fn columns_cells_and_conditions_are_those_of_kube_apiserver() {
    for captured in captured() {
        let (group, kind, object) = (text(&captured["group"]), text(&captured["kind"]), &captured["object"]);
        let own = columns(group, kind);
        let own: Vec<Value> = own.iter().map(|own| json!([own.name, own.kind, own.format, own.priority])).collect();
        assert_eq!(Value::Array(own), captured["columns"], "{group} {kind}");
        let now = text(&captured["now"]).parse().expect("a time");
        assert_eq!(Value::Array(row(group, kind, object, now)), captured["cells"], "{object:#}");
        let conditions = captured.get("conditions").cloned().unwrap_or_else(|| json!([]));
        assert_eq!(Value::Array(row_conditions(group, kind, object)), conditions, "{object:#}");
    }
}

#[test]
fn every_kind_that_is_stored_was_compared() {
    let captured = captured();
    // The definition of a custom resource has no columns of its own.
    let stored = resource::all().iter().filter(|resource| resource.service != Service::Answered);
    for resource in stored.filter(|resource| resource.kind != "CustomResourceDefinition") {
        let is_it = |captured: &Value| captured["group"] == resource.group && captured["kind"] == resource.kind;
        assert!(captured.iter().any(is_it), "{}", resource.plural);
    }
}
