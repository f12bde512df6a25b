//! `ResourceQuotas`. They are kept, and nothing is counted.

use serde_json::{Value, json};

use crate::field::{Error, IMMUTABLE, Path};
use crate::metadata::{self, subdomain_name};
use crate::quantities::{self, quantity};
use crate::resource_name;
use crate::rules::{Rules, WITH_STATUS};
use crate::value::{entries, list, text};

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const EXCLUSIVE: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

pub(crate) const RULES: Rules = Rules { validate, validate_update, validate_status, warnings, ..WITH_STATUS };

fn validate_amounts(object: &Value, field: &str, path: &Path, errors: &mut Vec<Error>) {
    for (name, value) in entries(object, field) {
        let path = path.child(field).key(name);
        resource_name::validate_of_quota(name, &path, errors);
        quantities::validate_value(resource_name::is_whole(name), value, &path, errors);
    }
}

fn validate(quota: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&quota["metadata"], &Path::new("metadata"), true, subdomain_name);
    validate_spec(&quota["spec"], &Path::new("spec"), &mut errors);
    errors
}

fn validate_spec(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    validate_amounts(spec, "hard", path, errors);
    let resources: Vec<&String> = entries(spec, "hard").map(|(name, _)| name).collect();
    let applies =
        |scope: &str| resources.iter().filter(|name| resource_name::is_quota(name)).all(|name| scope_fits(scope, name));
    let scopes = list(spec, "scopes");
    let scopes_path = path.child("scopes");
    for scope in scopes.iter().filter_map(Value::as_str) {
        if !SCOPES.contains(&scope) {
            errors.push(Error::invalid(&scopes_path, scopes.to_vec(), "unsupported scope"));
        }
        if !applies(scope) {
            errors.push(Error::invalid(&scopes_path, scopes.to_vec(), "unsupported scope applied to resource"));
        }
    }
    for pair in EXCLUSIVE {
        if pair.iter().all(|scope| scopes.iter().any(|other| other == scope)) {
            errors.push(Error::invalid(&scopes_path, scopes.to_vec(), "conflicting scopes"));
        }
    }
    let path = path.child("scopeSelector").child("matchExpressions");
    for requirement in list(&spec["scopeSelector"], "matchExpressions") {
        validate_requirement(requirement, &path, errors);
    }
}

/// Whether objects in a scope have the resource.
fn scope_fits(scope: &str, resource: &str) -> bool {
    let plain = resource.strip_prefix("requests.").or_else(|| resource.strip_prefix("limits.")).unwrap_or(resource);
    let compute = ["cpu", "memory"].contains(&plain);
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        _ if SCOPES.contains(&scope) => resource == "pods" || compute,
        _ => true,
    }
}

fn validate_requirement(requirement: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (scope, operator) = (text(requirement, "scopeName"), text(requirement, "operator"));
    let values = list(requirement, "values");
    if !SCOPES.contains(&scope) {
        errors.push(Error::invalid(&path.child("scopeName"), scope, "unsupported scope"));
    }
    let fixed = SCOPES.contains(&scope) && !["PriorityClass", "VolumeAttributesClass"].contains(&scope);
    if fixed && operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(Error::invalid(&path.child("operator"), operator, detail));
    }
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(Error::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.push(Error::invalid(&path.child("values"), json!(values), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    validate_spec(&new["spec"], &Path::new("spec"), &mut errors);
    let (scopes, old_scopes) = (list(&new["spec"], "scopes"), list(&old["spec"], "scopes"));
    if scopes.iter().any(|scope| !old_scopes.contains(scope)) || old_scopes.iter().any(|scope| !scopes.contains(scope))
    {
        errors.push(Error::invalid(&Path::new("spec").child("scopes"), new["spec"]["scopes"].clone(), IMMUTABLE));
    }
    errors
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    for field in ["hard", "used"] {
        validate_amounts(&new["status"], field, &Path::new("status"), &mut errors);
    }
    errors
}

fn warnings(quota: &Value, old: Option<&Value>) -> Vec<String> {
    let hard = &quota["spec"]["hard"];
    let above = |resource: &&str| {
        let mut request_name = format!("requests.{resource}");
        if hard[request_name.as_str()].is_null() && ["cpu", "memory"].contains(resource) {
            (*resource).clone_into(&mut request_name);
        }
        let limit_name = format!("limits.{resource}");
        let (request, limit) = (quantity(&hard[request_name.as_str()])?, quantity(&hard[limit_name.as_str()])?);
        (request > limit)
            .then(|| format!("ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})"))
    };
    let resources = ["cpu", "memory", "storage", "ephemeral-storage"];
    if old.is_some() { Vec::new() } else { resources.iter().filter_map(above).collect() }
}
