//! Volumes of storage systems that are named in the pod itself. Most are of old, and are checked for what they cannot do without.

use serde_json::{Value, json};

use super::format::{self, between};
use super::report::{Errors, Report};
use crate::field::Path;
use crate::pod::read::{flag, list, number, part, pointer_number, pointer_text, text, text_entries};

/// Checks one source; `path` is its own.
pub(super) fn validate(errors: &mut Errors, kind: &str, source: &Value, path: &Path) {
    let mut needs = |fields: &[&str]| {
        for field in fields {
            errors.non_empty(&path.child(*field), text(source, field));
        }
    };
    match kind {
        "glusterfs" => needs(&["endpoints", "path"]),
        "azureFile" => needs(&["secretName", "shareName"]),
        "vsphereVolume" => needs(&["volumePath"]),
        "photonPersistentDisk" => needs(&["pdID"]),
        "portworxVolume" => needs(&["volumeID"]),
        "scaleIO" => needs(&["gateway", "system", "volumeName"]),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            needs(&[if kind == "gcePersistentDisk" { "pdName" } else { "volumeID" }]);
            validate_partition(errors, source, path);
        }
        "nfs" => {
            needs(&["server", "path"]);
            if !text(source, "path").starts_with('/') {
                errors.invalid(&path.child("path"), text(source, "path"), "must be an absolute path");
            }
        }
        "cinder" => {
            needs(&["volumeID"]);
            if part(source, "secretRef").is_some_and(|secret| text(secret, "name").is_empty()) {
                errors.required(&path.child("secretRef").child("name"), "");
            }
        }
        "rbd" => {
            if list(source, "monitors").is_empty() {
                errors.required(&path.child("monitors"), "");
            }
            errors.non_empty(&path.child("image"), text(source, "image"));
        }
        "cephfs" if list(source, "monitors").is_empty() => errors.required(&path.child("monitors"), ""),
        "iscsi" => validate_iscsi(errors, source, path),
        "fc" => validate_fc(errors, source, path),
        "flexVolume" => validate_flex(errors, source, path),
        "flocker" => validate_flocker(errors, source, path),
        "quobyte" => validate_quobyte(errors, source, path),
        "azureDisk" => validate_azure_disk(errors, source, path),
        "storageos" => validate_storage_os(errors, source, path),
        _ => {}
    }
}

fn validate_partition(errors: &mut Errors, source: &Value, path: &Path) {
    let partition = number(source, "partition");
    if !(0..=255).contains(&partition) {
        errors.invalid(&path.child("partition"), partition, between(1, 255));
    }
}

fn validate_iscsi(errors: &mut Errors, source: &Value, path: &Path) {
    errors.non_empty(&path.child("targetPortal"), text(source, "targetPortal"));
    match text(source, "iqn") {
        "" => errors.required(&path.child("iqn"), ""),
        name => validate_iscsi_name(errors, name, &path.child("iqn")),
    }
    let unit = number(source, "lun");
    errors.each(&path.child("lun"), unit, format::in_range(unit, 0, 255));
    let authenticates = flag(source, "chapAuthDiscovery") || flag(source, "chapAuthSession");
    if authenticates && part(source, "secretRef").is_none() {
        errors.required(&path.child("secretRef"), "");
    }
    if let Some(name) = pointer_text(source, "initiatorName") {
        validate_iscsi_name(errors, name, &path.child("initiatorname"));
    }
}

fn validate_iscsi_name(errors: &mut Errors, name: &str, path: &Path) {
    let is_good = if name.starts_with("iqn") {
        is_iqn(name)
    } else if let Some(rest) = name.strip_prefix("eui") {
        has_id(rest, 16)
    } else if let Some(rest) = name.strip_prefix("naa") {
        has_id(rest, 32)
    } else {
        return errors.invalid(path, name, "must be valid format starting with iqn, eui, or naa");
    };
    if !is_good {
        errors.invalid(path, name, "must be valid format");
    }
}

/// One character and so many letters and digits.
fn has_id(rest: &str, length: usize) -> bool {
    let mut characters = rest.chars();
    characters.next().is_some() && characters.as_str().len() == length && characters.all(|c| c.is_ascii_alphanumeric())
}

/// `iqn.2001-04.com.example:storage`, anywhere towards the end.
fn is_iqn(name: &str) -> bool {
    let Some(date) = name.strip_prefix("iqn.").and_then(|rest| rest.get(..8).map(|date| (date, rest))) else {
        return false;
    };
    let (date, rest) = date;
    let is_date = date.bytes().enumerate().all(|(i, b)| match i {
        4 => b == b'-',
        7 => b == b'.',
        _ => b.is_ascii_digit(),
    });
    let Some((authority, target)) = rest.get(8..).and_then(|rest| rest.split_once(':')) else { return false };
    is_date
        && !authority.is_empty()
        && authority.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
        && !target.is_empty()
        && !target.contains(|c: char| matches!(c, ',' | ';' | '*' | '&' | '$' | '|') || c.is_ascii_whitespace())
}

fn validate_fc(errors: &mut Errors, source: &Value, path: &Path) {
    let (names, ids) = (list(source, "targetWWNs"), list(source, "wwids"));
    let names_path = path.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        errors.required(&names_path, "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        errors.invalid(&names_path, json!(names), "targetWWNs and wwids can not be specified simultaneously");
    }
    if !names.is_empty() {
        match pointer_number(source, "lun") {
            None => errors.required(&path.child("lun"), "lun is required if targetWWNs is specified"),
            Some(unit) => errors.each(&path.child("lun"), unit, format::in_range(unit, 0, 255)),
        }
    }
}

fn validate_flex(errors: &mut Errors, source: &Value, path: &Path) {
    errors.non_empty(&path.child("driver"), text(source, "driver"));
    for (key, _) in text_entries(source, "options") {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let rule = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(&path.child("options").key(key), key, rule);
        }
    }
}

fn validate_flocker(errors: &mut Errors, source: &Value, path: &Path) {
    let (name, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.contains('/') {
        errors.invalid(&path.child("datasetName"), name, "must not contain '/'");
    }
}

fn validate_quobyte(errors: &mut Errors, source: &Value, path: &Path) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(source, "registry");
    if registry.is_empty() {
        errors.required(&path.child("registry"), PAIRS);
    } else if text(source, "tenant").len() >= 65 {
        let rule = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&path.child("tenant"), rule);
    } else {
        for _ in registry.split(',').filter(|pair| pair.matches(':').count() != 1) {
            errors.invalid(&path.child("registry"), registry, PAIRS);
        }
    }
    errors.non_empty(&path.child("volume"), text(source, "volume"));
}

fn validate_azure_disk(errors: &mut Errors, source: &Value, path: &Path) {
    let (disk, kind) = (text(source, "diskURI"), pointer_text(source, "kind"));
    errors.non_empty(&path.child("diskName"), text(source, "diskName"));
    errors.non_empty(&path.child("diskURI"), disk);
    if let Some(mode) = pointer_text(source, "cachingMode") {
        errors.one_of(&path.child("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"]);
    }
    let Some(kind) = kind else { return };
    errors.one_of(&path.child("kind"), kind, &["Dedicated", "Managed", "Shared"]);
    let (start, form) = if kind == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    if !disk.starts_with(start) {
        errors.unsupported(&path.child("diskURI"), disk, &[form]);
    }
}

fn validate_storage_os(errors: &mut Errors, source: &Value, path: &Path) {
    match text(source, "volumeName") {
        "" => errors.required(&path.child("volumeName"), ""),
        name => errors.each(&path.child("volumeName"), name, format::dns_label(name)),
    }
    let namespace = text(source, "volumeNamespace");
    if !namespace.is_empty() {
        errors.each(&path.child("volumeNamespace"), namespace, format::dns_label(namespace));
    }
    if part(source, "secretRef").is_some_and(|secret| text(secret, "name").is_empty()) {
        errors.required(&path.child("secretRef").child("name"), "");
    }
}
