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
        let now = text(&captured["now"]).parse().expect("a time");
        let cells = row(group, kind, object, now);
        if is_stored_only(group, kind) {
            are_some_of(&captured, own, cells);
        } else {
            assert_eq!(Value::Array(own), captured["columns"], "{group} {kind}");
            assert_eq!(Value::Array(cells), captured["cells"], "{object:#}");
        }
        let conditions = captured.get("conditions").cloned().unwrap_or_else(|| json!([]));
        assert_eq!(Value::Array(row_conditions(group, kind, object)), conditions, "{object:#}");
    }
}

fn is_stored_only(group: &str, kind: &str) -> bool {
    let stored = resource::all().iter().filter(|resource| resource.service == Service::StoredOnly);
    stored.into_iter().any(|resource| (resource.group, resource.kind) == (group, kind))
}

/// Checks that columns, unless they are those of a kind without its own, are some of those that were captured.
fn are_some_of(captured: &Value, own: Vec<Value>, cells: Vec<Value>) {
    let columns = captured["columns"].as_array().expect("columns");
    for (column, cell) in own.into_iter().zip(cells).filter(|(column, _)| column[0] != "Created At") {
        let index = columns.iter().position(|captured| *captured == column);
        let index = index.unwrap_or_else(|| panic!("{column} in {captured:#}"));
        // A default StorageClass is not marked, since nothing makes volumes.
        let theirs = &captured["cells"][index];
        let theirs = theirs.as_str().map_or_else(|| theirs.clone(), |text| text.trim_end_matches(" (default)").into());
        assert_eq!(cell, theirs, "{column} of {captured:#}");
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
