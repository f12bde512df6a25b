//! Defaults of volumes.

use serde_json::json;

use super::{Object, canonical, default_pointer, default_text, for_each, image, part, round_requirements};

/// Mode of the files that Kubernetes writes: `rw-r--r--`.
const FILE_MODE: i64 = 0o644;

/// Completes one volume.
pub(super) fn apply(volume: &mut Object) {
    apply_basic_volume_defaults(volume);
    if let Some(source) = part(volume, "image") {
        let policy = image::pull_policy(source.get("reference").and_then(|r| r.as_str()).unwrap_or_default());
        default_text(source, "pullPolicy", policy);
    }
    if let Some(size) = part(volume, "emptyDir").and_then(|source| source.get_mut("sizeLimit")) {
        canonical(size);
    }
    for_each_file(volume, |file| {
        if let Some(reference) = part(file, "resourceFieldRef") {
            canonical(reference.entry("divisor").or_insert(json!(null)));
        }
    });
    if let Some(claim) = part(volume, "ephemeral").and_then(|source| part(source, "volumeClaimTemplate")) {
        apply_to_claim(claim);
    }
    apply_to_network_volume(volume);
}

/// Fills in the defaults of a volume that OpenKruise sets in a SidecarSet: a volume that has nothing but its name is an empty directory;
/// modes, references to fields, the lifetime of tokens.
///
/// The volume need not have been decoded: a value of a wrong type stays as it is.
pub fn apply_basic_volume_defaults(volume: &mut Object) {
    if volume.iter().all(|(field, value)| field == "name" || value.is_null()) {
        volume.insert("emptyDir".into(), json!({}));
    }
    if let Some(source) = part(volume, "hostPath") {
        default_pointer(source, "type", json!(""));
    }
    for kind in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = part(volume, kind) {
            default_pointer(source, "defaultMode", json!(FILE_MODE));
        }
    }
    for_each_file(volume, |file| {
        if let Some(reference) = part(file, "fieldRef") {
            default_text(reference, "apiVersion", "v1");
        }
    });
    if let Some(source) = part(volume, "projected") {
        for_each(source, "sources", |projection| {
            if let Some(token) = part(projection, "serviceAccountToken") {
                default_pointer(token, "expirationSeconds", json!(3600));
            }
        });
    }
}

/// Every file that shows a field of the pod.
fn for_each_file(volume: &mut Object, change: impl Fn(&mut Object) + Copy) {
    if let Some(source) = part(volume, "downwardAPI") {
        for_each(source, "items", change);
    }
    if let Some(source) = part(volume, "projected") {
        for_each(source, "sources", |projection| {
            if let Some(files) = part(projection, "downwardAPI") {
                for_each(files, "items", change);
            }
        });
    }
}

fn apply_to_claim(claim: &mut Object) {
    if let Some(spec) = part(claim, "spec") {
        default_pointer(spec, "volumeMode", json!("Filesystem"));
        if let Some(resources) = spec.get_mut("resources") {
            round_requirements(resources);
        }
    }
}

fn apply_to_network_volume(volume: &mut Object) {
    if let Some(source) = part(volume, "iscsi") {
        default_text(source, "iscsiInterface", "default");
    }
    if let Some(source) = part(volume, "rbd") {
        default_text(source, "pool", "rbd");
        default_text(source, "user", "admin");
        default_text(source, "keyring", "/etc/ceph/keyring");
    }
    if let Some(source) = part(volume, "azureDisk") {
        default_pointer(source, "cachingMode", json!("ReadWrite"));
        default_pointer(source, "fsType", json!("ext4"));
        default_pointer(source, "readOnly", json!(false));
        default_pointer(source, "kind", json!("Shared"));
    }
    if let Some(source) = part(volume, "scaleIO") {
        default_text(source, "storageMode", "ThinProvisioned");
        default_text(source, "fsType", "xfs");
    }
}
