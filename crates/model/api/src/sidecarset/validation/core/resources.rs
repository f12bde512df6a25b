//! Requests and limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource;
use pillion_patch::name::qualified_name;
use pillion_quantity::Quantity;

use super::super::check;
use crate::field::{Error, Path};

pub(super) fn validate(resources: &ResourceRequirements, path: &Path, errors: &mut Vec<Error>) {
    let limits = validate_list(resources.limits.as_ref(), &path.child("limits"), errors);
    let requests = validate_list(resources.requests.as_ref(), &path.child("requests"), errors);

    for (name, request) in &requests {
        let at = path.child("requests").key(*name);
        match limits.get(name) {
            Some(limit) if request != limit && !can_be_overcommitted(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.push(Error::invalid(&at, request.to_string(), detail));
            }
            Some(limit) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(Error::invalid(&at, request.to_string(), detail));
            }
            None if !can_be_overcommitted(name) => {
                let at = path.child("limits").key(*name);
                errors.push(Error::required(&at, "Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
    }

    let mut names = limits.keys().chain(requests.keys());
    if names.clone().any(|name| is_huge_pages(name)) && !names.any(|name| matches!(*name, "cpu" | "memory")) {
        errors.push(Error::forbidden(path, "HugePages require cpu or memory"));
    }
    // A set declares no claims, and cannot know those of the pods.
    for (i, claim) in resources.claims.iter().flatten().enumerate() {
        errors.push(Error::not_found(&path.child("claims").index(i), claim.name.as_str()));
    }
}

/// The quantities of the list that are some.
fn validate_list<'a>(
    list: Option<&'a BTreeMap<String, resource::Quantity>>,
    path: &Path,
    errors: &mut Vec<Error>,
) -> BTreeMap<&'a str, Quantity> {
    let mut quantities = BTreeMap::new();
    for (name, text) in list.into_iter().flatten() {
        let path = path.key(name);
        validate_name(name, &path, errors);
        match text.0.trim().parse::<Quantity>() {
            Err(error) => errors.push(Error::invalid(&path, text.0.as_str(), error.to_string())),
            Ok(quantity) => {
                if quantity.is_negative() {
                    errors.push(Error::invalid(&path, text.0.as_str(), "must be greater than or equal to 0"));
                }
                if is_extended(name) && quantity.milli_value() % 1000 != 0 {
                    errors.push(Error::invalid(&path, text.0.as_str(), "must be an integer"));
                }
                quantities.insert(name.as_str(), quantity);
            }
        }
    }
    quantities
}

fn validate_name(name: &str, path: &Path, errors: &mut Vec<Error>) {
    check(qualified_name(name), name, path, errors);
    let is_standard = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(name);
    if !name.contains('/') && !is_standard {
        errors.push(Error::invalid(path, name, "must be a standard resource for containers"));
    }
}

/// A resource that a device plugin or a cluster's administrator brings.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/")
}

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn can_be_overcommitted(name: &str) -> bool {
    !is_extended(name) && !is_huge_pages(name)
}
