//! Environment variables and what they can be taken from.

use serde_json::Value;

use super::format;
use super::paths::validate_no_backsteps;
use super::report::{Errors, Report};
use crate::field::Path;
use crate::metadata::subdomain_name;
use crate::pod::read::{list, part, text};
use crate::pod::resources::quantity;

/// Fields of a pod that a variable can show.
const VARIABLE_FIELDS: [&str; 9] = [
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

/// Fields of a pod that a file can show.
pub(super) const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Fields that the API server knows, though variables and files can show only some of them.
const KNOWN_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Checks the variables of one container.
pub(super) fn validate(errors: &mut Errors, container: &Value, path: &Path) {
    for (i, variable) in list(container, "env").iter().enumerate() {
        let path = path.index(i);
        match text(variable, "name") {
            "" => errors.required(&path.child("name"), ""),
            name => errors.each(&path.child("name"), name, format::variable_name(name)),
        }
        if let Some(source) = part(variable, "valueFrom") {
            validate_source(errors, source, text(variable, "value"), &path.child("valueFrom"));
        }
    }
}

fn validate_source(errors: &mut Errors, source: &Value, value: &str, path: &Path) {
    let mut sources = 0;
    if let Some(reference) = part(source, "fieldRef") {
        sources += 1;
        validate_field(errors, reference, &VARIABLE_FIELDS, &path.child("fieldRef"));
    }
    if let Some(reference) = part(source, "resourceFieldRef") {
        sources += 1;
        validate_resource(errors, reference, &path.child("resourceFieldRef"), false);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = part(source, kind) {
            sources += 1;
            validate_key(errors, reference, &path.child(kind));
        }
    }
    if let Some(reference) = part(source, "fileKeyRef") {
        sources += 1;
        validate_file_key(errors, reference, &path.child("fileKeyRef"));
    }
    if sources == 0 {
        errors.invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        );
    } else if !value.is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// Checks a reference to a field of the pod, such as `metadata.labels['app']`.
pub(super) fn validate_field(errors: &mut Errors, reference: &Value, supported: &[&str], path: &Path) {
    let (version, field) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    if version.is_empty() {
        return errors.required(&path.child("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(&path.child("fieldPath"), "");
    }
    let mut unconvertible = |reason: String| {
        errors.invalid(&path.child("fieldPath"), field, format!("error converting fieldPath: {reason}"));
    };
    if version != "v1" {
        return unconvertible(format!("unsupported pod version: {version}"));
    }
    match split_subscript(field) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            errors.each(path, key.as_str(), format::qualified_name(&key));
        }
        Some(("metadata.labels", key)) => errors.each(path, key, format::qualified_name(key)),
        Some(_) => unconvertible(format!("field label does not support subscript: {field}")),
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !VARIABLE_FIELDS.contains(&field) && !KNOWN_FIELDS.contains(&field) {
                unconvertible(format!("field label not supported: {field}"));
            } else {
                errors.one_of(&path.child("fieldPath"), field, supported);
            }
        }
    }
}

/// The two parts of a field path such as `metadata.labels['app']`. `None` if it has no subscript.
pub fn split_subscript(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// Checks a reference to a resource of a container. In a file it must say which container.
pub(super) fn validate_resource(errors: &mut Errors, reference: &Value, path: &Path, in_file: bool) {
    let resource = text(reference, "resource");
    let is_huge_page = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_file && text(reference, "containerName").is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !is_huge_page {
        errors.one_of(&path.child("resource"), resource, &RESOURCES);
    }
    let divisor = quantity(&reference["divisor"]);
    if divisor.is_zero() {
        return;
    }
    let divisor = divisor.to_string();
    let is_unit = matches!(
        divisor.as_str(),
        "1" | "1k" | "1M" | "1G" | "1T" | "1P" | "1E" | "1Ki" | "1Mi" | "1Gi" | "1Ti" | "1Pi" | "1Ei"
    );
    let units = "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the";
    let mut refuse = |what: String| errors.invalid(&path.child("divisor"), resource, what);
    match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" if !matches!(divisor.as_str(), "1m" | "1") => {
            refuse("only divisor's values 1m and 1 are supported with the cpu resource".to_owned());
        }
        "memory" if !is_unit => refuse(format!("{units} memory resource")),
        "ephemeral-storage" if !is_unit => refuse(format!("{units} local ephemeral storage resource")),
        _ if is_huge_page && !is_unit => refuse(format!("{units} hugepages resource")),
        _ => {}
    }
}

fn validate_key(errors: &mut Errors, reference: &Value, path: &Path) {
    let name = text(reference, "name");
    errors.each(&path.child("name"), name, format::dns_subdomain(name));
    match text(reference, "key") {
        "" => errors.required(&path.child("key"), ""),
        key => errors.each(&path.child("key"), key, format::config_key(key)),
    }
}

fn validate_file_key(errors: &mut Errors, reference: &Value, path: &Path) {
    match text(reference, "key") {
        "" => errors.required(&path.child("key"), ""),
        key => errors.each(&path.child("key"), key, format::variable_name(key)),
    }
    match text(reference, "volumeName") {
        "" => errors.required(&path.child("volumeName"), ""),
        name => errors.each(&path.child("volumeName"), name, format::dns_label(name)),
    }
    match text(reference, "path") {
        "" => errors.required(&path.child("path"), ""),
        file => validate_no_backsteps(errors, file, &path.child("path")),
    }
}

/// Checks the ConfigMaps and Secrets that a container takes whole.
pub(super) fn validate_from(errors: &mut Errors, container: &Value, path: &Path) {
    for (i, source) in list(container, "envFrom").iter().enumerate() {
        let element = path.index(i);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            errors.each(&element.child("prefix"), prefix, format::variable_name(prefix));
        }
        let mut sources = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = part(source, kind) else { continue };
            sources += 1;
            let path = element.child(kind).child("name");
            match text(reference, "name") {
                "" => errors.required(&path, ""),
                name => errors.each(&path, name, subdomain_name(name, true)),
            }
        }
        match sources {
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}

/// Checks that variables from files take them from empty directories, where a container can have written them.
pub(super) fn validate_file_volumes(errors: &mut Errors, spec: &Value, path: &Path) {
    for (container, path) in crate::pod::read::containers(spec, path) {
        for (i, variable) in list(container, "env").iter().enumerate() {
            let Some(reference) = part(&variable["valueFrom"], "fileKeyRef") else { continue };
            let path = path.child("env").index(i).child("valueFrom").child("fileKeyRef").child("volumeName");
            let name = text(reference, "volumeName");
            match list(spec, "volumes").iter().rev().find(|volume| text(volume, "name") == name) {
                None => errors.not_found(&path, name),
                Some(volume) if part(volume, "emptyDir").is_none() => {
                    errors.invalid(&path, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
}
