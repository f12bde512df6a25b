//! What an autoscaler looks at.

use serde_json::{Value, json};

use super::validate_reference;
use crate::field::{Error, Path};
use crate::format::{check, dns_label, path_segment};
use crate::quantities;
use crate::value::{has, list, text};

/// Every source: its type, its field.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];
const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// The metric of an autoscaler that names none.
pub(super) fn default() -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}})
}

pub(super) fn validate(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let metrics = list(spec, "metrics");
    for (i, metric) in metrics.iter().enumerate() {
        validate_metric(metric, &path.index(i), errors);
    }
    let outside = |metric: &Value| ["Object", "External"].contains(&text(metric, "type"));
    if spec["minReplicas"] == 0 && !metrics.iter().any(outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(Error::forbidden(path, detail));
    }
}

fn validate_metric(metric: &Value, path: &Path, errors: &mut Vec<Error>) {
    let kind = text(metric, "type");
    if kind.is_empty() {
        errors.push(Error::required(&path.child("type"), "must specify a metric source type"));
    }
    let unsupported = Error::not_supported(&path.child("type"), kind, &TYPES);
    if !TYPES.contains(&kind) {
        errors.push(unsupported.clone());
    }
    let present: Vec<&str> = SOURCES.iter().map(|(_, field)| *field).filter(|field| has(metric, field)).collect();
    if let Some(first) = present.first() {
        validate_source(&metric[*first], first, &path.child(*first), errors);
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    match expected {
        Some(field) if !has(metric, field) => {
            errors.push(Error::required(&path.child(field), "must populate information for the given metric source"));
        }
        Some(_) => {}
        None => errors.push(unsupported),
    }
    if present.len() != 1 {
        for field in present.into_iter().filter(|field| Some(*field) != expected) {
            errors.push(Error::forbidden(&path.child(field), "must populate the given metric source only"));
        }
    }
}

fn validate_source(source: &Value, field: &str, path: &Path, errors: &mut Vec<Error>) {
    match field {
        "object" => {
            validate_reference(&source["describedObject"], false, false, &path.child("describedObject"), errors);
            validate_identifier(&source["metric"], &path.child("metric"), errors);
        }
        "external" | "pods" => validate_identifier(&source["metric"], &path.child("metric"), errors),
        _ => {
            if text(source, "name").is_empty() {
                errors.push(Error::required(&path.child("name"), "must specify a resource name"));
            }
            if field == "containerResource" {
                match text(source, "container") {
                    "" => errors.push(Error::required(&path.child("container"), "must specify a container")),
                    name => check(dns_label(name), name, &path.child("container"), errors),
                }
            }
        }
    }
    let (target, path) = (&source["target"], path.child("target"));
    validate_target(target, &path, errors);
    let (value, average) = (has(target, "value"), has(target, "averageValue"));
    let utilization = has(target, "averageUtilization");
    let mut require = |at: &str, detail: &str| errors.push(Error::required(&path.child(at), detail));
    match field {
        "object" if !value && !average => require("averageValue", "must set either a target value or averageValue"),
        "external" if !value && !average => {
            require("averageValue", "must set either a target value for metric or a per-pod target");
        }
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(Error::forbidden(&path.child("value"), detail));
        }
        "pods" if !average => require("averageValue", "must specify a positive target averageValue"),
        "resource" | "containerResource" if !utilization && !average => {
            require("averageUtilization", "must set either a target raw value or a target utilization");
        }
        "resource" | "containerResource" if utilization && average => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(Error::forbidden(&path.child("averageValue"), detail));
        }
        _ => {}
    }
}

fn validate_identifier(identifier: &Value, path: &Path, errors: &mut Vec<Error>) {
    match text(identifier, "name") {
        "" => errors.push(Error::required(&path.child("name"), "must specify a metric name")),
        name => check(path_segment(name), name, &path.child("name"), errors),
    }
}

fn validate_target(target: &Value, path: &Path, errors: &mut Vec<Error>) {
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.push(Error::required(&path.child("type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&kind) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(Error::invalid(&path.child("type"), kind, detail));
    }
    for field in ["value", "averageValue"] {
        if has(target, field)
            && !quantities::quantity(&target[field]).is_some_and(pillion_quantity::Quantity::is_positive)
        {
            errors.push(Error::invalid(&path.child(field), quantities::shown(&target[field]), "must be positive"));
        }
    }
    if let Some(utilization) = target["averageUtilization"].as_i64().filter(|utilization| *utilization < 1) {
        errors.push(Error::invalid(&path.child("averageUtilization"), utilization, "must be greater than 0"));
    }
}
