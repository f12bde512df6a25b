//! `IngressClasses`.

use serde_json::Value;

use super::validate_reference;
use crate::field::{Error, IMMUTABLE, Path};
use crate::format::{check, dns_label, domain_prefixed_path};
use crate::metadata::{self, subdomain_name};
use crate::rules::{Rules, STORED};
use crate::value::{fill, has, object_mut, pointer_mut, text};
use crate::workload::{count_spec_changes, first_generation};

const CONTROLLER_LIMIT: usize = 250;

pub(crate) const RULES: Rules = Rules {
    default: |class| {
        if let Some(parameters) = pointer_mut(object_mut(class, "spec"), "parameters") {
            fill(parameters, "scope", "Cluster");
        }
    },
    prepare_create: first_generation,
    validate,
    prepare_update: count_spec_changes,
    validate_update,
    ..STORED
};

fn validate(class: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&class["metadata"], &Path::new("metadata"), false, subdomain_name);
    let (spec, path) = (&class["spec"], Path::new("spec"));
    let controller = text(spec, "controller");
    if controller.len() > CONTROLLER_LIMIT {
        errors.push(Error::too_long(&path.child("controller"), CONTROLLER_LIMIT));
    }
    domain_prefixed_path(controller, &path.child("controller"), &mut errors);
    if has(spec, "parameters") {
        validate_parameters(&spec["parameters"], &path.child("parameters"), &mut errors);
    }
    errors
}

fn validate_parameters(parameters: &Value, path: &Path, errors: &mut Vec<Error>) {
    validate_reference(parameters, path, errors);
    let (namespace, namespace_path) = (parameters["namespace"].as_str(), path.child("namespace"));
    match parameters["scope"].as_str() {
        None => errors.push(Error::required(&path.child("scope"), "")),
        Some("Namespace") => match namespace {
            None | Some("") => {
                errors.push(Error::required(&namespace_path, "`parameters.scope` is set to 'Namespace'"));
            }
            Some(namespace) => check(dns_label(namespace), namespace, &namespace_path, errors),
        },
        Some("Cluster") => {
            if namespace.is_some() {
                errors.push(Error::forbidden(&namespace_path, "`parameters.scope` is set to 'Cluster'"));
            }
        }
        Some(other) => errors.push(Error::not_supported(&path.child("scope"), other, &["Cluster", "Namespace"])),
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let controller = text(&new["spec"], "controller");
    if controller != text(&old["spec"], "controller") {
        errors.push(Error::invalid(&Path::new("spec").child("controller"), controller, IMMUTABLE));
    }
    errors.extend(validate(new));
    errors
}
