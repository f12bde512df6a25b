//! `PodTemplates`.

use serde_json::Value;

use crate::field::{Error, Path};
use crate::metadata::{self, subdomain_name};
use crate::pod;
use crate::rules::{Rules, STORED};
use crate::value::same;
use crate::workload;
use crate::workload::{first_generation, next_generation};

pub(crate) const RULES: Rules = Rules {
    default: workload::default_template,
    prepare_create: first_generation,
    validate,
    prepare_update,
    validate_update,
    warnings,
    ..STORED
};

fn prepare_update(new: &mut Value, old: &Value) {
    if !same(&new["template"], &old["template"]) {
        next_generation(new, old);
    }
}

fn validate(template: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&template["metadata"], &Path::new("metadata"), true, subdomain_name);
    workload::validate_template(&template["template"], &Path::new("template"), &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    workload::validate_template(&new["template"], &Path::new("template"), &mut errors);
    errors
}

fn warnings(template: &Value, _old: Option<&Value>) -> Vec<String> {
    pod::template_warnings(&template["template"], &Path::new("template"))
}
