//! Deployments.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::non_negative;
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::selector;
use pillion_rules::value::{copy_fields, fill, fill_text, has, int, object_mut, same, set, text};
use serde_json::{Value, json};

use crate::int_or_percent;
use crate::rules::{Rules, WITH_STATUS};
use crate::workload::{self, default_template, first_generation, next_generation};

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create,
    validate,
    prepare_update,
    validate_update,
    prepare_status,
    validate_status,
    warnings: workload::warnings,
    reset_on_status: &[&["spec"], &["metadata", "labels"]],
    ..WITH_STATUS
};

fn default(deployment: &mut Value) {
    let spec = object_mut(deployment, "spec");
    default_template(spec);
    fill(spec, "replicas", 1);
    let strategy = object_mut(spec, "strategy");
    fill_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling_update = object_mut(strategy, "rollingUpdate");
        fill(rolling_update, "maxUnavailable", "25%");
        fill(rolling_update, "maxSurge", "25%");
    }
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
}

fn prepare_create(deployment: &mut Value) {
    set(deployment, "status", json!({}));
    first_generation(deployment);
    workload::prepare_template(deployment);
}

fn prepare_update(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["status"]);
    workload::prepare_template(new);
    let (new_annotations, old_annotations) = (&new["metadata"]["annotations"], &old["metadata"]["annotations"]);
    if !same(&new["spec"], &old["spec"]) || !same(new_annotations, old_annotations) {
        next_generation(new, old);
    }
}

fn prepare_status(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["spec"]);
    copy_fields(object_mut(new, "metadata"), &old["metadata"], &["labels"]);
}

fn validate(deployment: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&deployment["metadata"], &Path::new("metadata"), true, subdomain_name);
    validate_spec(&deployment["spec"], &Path::new("spec"), &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let path = Path::new("spec");
    validate_spec(&new["spec"], &path, &mut errors);
    selector::validate_immutable(&new["spec"], &old["spec"], &path, &mut errors);
    errors
}

fn validate_spec(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    non_negative(int(spec, "replicas"), &path.child("replicas"), errors);
    workload::validate_selected_template(spec, path, errors);
    validate_strategy(&spec["strategy"], &path.child("strategy"), errors);
    workload::validate_counts(spec, &["minReadySeconds", "revisionHistoryLimit"], path, errors);
    if has(spec, "progressDeadlineSeconds") {
        let (deadline, path) = (int(spec, "progressDeadlineSeconds"), path.child("progressDeadlineSeconds"));
        non_negative(deadline, &path, errors);
        if deadline <= int(spec, "minReadySeconds") {
            errors.push(Error::invalid(&path, deadline, "must be greater than minReadySeconds"));
        }
    }
}

fn validate_strategy(strategy: &Value, path: &Path, errors: &mut Vec<Error>) {
    let rolling_update = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "Recreate" if !rolling_update.is_null() => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            errors.push(Error::forbidden(&path.child("rollingUpdate"), detail));
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let (unavailable, surge) = (&rolling_update["maxUnavailable"], &rolling_update["maxSurge"]);
            let unavailable_path = path.child("maxUnavailable");
            int_or_percent::validate_positive(unavailable, &unavailable_path, errors);
            int_or_percent::validate_positive(surge, &path.child("maxSurge"), errors);
            if int_or_percent::number(unavailable) == 0 && int_or_percent::number(surge) == 0 {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(Error::invalid(&unavailable_path, unavailable.clone(), detail));
            }
            int_or_percent::validate_not_above_100_percent(unavailable, &unavailable_path, errors);
        }
        _ => errors.push(Error::not_supported(path, shown(strategy), &["Recreate", "RollingUpdate"])),
    }
}

/// The strategy with the names of its fields in Go, as the API server shows it.
fn shown(strategy: &Value) -> Value {
    let or_zero = |value: &Value| if value.is_null() { json!(0) } else { value.clone() };
    let rolling_update = match &strategy["rollingUpdate"] {
        Value::Null => Value::Null,
        update => {
            json!({"MaxUnavailable": or_zero(&update["maxUnavailable"]), "MaxSurge": or_zero(&update["maxSurge"])})
        }
    };
    json!({"Type": text(strategy, "type"), "RollingUpdate": rolling_update})
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let (status, path) = (&new["status"], Path::new("status"));
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    workload::validate_counts(status, &counts, &path, &mut errors);
    let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    workload::validate_replicas(status, &parts, &path, &mut errors);
    workload::validate_collision_count(new, old, &mut errors);
    errors
}
