//! `DaemonSets`.

use pillion_rules::field::{Error, Path};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::selector;
use pillion_rules::value::{copy_fields, fill, fill_text, has, object_mut, same, set, text};
use serde_json::{Value, json};

use crate::int_or_percent;
use crate::pod;
use crate::rules::{Rules, WITH_STATUS};
use crate::workload::{self, count_spec_changes, default_template, first_generation, next_generation};

/// The count of changes of the template is a field of the spec elsewhere, and an annotation in `apps/v1`.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create,
    validate,
    prepare_update,
    validate_update,
    validate_status,
    warnings,
    ..WITH_STATUS
};

fn default(daemon_set: &mut Value) {
    // Elsewhere it is a field, which is 0 before there was any template.
    let count = template_generation(daemon_set);
    set_template_generation(daemon_set, count);
    let spec = object_mut(daemon_set, "spec");
    default_template(spec);
    let strategy = object_mut(spec, "updateStrategy");
    fill_text(strategy, "type", "RollingUpdate");
    if text(strategy, "type") == "RollingUpdate" {
        let rolling_update = object_mut(strategy, "rollingUpdate");
        fill(rolling_update, "maxUnavailable", 1);
        fill(rolling_update, "maxSurge", 0);
    }
    fill(spec, "revisionHistoryLimit", 10);
}

fn template_generation(daemon_set: &Value) -> i64 {
    let annotation = &daemon_set["metadata"]["annotations"][TEMPLATE_GENERATION];
    annotation.as_str().and_then(|count| count.parse().ok()).unwrap_or_default()
}

fn set_template_generation(daemon_set: &mut Value, count: i64) {
    let annotations = object_mut(object_mut(daemon_set, "metadata"), "annotations");
    set(annotations, TEMPLATE_GENERATION, count.to_string());
}

fn prepare_create(daemon_set: &mut Value) {
    let status = json!({
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    });
    set(daemon_set, "status", status);
    first_generation(daemon_set);
    workload::prepare_template(daemon_set);
    set_template_generation(daemon_set, template_generation(daemon_set).max(1));
}

fn prepare_update(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["status"]);
    workload::prepare_template(new);
    let count = template_generation(old);
    if same(&new["spec"]["template"], &old["spec"]["template"]) {
        set_template_generation(new, count);
        count_spec_changes(new, old);
    } else {
        set_template_generation(new, count.saturating_add(1));
        next_generation(new, old);
    }
}

fn validate(daemon_set: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&daemon_set["metadata"], &Path::new("metadata"), true, subdomain_name);
    validate_spec(&daemon_set["spec"], &Path::new("spec"), &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let path = Path::new("spec");
    selector::validate_immutable(&new["spec"], &old["spec"], &path, &mut errors);
    validate_spec(&new["spec"], &path, &mut errors);
    errors
}

fn validate_spec(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (selector, template) = (&spec["selector"], &spec["template"]);
    let (selector_path, template_path) = (path.child("selector"), path.child("template"));
    selector::validate(selector, &selector_path, errors);
    let selected = selector::matches(selector, &template["metadata"]["labels"]).unwrap_or(true);
    workload::validate_selected(template, selected, &template_path, errors);
    if has(spec, "selector") && selector::selects_all(selector) {
        errors.push(Error::invalid(
            &selector_path,
            selector::shown(selector),
            "empty selector is invalid for daemonset",
        ));
    }
    workload::validate_template(template, &template_path, errors);
    workload::validate_running(template, "DaemonSet", &template_path, errors);
    workload::validate_counts(spec, &["minReadySeconds"], path, errors);
    validate_strategy(&spec["updateStrategy"], &path.child("updateStrategy"), errors);
    workload::validate_counts(spec, &["revisionHistoryLimit"], path, errors);
}

fn validate_strategy(strategy: &Value, path: &Path, errors: &mut Vec<Error>) {
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => validate_rolling_update(&strategy["rollingUpdate"], &path.child("rollingUpdate"), errors),
        _ => errors.push(Error::not_supported(path, shown(strategy), &["RollingUpdate", "OnDelete"])),
    }
}

fn validate_rolling_update(rolling_update: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (unavailable, surge) = (&rolling_update["maxUnavailable"], &rolling_update["maxSurge"]);
    let (unavailable_path, surge_path) = (path.child("maxUnavailable"), path.child("maxSurge"));
    int_or_percent::validate_positive(unavailable, &unavailable_path, errors);
    int_or_percent::validate_positive(surge, &surge_path, errors);
    int_or_percent::validate_not_above_100_percent(unavailable, &unavailable_path, errors);
    int_or_percent::validate_not_above_100_percent(surge, &surge_path, errors);
    match (int_or_percent::number(unavailable) != 0, int_or_percent::number(surge) != 0) {
        (true, true) => {
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.push(Error::invalid(&surge_path, surge.clone(), detail));
        }
        (false, false) => errors.push(Error::required(&unavailable_path, "cannot be 0 when maxSurge is 0")),
        _ => {}
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
    let counts = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    workload::validate_counts(&new["status"], &counts, &Path::new("status"), &mut errors);
    workload::validate_collision_count(new, old, &mut errors);
    errors
}

fn warnings(daemon_set: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| template_generation(old) == template_generation(daemon_set)) {
        return Vec::new();
    }
    pod::template_warnings(&daemon_set["spec"]["template"], &Path::new("spec").child("template"))
}
