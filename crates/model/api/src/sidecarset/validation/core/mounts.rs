//! Volume mounts and block devices: volumes of the set, each path once.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, VolumeDevice, VolumeMount};

use super::super::volumes::{VolumeKind, Volumes};
use super::{one_of, require};
use crate::field::{Error, Path};

pub(super) fn validate(container: &Container, volumes: &Volumes, path: &Path, errors: &mut Vec<Error>) {
    let mounts = container.volume_mounts.as_deref().unwrap_or_default();
    let devices = container.volume_devices.as_deref().unwrap_or_default();
    let privileged = container.security_context.as_ref().and_then(|context| context.privileged) == Some(true);

    let mut paths = BTreeSet::new();
    for (i, mount) in mounts.iter().enumerate() {
        let path = path.child("volumeMounts").index(i);
        validate_volume_name(&mount.name, volumes, &path.child("name"), errors);
        require(Some(&mount.mount_path), &path.child("mountPath"), errors);
        if !paths.insert(mount.mount_path.as_str()) {
            errors.push(Error::invalid(&path.child("mountPath"), mount.mount_path.as_str(), "must be unique"));
        }
        let devices = devices.iter().map(|device| (&device.name, &device.device_path));
        refuse_clash((&mount.name, &mount.mount_path), devices, ("mountPath", "volumeDevices"), &path, errors);
        validate_sub_path(mount, volumes, &path, errors);
        validate_propagation(mount, privileged, &path, errors);
    }

    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in devices.iter().enumerate() {
        let path = path.child("volumeDevices").index(i);
        validate_device(device, volumes, &path, errors);
        if !names.insert(device.name.as_str()) {
            errors.push(Error::invalid(&path.child("name"), device.name.as_str(), "must be unique"));
        }
        if !paths.insert(device.device_path.as_str()) {
            errors.push(Error::invalid(&path.child("devicePath"), device.device_path.as_str(), "must be unique"));
        }
        let mounts = mounts.iter().map(|mount| (&mount.name, &mount.mount_path));
        refuse_clash((&device.name, &device.device_path), mounts, ("devicePath", "volumeMounts"), &path, errors);
    }
}

fn validate_volume_name(name: &str, volumes: &Volumes, path: &Path, errors: &mut Vec<Error>) {
    if name.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !volumes.contains_key(name) {
        errors.push(Error::not_found(path, name));
    }
}

/// A mount and a device can share neither their volume nor their path.
fn refuse_clash<'a>(
    (name, place): (&str, &str),
    mut others: impl Iterator<Item = (&'a String, &'a String)> + Clone,
    (field, list): (&str, &str),
    path: &Path,
    errors: &mut Vec<Error>,
) {
    if !name.is_empty() && others.clone().any(|(other, _)| other == name) {
        errors.push(Error::invalid(&path.child("name"), name, format!("must not already exist in {list}")));
    }
    if !place.is_empty() && others.any(|(_, other)| other == place) {
        errors.push(Error::invalid(&path.child(field), place, format!("must not already exist as a path in {list}")));
    }
}

fn validate_sub_path(mount: &VolumeMount, volumes: &Volumes, path: &Path, errors: &mut Vec<Error>) {
    let given = |text: &'_ Option<String>| text.clone().filter(|text| !text.is_empty());
    let sub_path = given(&mount.sub_path).map(|text| (path.child("subPath"), text));
    let expression = given(&mount.sub_path_expr).map(|text| (path.child("subPathExpr"), text));
    if let (Some(_), Some((path, text))) = (&sub_path, &expression) {
        errors.push(Error::invalid(path, text.as_str(), "subPathExpr and subPath are mutually exclusive"));
    }
    for (path, text) in sub_path.into_iter().chain(expression) {
        validate_local_path(&text, &path, errors);
        if volumes.get(&mount.name) == Some(&VolumeKind::Image) {
            errors.push(Error::invalid(&path, text, "not allowed in image volume sources"));
        }
    }
}

fn validate_propagation(mount: &VolumeMount, privileged: bool, path: &Path, errors: &mut Vec<Error>) {
    let propagation = mount.mount_propagation.as_deref();
    let at = path.child("mountPropagation");
    one_of(propagation, &["Bidirectional", "HostToContainer", "None"], &at, errors);
    if propagation == Some("Bidirectional") && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(Error::forbidden(&at, detail));
    }

    let recursive = mount.recursive_read_only.as_deref();
    let at = path.child("recursiveReadOnly");
    one_of(recursive, &["Disabled", "Enabled", "IfPossible"], &at, errors);
    if matches!(recursive, Some("Enabled" | "IfPossible")) {
        if mount.read_only != Some(true) {
            errors.push(Error::forbidden(&at, "may only be specified when readOnly is true"));
        }
        if propagation.is_some_and(|propagation| propagation != "None") {
            let detail = "may only be specified when mountPropagation is None or not specified";
            errors.push(Error::forbidden(&at, detail));
        }
    }
}

fn validate_device(device: &VolumeDevice, volumes: &Volumes, path: &Path, errors: &mut Vec<Error>) {
    validate_volume_name(&device.name, volumes, &path.child("name"), errors);
    if volumes.get(&device.name).is_some_and(|kind| *kind != VolumeKind::Claim) {
        let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
        errors.push(Error::invalid(&path.child("name"), device.name.as_str(), detail));
    }
    let at = path.child("devicePath");
    require(Some(&device.device_path), &at, errors);
    validate_no_backsteps(&device.device_path, &at, errors);
}

/// A path without `..`.
pub(in super::super) fn validate_no_backsteps(text: &str, path: &Path, errors: &mut Vec<Error>) {
    if text.split('/').any(|part| part == "..") {
        errors.push(Error::invalid(path, text, "must not contain '..'"));
    }
}

/// A path below the one that it is relative to.
pub(super) fn validate_local_path(text: &str, path: &Path, errors: &mut Vec<Error>) {
    if text.starts_with('/') {
        errors.push(Error::invalid(path, text, "must be a relative path"));
    }
    validate_no_backsteps(text, path, errors);
}

/// The path of a file that the kubelet writes: names that start with `..` are its own.
pub(in super::super) fn validate_projected_path(text: &str, path: &Path, errors: &mut Vec<Error>) {
    validate_local_path(text, path, errors);
    if text.starts_with("..") && text != ".." && !text.starts_with("../") {
        errors.push(Error::invalid(path, text, "must not start with '..'"));
    }
}
