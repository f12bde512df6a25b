//! PodDisruptionBudgets.

use pillion_rules::field::{Error, Path};
use pillion_rules::selector;
use pillion_rules::value::{copy_fields, has, list, set};
use serde_json::{Value, json};

use crate::condition;
use crate::int_or_percent;
use crate::rules::{Rules, WITH_STATUS};
use crate::workload::{self, count_spec_changes, first_generation};

const EVICTION_POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];

pub(crate) const RULES: Rules = Rules {
    prepare_create,
    validate,
    prepare_update: |new, old| {
        copy_fields(new, old, &["status"]);
        count_spec_changes(new, old);
    },
    validate_update: |new, _| validate(new),
    validate_status,
    unconditional_update: false,
    ..WITH_STATUS
};

fn prepare_create(budget: &mut Value) {
    let status = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
    set(budget, "status", status);
    first_generation(budget);
}

fn validate(budget: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    let (spec, path) = (&budget["spec"], Path::new("spec"));
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        errors.push(Error::invalid(&path, shown(spec), "minAvailable and maxUnavailable cannot be both set"));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if has(spec, field) {
            int_or_percent::validate_positive(&spec[field], &path.child(field), &mut errors);
            int_or_percent::validate_not_above_100_percent(&spec[field], &path.child(field), &mut errors);
        }
    }
    selector::validate(&spec["selector"], &path.child("selector"), &mut errors);
    let field = "unhealthyPodEvictionPolicy";
    if let Some(policy) = spec[field].as_str().filter(|policy| !EVICTION_POLICIES.contains(policy)) {
        errors.push(Error::not_supported(&path.child(field), policy, &EVICTION_POLICIES));
    }
    errors
}

/// The spec with the names of its fields in Go, as the API server shows it.
fn shown(spec: &Value) -> Value {
    json!({
        "MinAvailable": spec["minAvailable"],
        "Selector": spec["selector"],
        "MaxUnavailable": spec["maxUnavailable"],
        "UnhealthyPodEvictionPolicy": spec["unhealthyPodEvictionPolicy"],
    })
}

fn validate_status(new: &Value, _old: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    let (status, path) = (&new["status"], Path::new("status"));
    condition::validate_all(list(status, "conditions"), &path.child("conditions"), &mut errors);
    let counts = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    workload::validate_counts(status, &counts, &path, &mut errors);
    errors
}
