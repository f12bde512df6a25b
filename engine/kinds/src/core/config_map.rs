//! ConfigMaps.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, config_key};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::value::{entries, has, same};
use serde_json::Value;

use crate::rules::{Rules, STORED};

/// All values together, of a ConfigMap and of a Secret.
pub(super) const SIZE_LIMIT: usize = 1024 * 1024;

pub(crate) const RULES: Rules = Rules { validate, validate_update, ..STORED };

/// Length of what base64 text stands for.
pub(super) fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    text.len().saturating_mul(3) / 4
}

fn validate(config_map: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&config_map["metadata"], &Path::new("metadata"), true, subdomain_name);
    let mut size = 0_usize;
    for (key, value) in entries(config_map, "data") {
        let path = Path::new("data").key(key);
        check(config_key(key), key, &path, &mut errors);
        if has(&config_map["binaryData"], key) {
            errors.push(Error::invalid(&path, key.as_str(), "duplicate of key present in binaryData"));
        }
        size = size.saturating_add(value.as_str().unwrap_or_default().len());
    }
    for (key, value) in entries(config_map, "binaryData") {
        check(config_key(key), key, &Path::new("binaryData").key(key), &mut errors);
        size = size.saturating_add(decoded_length(value));
    }
    if size > SIZE_LIMIT {
        errors.push(Error::too_long(&Path::root().key(""), SIZE_LIMIT));
    }
    errors
}

/// Refuses changes of an object that says that it will not change.
pub(super) fn validate_frozen(new: &Value, old: &Value, fields: &[&str], errors: &mut Vec<Error>) {
    if old["immutable"] != true {
        return;
    }
    let detail = "field is immutable when `immutable` is set";
    if new["immutable"] != true {
        errors.push(Error::forbidden(&Path::new("immutable"), detail));
    }
    for field in fields {
        if !same(&new[*field], &old[*field]) {
            errors.push(Error::forbidden(&Path::new(*field), detail));
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    validate_frozen(new, old, &["data", "binaryData"], &mut errors);
    errors.extend(validate(new));
    errors
}
