//! `PersistentVolumes`. Of the kinds of storage behind them, those that one machine can have are looked into.

use serde_json::{Value, json};

use crate::field::{Error, Path};
use crate::format::{check, dns_subdomain};
use crate::metadata::{self, subdomain_name, validate_immutable};
use crate::quantities;
use crate::rules::{Rules, WITH_STATUS};
use crate::value::{entries, fill, fill_text, has, is_empty, list, object_mut, pointer_mut, set, text};
use crate::volume_claim::{VOLUME_MODES, validate_access_modes};

const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
/// Every field that says where the volume is.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create: |volume| set(volume, "status", json!({"phase": "Pending"})),
    validate,
    validate_update,
    selectable,
    ..WITH_STATUS
};

fn default(volume: &mut Value) {
    fill_text(object_mut(volume, "status"), "phase", "Pending");
    let spec = object_mut(volume, "spec");
    fill_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
    if let Some(host_path) = pointer_mut(spec, "hostPath") {
        fill(host_path, "type", "");
    }
}

fn validate(volume: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&volume["metadata"], &Path::new("metadata"), false, subdomain_name);
    validate_spec(&volume["spec"], &Path::new("spec"), &mut errors);
    errors
}

fn validate_spec(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let modes = list(spec, "accessModes");
    if modes.is_empty() {
        errors.push(Error::required(&path.child("accessModes"), ""));
    }
    validate_access_modes(modes, &path.child("accessModes"), errors);
    let capacity_path = path.child("capacity");
    if is_empty(spec, "capacity") {
        errors.push(Error::required(&capacity_path, ""));
    }
    if !has(&spec["capacity"], "storage") || entries(spec, "capacity").count() > 1 {
        errors.push(Error::not_supported(&capacity_path, spec["capacity"].clone(), &["storage"]));
    }
    for (name, value) in entries(spec, "capacity") {
        quantities::validate_positive(value, &capacity_path.key(name), errors);
    }
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !RECLAIM_POLICIES.contains(&policy) {
        errors.push(Error::not_supported(&path.child("persistentVolumeReclaimPolicy"), policy, &RECLAIM_POLICIES));
    }
    let mut sources = SOURCES.into_iter().filter(|source| has(spec, source));
    match sources.next() {
        None => errors.push(Error::required(path, "must specify a volume type")),
        Some(source) => validate_source(spec, source, path, errors),
    }
    for source in sources {
        errors.push(Error::forbidden(&path.child(source), "may not specify more than 1 volume type"));
    }
    let host_path = text(&spec["hostPath"], "path");
    if policy == "Recycle" && host_path == "/" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(Error::forbidden(&path.child("persistentVolumeReclaimPolicy"), detail));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        check(dns_subdomain(class), class, &path.child("storageClassName"), errors);
    }
    if let Some(mode) = spec["volumeMode"].as_str().filter(|mode| !VOLUME_MODES.contains(mode)) {
        errors.push(Error::not_supported(&path.child("volumeMode"), mode, &VOLUME_MODES));
    }
}

fn validate_source(spec: &Value, source: &str, parent: &Path, errors: &mut Vec<Error>) {
    let (volume, path) = (&spec[source], parent.child(source));
    let require = |field: &str, errors: &mut Vec<Error>| {
        if text(volume, field).is_empty() {
            errors.push(Error::required(&path.child(field), ""));
        }
    };
    match source {
        "hostPath" => require("path", errors),
        "nfs" => {
            require("server", errors);
            require("path", errors);
        }
        "local" => {
            require("path", errors);
            if !has(spec, "nodeAffinity") {
                errors.push(Error::required(&parent.child("nodeAffinity"), "Local volume requires node affinity"));
            }
        }
        "csi" => {
            require("driver", errors);
            require("volumeHandle", errors);
        }
        _ => {}
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = validate(new);
    errors.extend(metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata")));
    let (spec, old_spec, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    if SOURCES.iter().any(|source| spec[*source] != old_spec[*source]) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(Error::forbidden(&path.child("persistentvolumesource"), detail));
    }
    // The path is as the API server writes it.
    validate_immutable(&spec["volumeMode"], &old_spec["volumeMode"], &Path::new("volumeMode"), &mut errors);
    errors
}

fn selectable(volume: &Value, field: &str) -> Option<String> {
    (field == "name").then(|| text(&volume["metadata"], "name").to_owned())
}
