//! The spec of a claim to a volume: of the claims that StatefulSets and ephemeral volumes make.

use serde_json::{Value, json};

use crate::field::{Error, Path};
use crate::format::{check, dns_label, dns_subdomain};
use crate::value::{has, list, text};
use crate::{quantities, selector};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

fn validate_access_modes(modes: &[Value], path: &Path, errors: &mut Vec<Error>) {
    let modes: Vec<&str> = modes.iter().filter_map(Value::as_str).collect();
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(Error::not_supported(path, *mode, &ACCESS_MODES));
    }
    let known_other = |mode: &&str| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode);
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(known_other) {
        errors.push(Error::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    }
}

pub fn validate_spec(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let modes = list(spec, "accessModes");
    if modes.is_empty() {
        errors.push(Error::required(&path.child("accessModes"), "at least 1 access mode is required"));
    }
    selector::validate(&spec["selector"], &path.child("selector"), errors);
    validate_access_modes(modes, &path.child("accessModes"), errors);
    let storage = &spec["resources"]["requests"]["storage"];
    let storage_path = path.child("resources").key("storage");
    if storage.is_null() {
        errors.push(Error::required(&storage_path, ""));
    } else {
        quantities::validate_positive(storage, &storage_path, errors);
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        check(dns_subdomain(class), class, &path.child("storageClassName"), errors);
    }
    if let Some(mode) = spec["volumeMode"].as_str().filter(|mode| !VOLUME_MODES.contains(mode)) {
        errors.push(Error::not_supported(&path.child("volumeMode"), mode, &VOLUME_MODES));
    }
    validate_sources(spec, path, errors);
    let class = text(spec, "volumeAttributesClassName");
    if !class.is_empty() {
        check(dns_subdomain(class), class, &path.child("volumeAttributesClassName"), errors);
    }
}

fn validate_sources(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    for field in ["dataSource", "dataSourceRef"] {
        if has(spec, field) {
            validate_source(&spec[field], &path.child(field), errors);
        }
    }
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    if source.is_null() || reference.is_null() {
        return;
    }
    // The path itself stands where the value should, without its text.
    if !text(reference, "namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.push(Error::invalid(path, json!({}), detail));
    } else if ["apiGroup", "kind", "name"].iter().any(|field| source[*field] != reference[*field]) {
        errors.push(Error::invalid(path, json!({}), "must match dataSourceRef"));
    }
}

fn validate_source(source: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (group, kind, namespace) = (text(source, "apiGroup"), text(source, "kind"), text(source, "namespace"));
    for field in ["name", "kind"] {
        if text(source, field).is_empty() {
            errors.push(Error::required(&path.child(field), ""));
        }
    }
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(Error::invalid(path, kind, detail));
    }
    if !group.is_empty() {
        check(dns_subdomain(group), group, &path.child("apiGroup"), errors);
    }
    if !namespace.is_empty() {
        check(dns_label(namespace), namespace, &path.child("namespace"), errors);
    }
}
