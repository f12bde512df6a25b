//! Files in a volume: their modes, and what they show.

use serde_json::Value;

use super::env;
use super::paths::validate_unreserved;
use super::report::{Errors, Report};
use crate::field::Path;
use crate::pod::read::{part, pointer_number, text};

const FILE_MODE_RULE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Checks the mode of files.
pub(super) fn validate_mode(errors: &mut Errors, object: &Value, field: &str, path: &Path) {
    if let Some(mode) = pointer_number(object, field).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(&path.child(field), mode, FILE_MODE_RULE);
    }
}

/// Checks which key becomes which file.
pub(super) fn validate_key_to_path(errors: &mut Errors, item: &Value, path: &Path) {
    errors.non_empty(&path.child("key"), text(item, "key"));
    errors.non_empty(&path.child("path"), text(item, "path"));
    validate_unreserved(errors, text(item, "path"), &path.child("path"));
    validate_mode(errors, item, "mode", path);
}

/// Checks a file that shows a field of the pod.
pub(super) fn validate_downward_file(errors: &mut Errors, file: &Value, path: &Path) {
    errors.non_empty(&path.child("path"), text(file, "path"));
    validate_unreserved(errors, text(file, "path"), &path.child("path"));
    match (part(file, "fieldRef"), part(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            env::validate_field(errors, field, &env::FILE_FIELDS, &path.child("fieldRef"));
            if resource.is_some() {
                let rule = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", rule);
            }
        }
        (None, Some(resource)) => env::validate_resource(errors, resource, &path.child("resourceFieldRef"), true),
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    validate_mode(errors, file, "mode", path);
}
