//! Leases.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, qualified_name};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::value::{has, object_mut, remove, text};
use serde_json::Value;

use crate::rules::{Rules, STORED};

pub(crate) const RULES: Rules = Rules {
    prepare_create: |lease| drop_gated(lease, &Value::Null),
    validate,
    prepare_update: drop_gated,
    validate_update,
    create_on_update: true,
    unconditional_update: false,
    ..STORED
};

/// Coordinated election is behind a gate that is off.
fn drop_gated(new: &mut Value, old: &Value) {
    for field in ["strategy", "preferredHolder"] {
        if !has(&old["spec"], field) {
            remove(object_mut(new, "spec"), field);
        }
    }
}

fn validate(lease: &Value) -> Vec<Error> {
    let mut errors = metadata::validate(&lease["metadata"], &Path::new("metadata"), true, subdomain_name);
    validate_spec(&lease["spec"], &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    validate_spec(&new["spec"], &mut errors);
    errors
}

fn validate_spec(spec: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("spec");
    if let Some(seconds) = spec["leaseDurationSeconds"].as_i64().filter(|seconds| *seconds <= 0) {
        errors.push(Error::invalid(&path.child("leaseDurationSeconds"), seconds, "must be greater than 0"));
    }
    if let Some(count) = spec["leaseTransitions"].as_i64().filter(|count| *count < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(&path.child("leaseTransitions"), count, detail));
    }
    let strategy = text(spec, "strategy");
    if has(spec, "strategy") {
        check(qualified_name(strategy), strategy, &path.child("strategy"), errors);
    }
    if !text(spec, "preferredHolder").is_empty() && strategy.is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.push(Error::forbidden(&path.child("preferredHolder"), detail));
    }
}
