//! What containers and pods ask for and may use.

use std::collections::BTreeSet;

use pillion_quantity::Quantity;
use serde_json::Value;

use super::format;
use super::report::{Errors, Report};
use crate::field::{Error, Path};
use crate::pod::read::{list, part, text};
use crate::pod::resources::{ResourceList, aggregate, amounts, is_fractional, is_pod_level};
use crate::resource_name::{self, is_huge_page, may_overcommit};

/// Checks the resources of one container. `claims` are those of the pod that it may name.
pub(super) fn validate(errors: &mut Errors, resources: &Value, claims: &BTreeSet<&str>, path: &Path) {
    let (limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    validate_amounts(errors, &limits, &requests, resource_name::validate_of_container, path);
    validate_claims(errors, resources, claims, &path.child("claims"));
}

/// Checks what running the pod itself costs.
pub(super) fn validate_overhead(errors: &mut Errors, spec: &Value, path: &Path) {
    validate_amounts(
        errors,
        &amounts(spec, "overhead"),
        &ResourceList::new(),
        resource_name::validate_of_container,
        path,
    );
}

/// Checks the resources of a whole pod (KEP-2837).
pub(super) fn validate_pod_level(errors: &mut Errors, spec: &Value, path: &Path) {
    let Some(resources) = part(spec, "resources") else { return };
    if part(resources, "claims").is_some() {
        errors.forbidden(&path.child("claims"), "claims may not be set for Resources at pod-level");
    }
    let (limits, requests) = (amounts(resources, "limits"), amounts(resources, "requests"));
    validate_amounts(errors, &limits, &requests, validate_pod_name, path);
    validate_claims(errors, resources, &BTreeSet::new(), &path.child("claims"));
    validate_consistency(errors, spec, &limits, &requests, path);
}

fn validate_consistency(
    errors: &mut Errors,
    spec: &Value,
    limits: &ResourceList,
    requests: &ResourceList,
    path: &Path,
) {
    let at_least = |errors: &mut Errors, which: &str, own: &ResourceList, name: &str, together: Quantity| {
        if let Some(amount) = own.get(name).filter(|amount| together > **amount) {
            let rule = format!("must be greater than or equal to aggregate container {which} of {together}");
            errors.invalid(&path.child(which).key(name), amount.to_string(), rule);
        }
    };
    for (name, together) in aggregate(spec, "requests") {
        at_least(errors, "requests", requests, &name, together);
    }
    for (name, together) in aggregate(spec, "limits") {
        if is_huge_page(&name) {
            at_least(errors, "limits", limits, &name, together);
        }
    }
    for (i, container) in list(spec, "containers").iter().enumerate() {
        for (name, own) in amounts(&container["resources"], "limits") {
            if let Some(limit) = limits.get(&name).filter(|limit| own > **limit) {
                let path = path.child("containers").index(i).key(name).child("limits");
                errors.invalid(&path, own.to_string(), format!("must be less than or equal to pod limits of {limit}"));
            }
        }
    }
}

fn validate_amounts(
    errors: &mut Errors,
    limits: &ResourceList,
    requests: &ResourceList,
    validate_name: fn(&str, &Path, &mut Errors),
    path: &Path,
) {
    let (limits_path, requests_path) = (path.child("limits"), path.child("requests"));
    for (name, limit) in limits {
        let path = limits_path.key(name);
        validate_name(name, &path, errors);
        validate_value(errors, name, *limit, &path);
        validate_huge_page(errors, name, *limit, &path);
    }
    for (name, request) in requests {
        let path = requests_path.key(name);
        validate_name(name, &path, errors);
        validate_value(errors, name, *request, &path);
        match limits.get(name) {
            Some(limit) if request != limit && !may_overcommit(name) => {
                let rule = format!("must be equal to {name} limit of {limit}");
                errors.invalid(&requests_path, request.to_string(), rule);
            }
            Some(limit) if request > limit => {
                let rule = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(&requests_path, request.to_string(), rule);
            }
            None if !may_overcommit(name) => {
                errors.required(&limits_path, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
        validate_huge_page(errors, name, *request, &path);
    }
    let any = |test: fn(&str) -> bool| limits.keys().chain(requests.keys()).any(|name| test(name));
    if any(is_huge_page) && !any(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

fn validate_pod_name(name: &str, path: &Path, errors: &mut Errors) {
    if resource_name::validate(name, path, errors) && !is_pod_level(name) {
        errors.unsupported(path, name, &["cpu", "hugepages-", "memory"]);
    }
}

/// Checks one amount of a resource.
pub(super) fn validate_value(errors: &mut Errors, name: &str, amount: Quantity, path: &Path) {
    if amount.is_negative() {
        errors.invalid(path, amount.to_string(), "must be greater than or equal to 0");
    }
    if resource_name::is_whole(name) && is_fractional(amount) {
        errors.invalid(path, amount.to_string(), "must be an integer");
    }
}

fn validate_huge_page(errors: &mut Errors, name: &str, amount: Quantity, path: &Path) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let divides = size
        .parse::<Quantity>()
        .is_ok_and(|size| size.is_positive() && !is_fractional(size) && amount.value() % size.value() == 0);
    if !divides {
        errors.invalid(path, amount.to_string(), format!("{amount} is not positive integer multiple of {name}"));
    }
}

fn validate_claims(errors: &mut Errors, resources: &Value, claims: &BTreeSet<&str>, path: &Path) {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (i, claim) in list(resources, "claims").iter().enumerate() {
        let path = path.index(i);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            errors.required(&path, "");
            continue;
        }
        if names.contains(name) {
            errors.duplicate(&path, name);
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                errors.each(&path.child("request"), request, format::dns_label(request));
                key = format!("{name}/{request}");
            }
            if names.contains(&key) {
                errors.duplicate(&path, &key);
            } else if request.is_empty() {
                for _ in names.iter().filter(|other| other.split_once('/').is_some_and(|(of, _)| of == name)) {
                    errors.duplicate(&path, name);
                }
            }
            names.insert(key);
        }
        if !claims.contains(name) {
            let known: Vec<&str> = claims.iter().copied().collect();
            let known = if known.is_empty() { " which is empty".to_owned() } else { format!(": {}", known.join(", ")) };
            let detail = format!("must be one of the names in pod.spec.resourceClaims{known}");
            errors.push(Error { detail, ..Error::not_found(&path, name) });
        }
    }
}
