//! Volumes of a pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::paths::{validate_descending, validate_no_backsteps};
use super::report::{Errors, Report};
use super::volume_file::{validate_downward_file, validate_key_to_path, validate_mode};
use super::{claim, format, image, projected};
use crate::field::{Error, Path};
use crate::pod::read::{list, part, pointer_text, text};
use crate::pod::resources::quantity;

/// The good volumes of a pod by name: those that mounts can name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Kinds of volume in the order in which they are looked for, each with the name that a second one is refused by.
const KINDS: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    // The slip is the API server's.
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

/// Fields that volumes of storage systems cannot do without. What else is in them is for the storage system to judge.
const REQUIRED: [(&str, &[&str]); 17] = [
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &["registry", "volume"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &["volumeName"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
];

/// Checks the volumes of a pod, whose name is empty in a template, and returns the good ones.
pub(super) fn validate<'a>(
    errors: &mut Errors,
    spec: &'a Value,
    pod_name: &str,
    is_pod: bool,
    path: &Path,
) -> Volumes<'a> {
    let volumes = list(spec, "volumes");
    let claims: BTreeSet<String> = volumes
        .iter()
        .filter(|volume| !pod_name.is_empty() && part(volume, "ephemeral").is_some())
        .map(|volume| format!("{pod_name}-{}", text(volume, "name")))
        .collect();
    let mut good = Volumes::new();
    for (i, volume) in volumes.iter().enumerate() {
        let path = path.index(i);
        let name = text(volume, "name");
        let before = errors.len();
        validate_source(errors, volume, pod_name, is_pod, &path);
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            errors.each(&path.child("name"), name, format::dns_label(name));
        }
        if good.contains_key(name) {
            errors.duplicate(&path.child("name"), name);
        }
        if errors.len() == before {
            good.insert(name, volume);
        }
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        if claims.contains(claim) {
            let path = path.child("persistentVolumeClaim").child("claimName");
            errors.invalid(&path, claim, "must not reference a PVC that gets created for an ephemeral volume");
        }
    }
    good
}

fn validate_source(errors: &mut Errors, volume: &Value, pod_name: &str, is_pod: bool, path: &Path) {
    let name = text(volume, "name");
    let mut found = false;
    for (kind, shown) in KINDS {
        let Some(source) = part(volume, kind) else { continue };
        if found {
            errors.forbidden(&path.child(shown), "may not specify more than 1 volume type");
        } else {
            found = true;
            // The API server shows this one by another name.
            let field = if kind == "gcePersistentDisk" { "persistentDisk" } else { kind };
            validate_kind(errors, kind, source, is_pod, &path.child(field));
            if kind == "ephemeral" && !pod_name.is_empty() && !name.is_empty() {
                let claim = format!("{pod_name}-{name}");
                for objection in format::dns_subdomain(&claim) {
                    errors.invalid(&path.child("name"), name, format!("PVC name {claim:?}: {objection}"));
                }
            }
        }
    }
    // Decoding drops what is unknown. A field that is still there is a source of a newer Kubernetes, in a SidecarSet.
    let is_unknown = |(field, source): (&String, &Value)| field != "name" && !source.is_null();
    if !found && !volume.as_object().is_some_and(|fields| fields.iter().any(is_unknown)) {
        errors.required(path, "must specify a volume type");
    }
}

fn validate_kind(errors: &mut Errors, kind: &str, source: &Value, is_pod: bool, path: &Path) {
    match kind {
        "emptyDir" => {
            if quantity(&source["sizeLimit"]).is_negative() {
                errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => validate_host_path(errors, source, path),
        "gitRepo" => {
            errors.non_empty(&path.child("repository"), text(source, "repository"));
            validate_descending(errors, text(source, "directory"), &path.child("directory"));
        }
        "secret" => validate_items(errors, source, "secretName", path),
        "configMap" => validate_items(errors, source, "name", path),
        "persistentVolumeClaim" => errors.non_empty(&path.child("claimName"), text(source, "claimName")),
        "downwardAPI" => {
            validate_mode(errors, source, "defaultMode", path);
            for file in list(source, "items") {
                validate_downward_file(errors, file, path);
            }
        }
        "projected" => {
            validate_mode(errors, source, "defaultMode", path);
            projected::validate(errors, source, path);
        }
        "csi" => validate_csi(errors, source, path),
        "ephemeral" => match part(source, "volumeClaimTemplate") {
            None => errors.required(&path.child("volumeClaimTemplate"), ""),
            Some(template) => claim::validate_template(errors, template, &path.child("volumeClaimTemplate")),
        },
        "image" => {
            if is_pod {
                errors.non_empty(&path.child("reference"), text(source, "reference"));
            }
            image::validate_pull_policy(errors, text(source, "pullPolicy"), &path.child("pullPolicy"));
        }
        _ => {
            let required = REQUIRED.iter().filter(|(other, _)| *other == kind).flat_map(|(_, fields)| *fields);
            for field in required.filter(|field| text(source, field).is_empty() && list(source, field).is_empty()) {
                errors.required(&path.child(*field), "");
            }
        }
    }
}

fn validate_host_path(errors: &mut Errors, source: &Value, path: &Path) {
    let target = text(source, "path");
    if target.is_empty() {
        return errors.required(&path.child("path"), "");
    }
    validate_no_backsteps(errors, target, &path.child("path"));
    if let Some(kind) = pointer_text(source, "type") {
        errors.one_of(
            &path.child("type"),
            kind,
            &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"],
        );
    }
}

fn validate_items(errors: &mut Errors, source: &Value, name: &str, path: &Path) {
    errors.non_empty(&path.child(name), text(source, name));
    validate_mode(errors, source, "defaultMode", path);
    for (i, item) in list(source, "items").iter().enumerate() {
        validate_key_to_path(errors, item, &path.child("items").index(i));
    }
}

fn validate_csi(errors: &mut Errors, source: &Value, path: &Path) {
    let driver = text(source, "driver");
    if driver.is_empty() {
        errors.required(&path.child("driver"), "");
    } else {
        if driver.len() > 63 {
            errors.push(Error::too_long(&path.child("driver"), 63));
        }
        errors.each(&path.child("driver"), driver, format::dns_subdomain(&driver.to_lowercase()));
    }
    if let Some(secret) = part(source, "nodePublishSecretRef") {
        match text(secret, "name") {
            "" => errors.required(&path.child("nodePublishSecretRef").child("name"), ""),
            name => errors.each(&path.child("name"), name, format::dns_subdomain(name)),
        }
    }
}
