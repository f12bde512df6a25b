//! Affinity to nodes and to other pods.

use serde_json::Value;

use super::report::{Errors, Report};
use super::{format, scheduling};
use crate::field::Path;
use crate::pod::read::{list, number, part, text};
use crate::selector;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks the affinity of a pod.
pub(super) fn validate(errors: &mut Errors, spec: &Value, path: &Path) {
    let Some(affinity) = part(spec, "affinity") else { return };
    if let Some(nodes) = part(affinity, "nodeAffinity") {
        validate_node_affinity(errors, nodes, &path.child("nodeAffinity"));
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = part(affinity, field) else { continue };
        let path = path.child(field);
        for (i, term) in list(pods, REQUIRED).iter().enumerate() {
            validate_pod_term(errors, term, &path.child(REQUIRED).index(i));
        }
        for (i, weighted) in list(pods, PREFERRED).iter().enumerate() {
            let path = path.child(PREFERRED).index(i);
            validate_weight(errors, weighted, &path);
            validate_pod_term(errors, &weighted["podAffinityTerm"], &path.child("podAffinityTerm"));
        }
    }
}

fn validate_node_affinity(errors: &mut Errors, nodes: &Value, path: &Path) {
    if let Some(selector) = part(nodes, REQUIRED) {
        let path = path.child(REQUIRED).child("nodeSelectorTerms");
        let terms = list(selector, "nodeSelectorTerms");
        if terms.is_empty() {
            errors.required(&path, "must have at least one node selector term");
        }
        for (i, term) in terms.iter().enumerate() {
            validate_node_term(errors, term, true, &path.index(i));
        }
    }
    for (i, preferred) in list(nodes, PREFERRED).iter().enumerate() {
        let path = path.child(PREFERRED).index(i);
        validate_weight(errors, preferred, &path);
        // The values of a preference were never looked at, and now are only warned about.
        validate_node_term(errors, &preferred["preference"], false, &path.child("preference"));
    }
}

fn validate_weight(errors: &mut Errors, weighted: &Value, path: &Path) {
    let weight = number(weighted, "weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn validate_node_term(errors: &mut Errors, term: &Value, with_values: bool, path: &Path) {
    for (i, requirement) in list(term, "matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions").index(i);
        let values = list(requirement, "values");
        match text(requirement, "operator") {
            "In" | "NotIn" => {
                if values.is_empty() {
                    errors.required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'");
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    errors.forbidden(&path.child("values"), rule);
                }
            }
            "Gt" | "Lt" => {
                if values.len() != 1 {
                    let rule = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    errors.required(&path.child("values"), rule);
                }
            }
            operator => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
        }
        let key = text(requirement, "key");
        errors.each(&path.child("key"), key, format::qualified_name(key));
        if with_values {
            for (i, value) in values.iter().filter_map(Value::as_str).enumerate() {
                errors.each(&path.child("values").index(i), value, format::label_value(value));
            }
        }
    }
    for (i, requirement) in list(term, "matchFields").iter().enumerate() {
        validate_node_field(errors, requirement, &path.child("matchFields").index(i));
    }
}

fn validate_node_field(errors: &mut Errors, requirement: &Value, path: &Path) {
    let values = list(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if values.len() != 1 {
                let rule = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(&path.child("values"), rule);
            }
        }
        operator => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
    }
    let key = text(requirement, "key");
    if key == "metadata.name" {
        for (i, name) in values.iter().filter_map(Value::as_str).enumerate() {
            errors.each(&path.child("values").index(i), name, format::dns_subdomain(name));
        }
    } else {
        errors.invalid(&path.child("key"), key, "not a valid field selector key");
    }
}

fn validate_pod_term(errors: &mut Errors, term: &Value, path: &Path) {
    for field in ["labelSelector", "namespaceSelector"] {
        selector::validate(&term[field], &path.child(field), errors);
    }
    for name in list(term, "namespaces").iter().filter_map(Value::as_str) {
        errors.each(&path.child("namespace"), name, format::dns_label(name));
    }
    scheduling::validate_label_keys(errors, term, path);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    errors.each(&path.child("topologyKey"), key, format::qualified_name(key));
}
