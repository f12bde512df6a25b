//! What kinds with a pod template have in common.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{dns_label, non_negative};
use pillion_rules::selector;
use pillion_rules::value::{copy_fields, has, int, object_mut, pointer_mut, same, set, sorted, text};
use serde_json::{Value, json};

use crate::pod;

/// Fills in the defaults of the pod template in a spec.
pub(crate) fn default_template(spec: &mut Value) {
    pod::apply_template_defaults(object_mut(spec, "template"));
}

/// Resets what the pod template in a spec may not have yet.
pub(crate) fn prepare_template(object: &mut Value) {
    if let Some(template) = pointer_mut(object_mut(object, "spec"), "template") {
        pod::prepare_template(template);
    }
}

/// A new `ReplicaSet` or `ReplicationController` has no replicas yet.
pub(crate) fn prepare_create_replicas(object: &mut Value) {
    set(object, "status", json!({"replicas": 0}));
    first_generation(object);
    prepare_template(object);
}

/// The status stays, and changes of the spec count.
pub(crate) fn prepare_update(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["status"]);
    prepare_template(new);
    count_spec_changes(new, old);
}

/// Checks a pod template as that of a pod to be.
pub(crate) fn validate_template(template: &Value, path: &Path, errors: &mut Vec<Error>) {
    errors.extend(pod::validate_template(template, path));
}

/// Starts to count changes of the spec.
pub(crate) fn first_generation(object: &mut Value) {
    set(object_mut(object, "metadata"), "generation", 1);
}

/// Counts a change.
pub(crate) fn next_generation(new: &mut Value, old: &Value) {
    let generation = int(&old["metadata"], "generation").saturating_add(1);
    set(object_mut(new, "metadata"), "generation", generation);
}

/// Counts a change of the spec, if there is one.
pub(crate) fn count_spec_changes(new: &mut Value, old: &Value) {
    if !same(&new["spec"], &old["spec"]) {
        next_generation(new, old);
    }
}

/// A selector that must be there and may not select everything.
pub(crate) fn validate_selector(spec: &Value, kind: &str, path: &Path, errors: &mut Vec<Error>) {
    let path = path.child("selector");
    if !has(spec, "selector") {
        return errors.push(Error::required(&path, ""));
    }
    let selector = &spec["selector"];
    selector::validate(selector, &path, errors);
    if selector::selects_all(selector) {
        errors.push(Error::invalid(&path, selector::shown(selector), format!("empty selector is invalid for {kind}")));
    }
}

/// Refuses a template whose labels the selector does not match.
pub(crate) fn validate_selected(template: &Value, selected: bool, path: &Path, errors: &mut Vec<Error>) {
    if !selected {
        let labels = sorted(&template["metadata"]["labels"]);
        let path = path.child("metadata").child("labels");
        errors.push(Error::invalid(&path, labels, "`selector` does not match template `labels`"));
    }
}

/// The template of pods that are kept running: restarted always, and without an end.
pub(crate) fn validate_running(template: &Value, kind: &str, path: &Path, errors: &mut Vec<Error>) {
    let spec = &template["spec"];
    let path = path.child("spec");
    let restart_policy = text(spec, "restartPolicy");
    if restart_policy != "Always" {
        errors.push(Error::not_supported(&path.child("restartPolicy"), restart_policy, &["Always"]));
    }
    if has(spec, "activeDeadlineSeconds") {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(Error::forbidden(&path.child("activeDeadlineSeconds"), detail));
    }
}

/// The spec of a ReplicaSet, and of a Deployment, as far as it says the same. A selector that cannot be evaluated hides what is wrong with
/// the template.
pub(crate) fn validate_selected_template(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    // Both say "deployment".
    validate_selector(spec, "deployment", path, errors);
    let (template, selector) = (&spec["template"], &spec["selector"]);
    match selector::matches(selector, &template["metadata"]["labels"]) {
        None => {
            errors.push(Error::invalid(&path.child("selector"), selector::shown(selector), "invalid label selector"));
        }
        Some(selected) => {
            let path = path.child("template");
            validate_selected(template, selected, &path, errors);
            validate_template(template, &path, errors);
            validate_running(template, "ReplicaSet", &path, errors);
        }
    }
}

/// Refuses negative numbers in the named fields.
pub(crate) fn validate_counts(object: &Value, fields: &[&str], path: &Path, errors: &mut Vec<Error>) {
    for field in fields {
        non_negative(int(object, field), &path.child(*field), errors);
    }
}

/// Refuses a part that is larger than the whole.
pub(crate) fn validate_part(
    status: &Value,
    part: &str,
    whole: &str,
    detail: &str,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let count = int(status, part);
    if count > int(status, whole) {
        errors.push(Error::invalid(&path.child(part), count, detail));
    }
}

/// Refuses a status in which parts are larger than all replicas, or more of them available than ready.
pub(crate) fn validate_replicas(status: &Value, parts: &[&str], path: &Path, errors: &mut Vec<Error>) {
    for part in parts {
        validate_part(status, part, "replicas", "cannot be greater than status.replicas", path, errors);
    }
    let detail = "cannot be greater than readyReplicas";
    validate_part(status, "availableReplicas", "readyReplicas", detail, path, errors);
}

/// The count of name collisions only grows.
pub(crate) fn validate_collision_count(new: &Value, old: &Value, errors: &mut Vec<Error>) {
    let (new, old) = (&new["status"]["collisionCount"], &old["status"]["collisionCount"]);
    let count = new.as_i64().unwrap_or_default();
    if !old.is_null() && (new.is_null() || count < old.as_i64().unwrap_or_default()) {
        let path = Path::new("status").child("collisionCount");
        errors.push(Error::invalid(&path, count, "cannot be decremented"));
    }
}

/// Warns of a name that makes bad names of pods.
pub(crate) fn warn_of_name(object: &Value) -> Option<String> {
    let complaints = dns_label(text(&object["metadata"], "name"));
    (!complaints.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
            complaints.join(" ")
        )
    })
}

/// Warnings of a kind whose name goes into names of pods: about the name when it is new, about the template when it is new or changed.
pub(crate) fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let template = &object["spec"]["template"];
    let path = Path::new("spec").child("template");
    match old {
        None => warn_of_name(object).into_iter().chain(pod::template_warnings(template, &path)).collect(),
        Some(old) if object["metadata"]["generation"] != old["metadata"]["generation"] => {
            pod::template_warnings(template, &path)
        }
        Some(_) => Vec::new(),
    }
}
