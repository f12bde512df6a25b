//! Where containers mount volumes and devices.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::paths::{has_backstep, validate_descending};
use super::report::{Errors, Report};
use super::volume::Volumes;
use crate::field::Path;
use crate::pod::read::{flag, list, part, pointer_text, text};

/// Checks the mounts of one container.
pub(super) fn validate(errors: &mut Errors, container: &Value, volumes: &Volumes, path: &Path) {
    let devices = by_name(container, "volumeDevices", "devicePath");
    let mut places = BTreeSet::new();
    for (i, mount) in list(container, "volumeMounts").iter().enumerate() {
        let element = path.index(i);
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        errors.non_empty(&element.child("name"), name);
        if !volumes.contains_key(name) {
            errors.not_found(&element.child("name"), name);
        }
        errors.non_empty(&element.child("mountPath"), place);
        if !places.insert(place) {
            errors.invalid(&element.child("mountPath"), place, "must be unique");
        }
        if devices.contains_key(name) {
            errors.invalid(&element.child("name"), name, "must not already exist in volumeDevices");
        }
        if devices.values().any(|device| *device == place) {
            errors.invalid(&element.child("mountPath"), place, "must not already exist as a path in volumeDevices");
        }
        let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        if !sub_path.is_empty() {
            validate_descending(errors, sub_path, &path.child("subPath"));
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                errors.invalid(
                    &element.child("subPathExpr"),
                    expression,
                    "subPathExpr and subPath are mutually exclusive",
                );
            }
            validate_descending(errors, expression, &path.child("subPathExpr"));
        }
        validate_propagation(errors, mount, container, &path.child("mountPropagation"));
        validate_recursive_read_only(errors, mount, &path.child("recursiveReadOnly"));
    }
}

fn by_name<'a>(container: &'a Value, field: &str, place: &str) -> BTreeMap<&'a str, &'a str> {
    list(container, field).iter().map(|mount| (text(mount, "name"), text(mount, place))).collect()
}

fn validate_propagation(errors: &mut Errors, mount: &Value, container: &Value, path: &Path) {
    let Some(propagation) = pointer_text(mount, "mountPropagation") else { return };
    errors.one_of(path, propagation, &["Bidirectional", "HostToContainer", "None"]);
    if propagation == "Bidirectional" && !flag(&container["securityContext"], "privileged") {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn validate_recursive_read_only(errors: &mut Errors, mount: &Value, path: &Path) {
    match pointer_text(mount, "recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !flag(mount, "readOnly") {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if pointer_text(mount, "mountPropagation").is_some_and(|propagation| propagation != "None") {
                errors.forbidden(path, "may only be specified when mountPropagation is None or not specified");
            }
        }
        Some(other) => errors.unsupported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

/// Checks the block devices of one container.
pub(super) fn validate_devices(errors: &mut Errors, container: &Value, volumes: &Volumes, path: &Path) {
    let mounts = by_name(container, "volumeMounts", "mountPath");
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in list(container, "volumeDevices").iter().enumerate() {
        let (name, place) = (text(device, "name"), text(device, "devicePath"));
        let (name_path, place_path) = (path.index(i).child("name"), path.index(i).child("devicePath"));
        errors.non_empty(&name_path, name);
        if names.contains(name) {
            errors.invalid(&name_path, name, "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(&name_path, name),
            Some(volume) if part(volume, "persistentVolumeClaim").is_none() && part(volume, "ephemeral").is_none() => {
                errors.invalid(
                    &name_path,
                    name,
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                );
            }
            Some(_) => {}
        }
        errors.non_empty(&place_path, place);
        if places.contains(place) {
            errors.invalid(&place_path, place, "must be unique");
        }
        if has_backstep(place) {
            errors.invalid(&place_path, place, "can not contain backsteps ('..')");
        } else {
            places.insert(place);
        }
        if mounts.contains_key(name) {
            errors.invalid(&name_path, name, "must not already exist in volumeMounts");
        }
        if mounts.values().any(|mount| *mount == place) {
            errors.invalid(&place_path, place, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
