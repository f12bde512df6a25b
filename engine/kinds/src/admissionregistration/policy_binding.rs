//! `ValidatingAdmissionPolicyBindings`.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, dns_subdomain, path_segment};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::selector;
use pillion_rules::value::{has, list, object_mut, pointer_mut, text};
use serde_json::Value;

use super::{policy, rule};
use crate::rules::{Rules, STORED};
use crate::workload::{count_spec_changes, first_generation};

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

pub(crate) const RULES: Rules = Rules {
    default: |binding| {
        if let Some(resources) = pointer_mut(object_mut(binding, "spec"), "matchResources") {
            policy::default_match(resources);
        }
    },
    prepare_create: first_generation,
    validate,
    prepare_update: count_spec_changes,
    validate_update: |new, _| validate(new),
    unconditional_update: false,
    ..STORED
};

fn validate(binding: &Value) -> Vec<Error> {
    let mut errors = metadata::validate(&binding["metadata"], &Path::new("metadata"), false, subdomain_name);
    let (spec, path) = (&binding["spec"], Path::new("spec"));
    match text(spec, "policyName") {
        "" => errors.push(Error::required(&path.child("policyName"), "")),
        name => check(dns_subdomain(name), name, &path.child("policyName"), &mut errors),
    }
    if has(spec, "paramRef") {
        validate_param(&spec["paramRef"], &path.child("paramRef"), &mut errors);
    }
    if has(spec, "matchResources") {
        rule::validate_match(&spec["matchResources"], &path.child("matchResources"), &mut errors);
    }
    validate_actions(list(spec, "validationActions"), &path.child("validationActions"), &mut errors);
    errors
}

fn validate_param(param: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (name, selected) = (text(param, "name"), has(param, "selector"));
    let both = !name.is_empty() && selected;
    let exclusive = "name and selector are mutually exclusive";
    if !name.is_empty() {
        check(path_segment(name), name, &path.child("name"), errors);
    }
    if both {
        errors.push(Error::forbidden(&path.child("name"), exclusive));
    }
    selector::validate(&param["selector"], &path.child("selector"), errors);
    if both {
        errors.push(Error::forbidden(&path.child("selector"), exclusive));
    }
    if name.is_empty() && !selected {
        errors.push(Error::required(path, "one of name or selector must be specified"));
    }
    let path = path.child("parameterNotFoundAction");
    match text(param, "parameterNotFoundAction") {
        "" => errors.push(Error::required(&path, "")),
        "Deny" | "Allow" => {}
        other => errors.push(Error::not_supported(&path, other, &["Deny", "Allow"])),
    }
}

fn validate_actions(actions: &[Value], path: &Path, errors: &mut Vec<Error>) {
    for (i, action) in actions.iter().filter_map(Value::as_str).enumerate() {
        if !ACTIONS.contains(&action) {
            errors.push(Error::not_supported(&path.index(i), action, &ACTIONS));
        }
        if actions.iter().take(i).any(|earlier| earlier == action) {
            errors.push(Error::duplicate(&path.index(i), action));
        }
    }
    let has = |name: &str| actions.iter().any(|action| action == name);
    if has("Deny") && has("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(Error::invalid(path, actions.to_vec(), detail));
    }
    if actions.is_empty() {
        errors.push(Error::required(path, "at least one validation action is required"));
    }
}
