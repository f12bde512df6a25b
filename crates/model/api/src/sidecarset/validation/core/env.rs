//! Environment variables and where their values come from.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, EnvVarSource, ObjectFieldSelector, ResourceFieldSelector};
use pillion_patch::name::{dns_subdomain, qualified_name};
use pillion_quantity::Quantity;

use super::super::check;
use crate::field::{Error, Path};
use crate::sidecarset::field_ref::subscript;

/// The fields of a pod that a variable can have.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The resources of a container that a variable or a file can have, beside huge pages.
const CONTAINER_RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn validate(variables: &[EnvVar], path: &Path, errors: &mut Vec<Error>) {
    for (i, variable) in variables.iter().enumerate() {
        let path = path.index(i);
        if variable.name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        } else {
            check(variable_name(&variable.name), &variable.name, &path.child("name"), errors);
        }
        if let Some(source) = &variable.value_from {
            let has_value = variable.value.as_ref().is_some_and(|value| !value.is_empty());
            validate_source(source, has_value, &path.child("valueFrom"), errors);
        }
    }
}

fn validate_source(source: &EnvVarSource, has_value: bool, path: &Path, errors: &mut Vec<Error>) {
    if let Some(field) = &source.field_ref {
        validate_field_ref(field, &FIELDS, &path.child("fieldRef"), errors);
    }
    if let Some(resource) = &source.resource_field_ref {
        validate_resource_field_ref(resource, &path.child("resourceFieldRef"), errors);
    }
    if let Some(key) = &source.config_map_key_ref {
        validate_key(&key.name, &key.key, &path.child("configMapKeyRef"), errors);
    }
    if let Some(key) = &source.secret_key_ref {
        validate_key(&key.name, &key.key, &path.child("secretKeyRef"), errors);
    }
    let sources = [
        source.field_ref.is_some(),
        source.resource_field_ref.is_some(),
        source.config_map_key_ref.is_some(),
        source.secret_key_ref.is_some(),
        source.file_key_ref.is_some(),
    ];
    let detail = match sources.iter().filter(|given| **given).count() {
        0 => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        _ if has_value => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(Error::invalid(path, "", detail));
}

pub(super) fn validate_from(sources: &[EnvFromSource], path: &Path, errors: &mut Vec<Error>) {
    for (i, source) in sources.iter().enumerate() {
        let path = path.index(i);
        if let Some(prefix) = source.prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
            check(variable_name(prefix), prefix, &path.child("prefix"), errors);
        }
        let config_map = source.config_map_ref.as_ref().map(|source| (&source.name, "configMapRef"));
        let secret = source.secret_ref.as_ref().map(|source| (&source.name, "secretRef"));
        for (name, field) in config_map.into_iter().chain(secret) {
            let path = path.child(field).child("name");
            if name.is_empty() {
                errors.push(Error::required(&path, ""));
            } else {
                check(dns_subdomain(name), name, &path, errors);
            }
        }
        let detail = match (config_map, secret) {
            (None, None) => "must specify one of: `configMapRef` or `secretRef`",
            (Some(_), Some(_)) => "may not have more than one field specified at a time",
            _ => continue,
        };
        errors.push(Error::invalid(&path, "", detail));
    }
}

/// A key of a ConfigMap or a Secret.
fn validate_key(name: &str, key: &str, path: &Path, errors: &mut Vec<Error>) {
    check(dns_subdomain(name), name, &path.child("name"), errors);
    if key.is_empty() {
        errors.push(Error::required(&path.child("key"), ""));
    } else {
        check(config_key(key), key, &path.child("key"), errors);
    }
}

pub(in super::super) fn validate_field_ref(
    field: &ObjectFieldSelector,
    supported: &[&str],
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let at = path.child("fieldPath");
    if let Some(version) = field.api_version.as_deref().filter(|version| !matches!(*version, "" | "v1")) {
        errors.push(Error::invalid(&path.child("apiVersion"), version, "unsupported pod version"));
        return;
    }
    match subscript(&field.field_path) {
        _ if field.field_path.is_empty() => errors.push(Error::required(&at, "")),
        Some(("metadata.annotations", key)) => check(qualified_name(&key.to_lowercase()), key, &at, errors),
        Some(("metadata.labels", key)) => check(qualified_name(key), key, &at, errors),
        Some(_) => errors.push(Error::invalid(&at, field.field_path.as_str(), "does not support subscript")),
        None if supported.contains(&field.field_path.as_str()) => {}
        None => errors.push(Error::not_supported(&at, field.field_path.as_str(), supported)),
    }
}

pub(in super::super) fn validate_resource_field_ref(
    field: &ResourceFieldSelector,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let resource = field.resource.as_str();
    let is_huge_pages = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if resource.is_empty() {
        errors.push(Error::required(&path.child("resource"), ""));
    } else if !CONTAINER_RESOURCES.contains(&resource) && !is_huge_pages {
        errors.push(Error::not_supported(&path.child("resource"), resource, &CONTAINER_RESOURCES));
    }
    let Some(divisor) = &field.divisor else { return };
    let path = path.child("divisor");
    match divisor.0.trim().parse::<Quantity>() {
        Err(error) => errors.push(Error::invalid(&path, divisor.0.as_str(), error.to_string())),
        Ok(quantity) if quantity.is_zero() => {}
        Ok(quantity) => {
            let is_cpu = matches!(resource, "limits.cpu" | "requests.cpu");
            let text = quantity.to_string();
            let units: &[&str] = if is_cpu { &["1m", "1"] } else { &SIZES };
            if !units.contains(&text.as_str()) {
                let kind = if is_cpu { "cpu" } else { "memory and storage" };
                let detail = format!("only divisor's values {} are supported with {kind} resources", units.join(", "));
                errors.push(Error::invalid(&path, text, detail));
            }
        }
    }
}

const SIZES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

fn variable_name(name: &str) -> Result<(), String> {
    if name.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=') {
        Ok(())
    } else {
        Err("a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned())
    }
}

fn config_key(key: &str) -> Result<(), String> {
    if key.len() > 253 {
        Err("must be no more than 253 bytes".to_owned())
    } else if !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        Err("a valid config key must consist of alphanumeric characters, '-', '_' or '.'".to_owned())
    } else if key == "." || key.starts_with("..") {
        Err("must not be '.' and must not start with '..'".to_owned())
    } else {
        Ok(())
    }
}
