//! `ValidatingAdmissionPolicies`, but for their expressions.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, dns_subdomain, dns1035_label, qualified_name};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::value::{copy_fields, fill, has, list, object_mut, pointer_mut, set, text};
use serde_json::Value;

use super::rule::{self, FAILURE_POLICIES};
use crate::rules::{Rules, WITH_STATUS};
use crate::workload::{count_spec_changes, first_generation};

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create: |policy| {
        set(policy, "status", serde_json::json!({}));
        first_generation(policy);
    },
    validate,
    prepare_update: |new, old| {
        copy_fields(new, old, &["status"]);
        count_spec_changes(new, old);
    },
    validate_update: |new, _| validate(new),
    prepare_status: |new, old| copy_fields(new, old, &["spec", "metadata"]),
    unconditional_update: false,
    reset_on_status: &[&["spec"], &["metadata"]],
    ..WITH_STATUS
};

fn default(policy: &mut Value) {
    let spec = object_mut(policy, "spec");
    fill(spec, "failurePolicy", "Fail");
    if let Some(constraints) = pointer_mut(spec, "matchConstraints") {
        default_match(constraints);
    }
}

pub(super) fn default_match(resources: &mut Value) {
    rule::default_selectors(resources);
    rule::default_rules(resources, "resourceRules");
    rule::default_rules(resources, "excludeResourceRules");
}

fn validate(policy: &Value) -> Vec<Error> {
    let meta = &policy["metadata"];
    let mut errors = metadata::validate(meta, &Path::new("metadata"), false, subdomain_name);
    let (spec, path) = (&policy["spec"], Path::new("spec"));
    if let Some(failure) = spec["failurePolicy"].as_str().filter(|failure| !FAILURE_POLICIES.contains(failure)) {
        errors.push(Error::not_supported(&path.child("failurePolicy"), failure, &FAILURE_POLICIES));
    }
    if has(spec, "paramKind") {
        validate_param_kind(&spec["paramKind"], &path.child("paramKind"), &mut errors);
    }
    let constraints_path = path.child("matchConstraints");
    if has(spec, "matchConstraints") {
        rule::validate_match(&spec["matchConstraints"], &constraints_path, &mut errors);
        if list(&spec["matchConstraints"], "resourceRules").is_empty() {
            errors.push(Error::required(&constraints_path.child("resourceRules"), ""));
        }
    } else {
        errors.push(Error::required(&constraints_path, ""));
    }
    rule::validate_conditions(list(spec, "matchConditions"), &path.child("matchConditions"), &mut errors);
    for (i, variable) in list(spec, "variables").iter().enumerate() {
        validate_variable(variable, &path.child("variables").index(i), &mut errors);
    }
    let (validations, annotations) = (list(spec, "validations"), list(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.push(Error::required(&path.child(field), detail));
        }
    }
    for (i, validation) in validations.iter().enumerate() {
        validate_validation(validation, &path.child("validations").index(i), &mut errors);
    }
    validate_annotations(annotations, text(meta, "name"), &path.child("auditAnnotations"), &mut errors);
    errors
}

fn validate_param_kind(kind: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (version, name) = (text(kind, "apiVersion"), text(kind, "kind"));
    let version_path = path.child("apiVersion");
    let parts: Vec<&str> = version.split('/').collect();
    match parts[..] {
        [""] => errors.push(Error::required(&version_path, "")),
        [_] | [_, _] => {
            let (group, short) = version.split_once('/').unwrap_or(("", version));
            if !group.is_empty() && !dns_subdomain(group).is_empty() {
                errors.push(Error::invalid(&version_path, group, dns_subdomain(group).join(",")));
            }
            if short.is_empty() {
                errors.push(Error::invalid(&version_path, version, "version must be specified"));
            } else if !dns1035_label(short).is_empty() {
                errors.push(Error::invalid(&version_path, short, dns1035_label(short).join(",")));
            }
        }
        _ => {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(Error::invalid(&version_path, version, detail));
        }
    }
    let complaints = dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        errors.push(Error::required(&path.child("kind"), ""));
    } else if !complaints.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
        errors.push(Error::invalid(&path.child("kind"), name, detail));
    }
}

fn validate_variable(variable: &Value, path: &Path, errors: &mut Vec<Error>) {
    let name = text(variable, "name");
    let identifier = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.trim().is_empty() {
        errors.push(Error::required(&path.child("name"), "name is not specified"));
    } else if !name.chars().all(identifier) || name.starts_with(|c: char| c.is_ascii_digit()) {
        errors.push(Error::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
    }
    if text(variable, "expression").trim().is_empty() {
        errors.push(Error::required(&path.child("expression"), "expression is not specified"));
    }
}

fn validate_validation(validation: &Value, path: &Path, errors: &mut Vec<Error>) {
    if text(validation, "expression").trim().is_empty() {
        errors.push(Error::required(&path.child("expression"), "expression is not specified"));
    }
    for field in ["messageExpression", "message"] {
        let value = text(validation, field);
        if !value.is_empty() && value.trim().is_empty() {
            errors.push(Error::invalid(&path.child(field), value, "must be non-empty if specified"));
        }
    }
    let message = text(validation, "message");
    if message.trim().contains(['\n', '\r']) {
        errors.push(Error::invalid(&path.child("message"), message, "must not contain line breaks"));
    }
    if let Some(reason) = validation["reason"].as_str().filter(|reason| !REASONS.contains(reason)) {
        errors.push(Error::not_supported(&path.child("reason"), reason, &REASONS));
    }
}

fn validate_annotations(annotations: &[Value], policy: &str, path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 20;
    const EXPRESSION_LIMIT: usize = 5 * 1024;
    if annotations.len() > LIMIT {
        let detail = format!("must not have more than {LIMIT} auditAnnotations");
        errors.push(Error::invalid(path, annotations.to_vec(), detail));
    }
    for (i, annotation) in annotations.iter().enumerate() {
        let (key, path) = (text(annotation, "key"), path.index(i));
        if policy.is_empty() {
            errors.push(Error::invalid(&path.child("key"), key, "requires metadata.name be non-empty"));
        } else {
            let whole = format!("{policy}/{key}");
            check(qualified_name(&whole), &whole, &path.child("key"), errors);
        }
        match text(annotation, "valueExpression").trim() {
            "" => errors.push(Error::required(&path.child("valueExpression"), "valueExpression is not specified")),
            long if long.len() > EXPRESSION_LIMIT => {
                let detail = format!("must not exceed {EXPRESSION_LIMIT} bytes in length");
                errors.push(Error::required(&path.child("valueExpression"), detail));
            }
            _ => {}
        }
        if annotations.iter().take(i).any(|earlier| text(earlier, "key") == key) {
            errors.push(Error::duplicate(&path.child("key"), key));
        }
    }
}
