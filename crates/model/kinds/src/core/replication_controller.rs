//! `ReplicationControllers`. They are kept, and nothing is replicated.

use serde_json::Value;

use crate::field::{Error, Path};
use crate::metadata::{self, subdomain_name};
use crate::rules::{Rules, WITH_STATUS};
use crate::value::{entries, fill, has, int, is_empty, object_mut, pointer_mut, set};
use crate::workload;

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create: workload::prepare_create_replicas,
    validate,
    prepare_update: workload::prepare_update,
    validate_update,
    validate_status,
    warnings: workload::warnings,
    selectable,
    orphan_by_default: true,
    ..WITH_STATUS
};

fn default(controller: &mut Value) {
    let spec = object_mut(controller, "spec");
    if pointer_mut(spec, "template").is_some() {
        workload::default_template(spec);
    }
    let labels = spec["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        if is_empty(spec, "selector") {
            set(spec, "selector", labels.clone());
        }
        let meta = object_mut(controller, "metadata");
        if is_empty(meta, "labels") {
            set(meta, "labels", labels);
        }
    }
    fill(object_mut(controller, "spec"), "replicas", 1);
}

fn validate(controller: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&controller["metadata"], &Path::new("metadata"), true, subdomain_name);
    validate_spec(&controller["spec"], &Path::new("spec"), &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    validate_spec(&new["spec"], &Path::new("spec"), &mut errors);
    errors
}

fn validate_spec(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    workload::validate_counts(spec, &["minReadySeconds"], path, errors);
    if is_empty(spec, "selector") {
        errors.push(Error::required(&path.child("selector"), ""));
    }
    workload::validate_counts(spec, &["replicas"], path, errors);
    let (template, path) = (&spec["template"], path.child("template"));
    if !has(spec, "template") {
        return errors.push(Error::required(&path, ""));
    }
    let labels = &template["metadata"]["labels"];
    let selected = entries(spec, "selector").all(|(key, value)| labels[key.as_str()] == *value);
    if !selected {
        let detail = "`selector` does not match template `labels`";
        errors.push(Error::invalid(&path.child("metadata").child("labels"), labels.clone(), detail));
    }
    workload::validate_template(template, &path, errors);
    workload::validate_running(template, "ReplicationController", &path, errors);
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let (status, path) = (&new["status"], Path::new("status"));
    let counts = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"];
    workload::validate_counts(status, &counts, &path, &mut errors);
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    workload::validate_replicas(status, &parts, &path, &mut errors);
    errors
}

fn selectable(controller: &Value, field: &str) -> Option<String> {
    (field == "status.replicas").then(|| int(&controller["status"], "replicas").to_string())
}
