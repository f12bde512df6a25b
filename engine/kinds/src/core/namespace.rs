//! Namespaces. They are gone when the last of `spec.finalizers` is, which `/finalize` takes away.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, qualified_name};
use pillion_rules::metadata::{self, label_name};
use pillion_rules::value::{copy_fields, fill_text, list, object_mut, set, text};
use serde_json::{Value, json};

use crate::rules::{Rules, WITH_STATUS};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";
const FINALIZER: &str = "kubernetes";

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create,
    validate,
    prepare_update,
    validate_update,
    validate_status,
    selectable,
    ..WITH_STATUS
};

fn default(namespace: &mut Value) {
    let meta = object_mut(namespace, "metadata");
    let name = text(meta, "name").to_owned();
    if !name.is_empty() {
        set(object_mut(meta, "labels"), NAME_LABEL, name);
    }
    fill_text(object_mut(namespace, "status"), "phase", "Active");
}

fn prepare_create(namespace: &mut Value) {
    set(namespace, "status", json!({"phase": "Active"}));
    let spec = object_mut(namespace, "spec");
    let mut finalizers = list(spec, "finalizers").to_vec();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
        set(spec, "finalizers", finalizers);
    }
    // A generated name is known by now.
    default(namespace);
}

fn prepare_update(new: &mut Value, old: &Value) {
    copy_fields(object_mut(new, "spec"), &old["spec"], &["finalizers"]);
    copy_fields(new, old, &["status"]);
}

fn validate(namespace: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&namespace["metadata"], &Path::new("metadata"), false, label_name);
    let path = Path::new("spec").child("finalizers");
    for finalizer in list(&namespace["spec"], "finalizers").iter().filter_map(Value::as_str) {
        validate_finalizer(finalizer, &path, &mut errors);
    }
    errors
}

fn validate_finalizer(finalizer: &str, path: &Path, errors: &mut Vec<Error>) {
    check(qualified_name(finalizer), finalizer, path, errors);
    metadata::validate_known_finalizer(finalizer, path, errors);
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = validate(new);
    errors.extend(metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata")));
    errors
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let phase = text(&new["status"], "phase");
    let (expected, deleted) =
        if new["metadata"]["deletionTimestamp"].is_null() { ("Active", "empty") } else { ("Terminating", "not empty") };
    if phase != expected {
        let detail = format!("may only be '{expected}' if `deletionTimestamp` is {deleted}");
        errors.push(Error::invalid(&Path::new("status").child("Phase"), phase, detail));
    }
    errors
}

/// Takes from the old namespace what an update of `/finalize` may not change: the status.
pub fn prepare_finalize(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["status"]);
}

/// Checks an update of `/finalize`.
pub fn validate_finalize(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let path = Path::new("spec").child("finalizers");
    for (i, finalizer) in list(&new["spec"], "finalizers").iter().filter_map(Value::as_str).enumerate() {
        validate_finalizer(finalizer, &path.index(i), &mut errors);
    }
    errors
}

fn selectable(namespace: &Value, field: &str) -> Option<String> {
    match field {
        "status.phase" => Some(text(&namespace["status"], "phase").to_owned()),
        "name" => Some(text(&namespace["metadata"], "name").to_owned()),
        _ => None,
    }
}
