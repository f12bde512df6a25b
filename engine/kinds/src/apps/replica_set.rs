//! `ReplicaSets`.

use pillion_rules::field::{Error, Path};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::selector;
use pillion_rules::value::{fill, object_mut};
use serde_json::Value;

use crate::rules::{Rules, WITH_STATUS};
use crate::workload::{self, default_template};

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create: workload::prepare_create_replicas,
    validate,
    prepare_update: workload::prepare_update,
    validate_update,
    validate_status,
    warnings: workload::warnings,
    ..WITH_STATUS
};

fn default(set: &mut Value) {
    let spec = object_mut(set, "spec");
    default_template(spec);
    fill(spec, "replicas", 1);
}

fn validate(set: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&set["metadata"], &Path::new("metadata"), true, subdomain_name);
    validate_spec(&set["spec"], &Path::new("spec"), &mut errors);
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
    workload::validate_counts(spec, &["replicas", "minReadySeconds"], path, errors);
    workload::validate_selected_template(spec, path, errors);
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let (status, path) = (&new["status"], Path::new("status"));
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    workload::validate_counts(status, &counts, &path, &mut errors);
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    workload::validate_replicas(status, &parts, &path, &mut errors);
    errors
}
