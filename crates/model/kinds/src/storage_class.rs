//! `StorageClasses`.

use serde_json::Value;

use crate::field::{Error, Path};
use crate::format::{check, qualified_name};
use crate::metadata::{self, subdomain_name, validate_immutable};
use crate::rules::{Rules, STORED};
use crate::value::{entries, fill, same, text};

const PARAMETERS_LIMIT: usize = 512;
const PARAMETERS_SIZE_LIMIT: usize = 256 * 1024;

pub(crate) const RULES: Rules = Rules { default, validate, validate_update, ..STORED };

fn default(class: &mut Value) {
    fill(class, "reclaimPolicy", "Delete");
    fill(class, "volumeBindingMode", "Immediate");
}

fn validate(class: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&class["metadata"], &Path::new("metadata"), false, subdomain_name);
    let path = Path::new("provisioner");
    match text(class, "provisioner") {
        "" => errors.push(Error::required(&path, "")),
        provisioner => check(qualified_name(&provisioner.to_lowercase()), provisioner, &path, &mut errors),
    }
    let path = Path::new("parameters");
    let parameters = entries(class, "parameters").count();
    if parameters > PARAMETERS_LIMIT {
        errors.push(Error::too_long(&path, PARAMETERS_LIMIT));
    }
    let mut size = 0_usize;
    for (key, value) in entries(class, "parameters") {
        if key.is_empty() {
            errors.push(Error::invalid(&path, "", "field can not be empty."));
        }
        size = size.saturating_add(key.len()).saturating_add(value.as_str().unwrap_or_default().len());
    }
    if size > PARAMETERS_SIZE_LIMIT {
        errors.push(Error::too_long(&path, PARAMETERS_SIZE_LIMIT));
    }
    for (field, supported) in [
        ("reclaimPolicy", &["Delete", "Retain"][..]),
        ("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"][..]),
    ] {
        let value = text(class, field);
        if !supported.contains(&value) {
            errors.push(Error::not_supported(&Path::new(field), value, supported));
        }
    }
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if !same(&new[field], &old[field]) {
            errors.push(Error::forbidden(&Path::new(field), format!("updates to {field} are forbidden.")));
        }
    }
    let mode = "volumeBindingMode";
    validate_immutable(&new[mode], &old[mode], &Path::new(mode), &mut errors);
    errors
}
