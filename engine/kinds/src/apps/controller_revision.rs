//! ControllerRevisions: data that may not change.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::non_negative;
use pillion_rules::metadata::{self, subdomain_name, validate_immutable};
use pillion_rules::value::int;
use serde_json::Value;

use crate::rules::{Rules, STORED};

pub(crate) const RULES: Rules = Rules { validate, validate_update, ..STORED };

fn validate_both(revision: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&revision["metadata"], &Path::new("metadata"), true, subdomain_name);
    non_negative(int(revision, "revision"), &Path::new("revision"), &mut errors);
    errors
}

fn validate(revision: &Value) -> Vec<Error> {
    let mut errors = validate_both(revision);
    match &revision["data"] {
        Value::Object(_) => {}
        Value::Null => errors.push(Error::required(&Path::new("data"), "data is mandatory")),
        _ => errors.push(Error::required(&Path::new("data"), "data must be a valid JSON object")),
    }
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    errors.extend(validate_both(new));
    validate_immutable(&new["data"], &old["data"], &Path::new("data"), &mut errors);
    errors
}
