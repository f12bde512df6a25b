//! `PersistentVolumeClaims`.

use pillion_quantity::Quantity;
use serde_json::{Value, json};

use crate::field::{Error, Path};
use crate::metadata::{self, subdomain_name, validate_immutable};
use crate::quantities::quantity;
use crate::rules::{Rules, WITH_STATUS};
use crate::value::{copy_fields, entries, fill, fill_text, has, object_mut, remove, same, set, text};
use crate::volume_claim::validate_spec;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create,
    validate,
    prepare_update: |new, old| {
        copy_fields(new, old, &["status"]);
        normalize_sources(object_mut(new, "spec"), !has(&old["spec"], "dataSource"));
    },
    validate_update,
    validate_status,
    warnings,
    selectable,
    ..WITH_STATUS
};

pub(crate) fn default(claim: &mut Value) {
    fill(object_mut(claim, "spec"), "volumeMode", "Filesystem");
    fill_text(object_mut(claim, "status"), "phase", "Pending");
}

fn prepare_create(claim: &mut Value) {
    set(claim, "status", json!({"phase": "Pending"}));
    normalize_sources(object_mut(claim, "spec"), true);
}

/// `dataSource` and `dataSourceRef` say the same, whichever was given. A new `dataSource` that old servers did not know is ignored, as by them.
fn normalize_sources(spec: &mut Value, is_new: bool) {
    let known = match text(&spec["dataSource"], "apiGroup") {
        "" => text(&spec["dataSource"], "kind") == "PersistentVolumeClaim",
        group => group == "snapshot.storage.k8s.io" && text(&spec["dataSource"], "kind") == "VolumeSnapshot",
    };
    if is_new && !known && !has(spec, "dataSourceRef") {
        remove(spec, "dataSource");
    }
    let (source, reference) = (spec["dataSource"].clone(), spec["dataSourceRef"].clone());
    let foreign = !text(&reference, "namespace").is_empty();
    if source.is_object() && reference.is_null() {
        set(spec, "dataSourceRef", source);
    } else if source.is_null() && reference.is_object() && !foreign {
        set(spec, "dataSource", reference);
    }
}

fn validate(claim: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&claim["metadata"], &Path::new("metadata"), true, subdomain_name);
    validate_spec(&claim["spec"], &Path::new("spec"), &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    errors.extend(validate(new));
    let (spec, old_spec, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    let mut expected = old_spec.clone();
    if text(old_spec, "volumeName").is_empty() {
        copy_fields(&mut expected, spec, &["volumeName"]);
    }
    if !has(old_spec, "storageClassName") {
        copy_fields(&mut expected, spec, &["storageClassName"]);
    }
    if text(&new["status"], "phase") == "Bound" {
        copy_fields(&mut expected, spec, &["volumeAttributesClassName"]);
        let storage = spec["resources"]["requests"]["storage"].clone();
        set(object_mut(object_mut(&mut expected, "resources"), "requests"), "storage", storage);
    }
    if !same(spec, &expected) {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        let difference = crate::pod::internal::difference("PersistentVolumeClaimSpec", &expected, spec);
        errors.push(Error::forbidden(&path, format!("{detail}\n{difference}")));
    }
    let size = |object: &Value| quantity(&object["storage"]).unwrap_or(Quantity::ZERO);
    let (wanted, was) = (size(&spec["resources"]["requests"]), size(&old_spec["resources"]["requests"]));
    if wanted < was && wanted <= size(&old["status"]["capacity"]) {
        let path = path.child("resources").child("requests").child("storage");
        errors.push(Error::forbidden(&path, "field can not be less than status.capacity"));
    }
    // The path is as the API server writes it.
    validate_immutable(&spec["volumeMode"], &old_spec["volumeMode"], &Path::new("volumeMode"), &mut errors);
    errors
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    for (name, value) in entries(&new["status"], "capacity") {
        if let Some(negative) = quantity(value).filter(|quantity| quantity.is_negative()) {
            let path = Path::new("status").child("capacity").key(name);
            errors.push(Error::invalid(&path, negative.to_string(), "must be a valid resource quantity"));
        }
    }
    errors
}

/// Warns of a size that is no whole number of bytes.
pub(crate) fn spec_warnings(spec: &Value, path: &Path) -> Vec<String> {
    let fractional = |field: &'static str| {
        let value = quantity(&spec["resources"][field]["storage"])?;
        (value.milli_value() % 1000 != 0).then(|| {
            let path = path.child("resources").child(field).key("storage");
            format!("{path}: fractional byte value \"{value}\" is invalid, must be an integer")
        })
    };
    ["requests", "limits"].into_iter().filter_map(fractional).collect()
}

fn warnings(claim: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if has(&claim["metadata"]["annotations"], CLASS_ANNOTATION) {
        let path = Path::new("metadata").child("annotations").key(CLASS_ANNOTATION);
        warnings.push(format!("{path}: deprecated since v1.8; use \"storageClassName\" attribute instead"));
    }
    warnings.extend(spec_warnings(&claim["spec"], &Path::new("spec")));
    warnings
}

fn selectable(claim: &Value, field: &str) -> Option<String> {
    (field == "name").then(|| text(&claim["metadata"], "name").to_owned())
}
