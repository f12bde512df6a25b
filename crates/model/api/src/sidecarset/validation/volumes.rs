//! The volumes of a set: each with a name and one source.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, ProjectedVolumeSource, Volume, VolumeProjection};
use pillion_patch::name::{dns_label, dns_subdomain};
use pillion_quantity::Quantity;
use serde_json::{Map, Value};

use super::check;
use super::core::{
    one_of, read, require, validate_field_ref, validate_no_backsteps, validate_projected_path,
    validate_resource_field_ref,
};
use crate::field::{Error, Path};

/// What a mount must know of a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum VolumeKind {
    /// A `PersistentVolumeClaim`, or one that is made for the pod: what can be a block device.
    Claim,
    /// An image, which has no sub-paths.
    Image,
    /// All others.
    Other,
}

/// The set's volumes by name.
pub(super) type Volumes = BTreeMap<String, VolumeKind>;

/// The fields of a pod that a file can have.
const FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

pub(super) fn validate(volumes: &[Map<String, Value>], path: &Path, errors: &mut Vec<Error>) -> Volumes {
    let mut names = Volumes::new();
    for (i, json) in volumes.iter().enumerate() {
        let path = path.index(i);
        let Some(volume) = read::<Volume>(json, &path, errors) else { continue };
        validate_one_source(json, &path, errors);
        validate_source(&volume, &path, errors);
        let at = path.child("name");
        if volume.name.is_empty() {
            errors.push(Error::required(&at, ""));
            continue;
        }
        check(dns_label(&volume.name), &volume.name, &at, errors);
        if names.insert(volume.name.clone(), kind(&volume)).is_some() {
            errors.push(Error::duplicate(&at, volume.name));
        }
    }
    names
}

fn kind(volume: &Volume) -> VolumeKind {
    if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() {
        VolumeKind::Claim
    } else if volume.image.is_some() {
        VolumeKind::Image
    } else {
        VolumeKind::Other
    }
}

/// Counted in the JSON, so that a source of a newer Kubernetes is one.
fn validate_one_source(volume: &Map<String, Value>, path: &Path, errors: &mut Vec<Error>) {
    let mut sources = volume.iter().filter(|(key, value)| *key != "name" && !value.is_null());
    if sources.next().is_none() {
        errors.push(Error::required(path, "must specify a volume type"));
    }
    for (source, _) in sources {
        errors.push(Error::forbidden(&path.child(source), "may not specify more than 1 volume type"));
    }
}

/// The sources that sidecars use. What is wrong with the others, the API server says when the pod is created.
fn validate_source(volume: &Volume, path: &Path, errors: &mut Vec<Error>) {
    if let Some(limit) = volume.empty_dir.as_ref().and_then(|source| source.size_limit.as_ref()) {
        let good = limit.0.trim().parse::<Quantity>().is_ok_and(|limit| !limit.is_negative());
        if !good {
            let path = path.child("emptyDir").child("sizeLimit");
            errors.push(Error::invalid(&path, limit.0.as_str(), "SizeLimit field must be a valid resource quantity"));
        }
    }
    if let Some(source) = &volume.host_path {
        let path = path.child("hostPath");
        require(Some(&source.path), &path.child("path"), errors);
        validate_no_backsteps(&source.path, &path.child("path"), errors);
        one_of(source.type_.as_deref(), &HOST_PATH_TYPES, &path.child("type"), errors);
    }
    if let Some(source) = &volume.secret {
        let path = path.child("secret");
        require(source.secret_name.as_deref(), &path.child("secretName"), errors);
        validate_mode(source.default_mode, &path.child("defaultMode"), errors);
        validate_items(source.items.as_deref(), &path.child("items"), errors);
    }
    if let Some(source) = &volume.config_map {
        let path = path.child("configMap");
        require(Some(&source.name), &path.child("name"), errors);
        validate_mode(source.default_mode, &path.child("defaultMode"), errors);
        validate_items(source.items.as_deref(), &path.child("items"), errors);
    }
    if let Some(source) = &volume.downward_api {
        let path = path.child("downwardAPI");
        validate_mode(source.default_mode, &path.child("defaultMode"), errors);
        validate_files(source.items.as_deref(), &path.child("items"), errors);
    }
    if let Some(source) = &volume.projected {
        validate_projected(source, &path.child("projected"), errors);
    }
    if let Some(source) = &volume.persistent_volume_claim {
        require(Some(&source.claim_name), &path.child("persistentVolumeClaim").child("claimName"), errors);
    }
    if volume.ephemeral.as_ref().is_some_and(|source| source.volume_claim_template.is_none()) {
        errors.push(Error::required(&path.child("ephemeral").child("volumeClaimTemplate"), ""));
    }
    if let Some(source) = &volume.csi {
        let path = path.child("csi").child("driver");
        require(Some(&source.driver), &path, errors);
        check(dns_subdomain(&source.driver.to_lowercase()), &source.driver, &path, errors);
    }
    if let Some(source) = &volume.image {
        let path = path.child("image").child("pullPolicy");
        one_of(source.pull_policy.as_deref(), &["Always", "IfNotPresent", "Never"], &path, errors);
    }
    if let Some(source) = &volume.nfs {
        let path = path.child("nfs");
        require(Some(&source.server), &path.child("server"), errors);
        require(Some(&source.path), &path.child("path"), errors);
        if !source.path.is_empty() && !source.path.starts_with('/') {
            errors.push(Error::invalid(&path.child("path"), source.path.as_str(), "must be an absolute path"));
        }
    }
}

fn validate_projected(projected: &ProjectedVolumeSource, path: &Path, errors: &mut Vec<Error>) {
    validate_mode(projected.default_mode, &path.child("defaultMode"), errors);
    let mut files = BTreeSet::new();
    for (i, source) in projected.sources.iter().flatten().enumerate() {
        let path = path.child("sources").index(i);
        validate_projection(source, &path, errors);
        for file in projected_files(source).filter(|file| !file.is_empty()) {
            if !files.insert(file) {
                errors.push(Error::invalid(&path, file, "conflicting duplicate paths"));
            }
        }
    }
}

fn projected_files(source: &VolumeProjection) -> impl Iterator<Item = &str> {
    let secret = source.secret.iter().flat_map(|secret| secret.items.iter().flatten());
    let config_map = source.config_map.iter().flat_map(|config_map| config_map.items.iter().flatten());
    let downward = source.downward_api.iter().flat_map(|downward| downward.items.iter().flatten());
    let bundle = source.cluster_trust_bundle.iter().map(|bundle| bundle.path.as_str());
    secret.chain(config_map).map(|item| item.path.as_str()).chain(downward.map(|file| file.path.as_str())).chain(bundle)
}

fn validate_projection(source: &VolumeProjection, path: &Path, errors: &mut Vec<Error>) {
    let given = [
        source.secret.is_some(),
        source.config_map.is_some(),
        source.downward_api.is_some(),
        source.service_account_token.is_some(),
        source.cluster_trust_bundle.is_some(),
        source.pod_certificate.is_some(),
    ];
    if given.iter().filter(|given| **given).count() > 1 {
        errors.push(Error::forbidden(path, "may not specify more than 1 volume type per source"));
    }
    let secret = source.secret.as_ref().map(|secret| ("secret", &secret.name, &secret.items));
    let config_map = source.config_map.as_ref().map(|config_map| ("configMap", &config_map.name, &config_map.items));
    for (field, name, items) in secret.into_iter().chain(config_map) {
        let path = path.child(field);
        require(Some(name), &path.child("name"), errors);
        validate_items(items.as_deref(), &path.child("items"), errors);
    }
    if let Some(downward) = &source.downward_api {
        validate_files(downward.items.as_deref(), &path.child("downwardAPI").child("items"), errors);
    }
    if let Some(token) = &source.service_account_token {
        let path = path.child("serviceAccountToken");
        require(Some(&token.path), &path.child("path"), errors);
        validate_projected_path(&token.path, &path.child("path"), errors);
        let at = path.child("expirationSeconds");
        match token.expiration_seconds {
            Some(seconds) if seconds < 600 => {
                errors.push(Error::invalid(&at, seconds, "may not specify a duration less than 10 minutes"));
            }
            Some(seconds) if seconds > 1 << 32 => {
                errors.push(Error::invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds"));
            }
            _ => {}
        }
    }
}

fn validate_items(items: Option<&[KeyToPath]>, path: &Path, errors: &mut Vec<Error>) {
    for (i, item) in items.unwrap_or_default().iter().enumerate() {
        let path = path.index(i);
        require(Some(&item.key), &path.child("key"), errors);
        require(Some(&item.path), &path.child("path"), errors);
        validate_projected_path(&item.path, &path.child("path"), errors);
        validate_mode(item.mode, &path.child("mode"), errors);
    }
}

fn validate_files(files: Option<&[DownwardAPIVolumeFile]>, path: &Path, errors: &mut Vec<Error>) {
    for (i, file) in files.unwrap_or_default().iter().enumerate() {
        let path = path.index(i);
        require(Some(&file.path), &path.child("path"), errors);
        validate_projected_path(&file.path, &path.child("path"), errors);
        validate_mode(file.mode, &path.child("mode"), errors);
        match (&file.field_ref, &file.resource_field_ref) {
            (None, None) => errors.push(Error::required(&path, "one of fieldRef and resourceFieldRef is required")),
            (Some(_), Some(_)) => errors.push(Error::forbidden(
                &path.child("resourceFieldRef"),
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            )),
            (Some(field), None) => validate_field_ref(field, &FIELDS, &path.child("fieldRef"), errors),
            (None, Some(resource)) => {
                let path = path.child("resourceFieldRef");
                require(resource.container_name.as_deref(), &path.child("containerName"), errors);
                validate_resource_field_ref(resource, &path, errors);
            }
        }
    }
}

fn validate_mode(mode: Option<i32>, path: &Path, errors: &mut Vec<Error>) {
    if let Some(mode) = mode.filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(Error::invalid(path, mode, detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{container, errors};

    fn volume_errors(volumes: &Value) -> String {
        errors(json!({"volumes": volumes}))
    }

    #[test]
    fn a_volume_has_a_name_of_its_own_and_one_source() {
        insta::assert_snapshot!(
            volume_errors(&json!([
                {"name": "a", "emptyDir": {}, "hostPath": {"path": "/a"}},
                {"name": "a"},
                {"emptyDir": {}},
                {"name": "A", "emptyDir": {}},
            ])),
            @r#"
        spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type
        spec.volumes[1].name: Duplicate value: "a"
        spec.volumes[2].name: Required value
        spec.volumes[3].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character
        "#
        );
    }

    #[test]
    fn a_source_of_a_newer_kubernetes_is_one() {
        let mounts = json!({"volumeMounts": [{"name": "a", "mountPath": "/a"}]});
        assert_eq!(errors(json!({"volumes": [{"name": "a", "cloud": {}}], "containers": [container(mounts)]})), "");
    }

    #[test]
    fn sources_are_whole() {
        insta::assert_snapshot!(
            volume_errors(&json!([
                {"name": "a", "emptyDir": {"sizeLimit": "-1"}},
                {"name": "b", "hostPath": {"type": "Dir"}},
                {"name": "c", "hostPath": {"path": "/a/../b"}},
                {"name": "d", "secret": {"defaultMode": 512, "items": [{"key": "", "path": "/a"}]}},
                {"name": "e", "configMap": {"defaultMode": -1, "items": [{"key": "a", "path": "..a", "mode": 512}]}},
                {"name": "f", "persistentVolumeClaim": {}},
                {"name": "g", "ephemeral": {}},
                {"name": "h", "csi": {"driver": "A_B"}},
                {"name": "i", "image": {"reference": "a", "pullPolicy": "Some"}},
                {"name": "j", "nfs": {"path": "a"}},
            ])),
            @r#"
        spec.volumes[0].emptyDir.sizeLimit: Invalid value: "-1": SizeLimit field must be a valid resource quantity
        spec.volumes[1].hostPath.path: Required value
        spec.volumes[1].hostPath.type: Unsupported value: "Dir": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"
        spec.volumes[2].hostPath.path: Invalid value: "/a/../b": must not contain '..'
        spec.volumes[3].secret.secretName: Required value
        spec.volumes[3].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive
        spec.volumes[3].secret.items[0].key: Required value
        spec.volumes[3].secret.items[0].path: Invalid value: "/a": must be a relative path
        spec.volumes[4].configMap.name: Required value
        spec.volumes[4].configMap.defaultMode: Invalid value: -1: must be a number between 0 and 0777 (octal), both inclusive
        spec.volumes[4].configMap.items[0].path: Invalid value: "..a": must not start with '..'
        spec.volumes[4].configMap.items[0].mode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive
        spec.volumes[5].persistentVolumeClaim.claimName: Required value
        spec.volumes[6].ephemeral.volumeClaimTemplate: Required value
        spec.volumes[7].csi.driver: Invalid value: "A_B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character
        spec.volumes[8].image.pullPolicy: Unsupported value: "Some": supported values: "Always", "IfNotPresent", "Never"
        spec.volumes[9].nfs.server: Required value
        spec.volumes[9].nfs.path: Invalid value: "a": must be an absolute path
        "#
        );
    }

    #[test]
    fn files_of_a_pod_s_fields_are_whole() {
        let file = |extra: Value| {
            let mut file = json!({"path": "a"});
            file.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            file
        };
        insta::assert_snapshot!(
            volume_errors(&json!([{"name": "a", "downwardAPI": {"defaultMode": 512, "items": [
                file(json!({"fieldRef": {"fieldPath": "metadata.labels"}})),
                file(json!({})),
                file(json!({"fieldRef": {"fieldPath": "spec.nodeName"}})),
                file(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3"}})),
                file(json!({"fieldRef": {"fieldPath": "metadata.uid"}, "resourceFieldRef": {"resource": "limits.cpu"}})),
            ]}}])),
            @r#"
        spec.volumes[0].downwardAPI.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive
        spec.volumes[0].downwardAPI.items[1]: Required value: one of fieldRef and resourceFieldRef is required
        spec.volumes[0].downwardAPI.items[2].fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"
        spec.volumes[0].downwardAPI.items[3].resourceFieldRef.containerName: Required value
        spec.volumes[0].downwardAPI.items[3].resourceFieldRef.divisor: Invalid value: "3": only divisor's values 1m, 1 are supported with cpu resources
        spec.volumes[0].downwardAPI.items[4].resourceFieldRef: Forbidden: fieldRef and resourceFieldRef can not be specified simultaneously
        "#
        );
    }

    #[test]
    fn projections_have_one_source_each_and_no_path_twice() {
        let item = json!({"key": "a", "path": "same"});
        insta::assert_snapshot!(
            volume_errors(&json!([{"name": "a", "projected": {"sources": [
                {"secret": {"name": "a", "items": [item]}},
                {"configMap": {"items": [item]}},
                {"secret": {"name": "a"}, "configMap": {"name": "a"}},
                {"serviceAccountToken": {"path": "", "expirationSeconds": 599}},
                {"serviceAccountToken": {"path": "/a", "expirationSeconds": 4_294_967_297_i64}},
                {"downwardAPI": {"items": [{"path": "b", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ]}}])),
            @r#"
        spec.volumes[0].projected.sources[1].configMap.name: Required value
        spec.volumes[0].projected.sources[1]: Invalid value: "same": conflicting duplicate paths
        spec.volumes[0].projected.sources[2]: Forbidden: may not specify more than 1 volume type per source
        spec.volumes[0].projected.sources[3].serviceAccountToken.path: Required value
        spec.volumes[0].projected.sources[3].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes
        spec.volumes[0].projected.sources[4].serviceAccountToken.path: Invalid value: "/a": must be a relative path
        spec.volumes[0].projected.sources[4].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds
        "#
        );
    }
}
