//! Which fields of a pod may change.

use pillion_rules::field::{Error, Path};
use pillion_rules::pod::internal::{bad_value, is_same};
use pillion_rules::pod::read::{annotation, entries, list, part, pointer_number, text};
use pillion_rules::pod::validation::annotations::{self, MIRROR};
use pillion_rules::pod::validation::format::between;
use pillion_rules::pod::validation::image::validate_image_spaces;
use pillion_rules::pod::validation::report::{Errors, Report};
use pillion_rules::pod::validation::scheduling::validate_tolerations;
use pillion_rules::pod::validation::{metadata, validate_metadata_and_spec};
use serde_json::{Map, Value, json};

use super::changes::changed_fields;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// What is said of every other change, before the changes themselves.
const UPDATABLE: &str = "pod updates may not change fields other than \
    `spec.containers[*].image`,\
    `spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,\
    `spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks an update of a pod against what it was.
pub fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = Errors::new();
    metadata::validate_update(&mut errors, &new["metadata"], &old["metadata"]);
    validate_metadata_and_spec(&mut errors, new);
    validate_annotations(&mut errors, new, old);
    let (spec, before, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    for field in ["containers", "initContainers"] {
        if !validate_containers(&mut errors, spec, before, field, &path.child(field)) {
            return errors;
        }
    }
    if !validate_deadline(&mut errors, spec, before, &path.child("activeDeadlineSeconds")) {
        return errors;
    }
    validate_added_tolerations(&mut errors, spec, before, &path.child("tolerations"));
    validate_deleted_gates(&mut errors, spec, before, &path.child("schedulingGates"));
    if is_same("PodSpec", spec, before) {
        return errors;
    }
    let mut kept = without_allowed_changes(spec, before);
    if !list(before, "schedulingGates").is_empty() {
        validate_gated_changes(&mut errors, &mut kept, before, &path);
    }
    if !is_same("PodSpec", &kept, before) {
        errors.forbidden(&path, format!("{UPDATABLE}\n{}", changed_fields(before, &kept, &path)));
    }
    errors
}

/// Checks annotations that say what a pod was created as.
pub(super) fn validate_annotations(errors: &mut Errors, new: &Value, old: &Value) {
    let path = Path::new("metadata").child("annotations");
    match (annotation(old, MIRROR), annotation(new, MIRROR)) {
        (Some(before), after) if after != Some(before) => {
            errors.forbidden(&path.key(MIRROR), "may not remove or update mirror pod annotation");
        }
        (None, Some(_)) => errors.forbidden(&path.key(MIRROR), "may not add mirror pod annotation"),
        _ => {}
    }
    annotations::validate(errors, new, &path);
}

/// False if there is no sense in looking further.
fn validate_containers(errors: &mut Errors, new: &Value, old: &Value, field: &str, path: &Path) -> bool {
    let (new, old) = (list(new, field), list(old, field));
    if new.len() != old.len() {
        errors.forbidden(path, "pod updates may not add or remove containers");
        return false;
    }
    for (i, container) in new.iter().enumerate() {
        errors.non_empty(&path.index(i).child("image"), text(container, "image"));
        validate_image_spaces(errors, container, &path.index(i));
    }
    true
}

/// False if there is no sense in looking further.
fn validate_deadline(errors: &mut Errors, new: &Value, old: &Value, path: &Path) -> bool {
    let (new, old) = (pointer_number(new, "activeDeadlineSeconds"), pointer_number(old, "activeDeadlineSeconds"));
    match (new, old) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.invalid(path, new, between(0, i64::from(i32::MAX)));
            false
        }
        (Some(new), Some(old)) if old < new => {
            errors.invalid(path, new, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            errors.invalid(path, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn validate_added_tolerations(errors: &mut Errors, new: &Value, old: &Value, path: &Path) {
    let forever = |toleration: &Value| {
        let mut toleration = bad_value("Toleration", toleration);
        toleration["TolerationSeconds"] = Value::Null;
        toleration
    };
    let kept: Vec<Value> = list(new, "tolerations").iter().map(forever).collect();
    if list(old, "tolerations").iter().any(|old| !kept.contains(&forever(old))) {
        return errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
    validate_tolerations(errors, list(new, "tolerations"), path);
}

fn validate_deleted_gates(errors: &mut Errors, new: &Value, old: &Value, path: &Path) {
    for (i, gate) in list(new, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !list(old, "schedulingGates").iter().any(|old| text(old, "name") == name) {
            let rule = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&path.index(i).child("name"), rule);
        }
    }
}

/// The new spec with everything that any update may change as it was.
fn without_allowed_changes(new: &Value, old: &Value) -> Value {
    let mut kept = new.clone();
    for field in ["containers", "initContainers"] {
        let containers = kept.get_mut(field).and_then(Value::as_array_mut);
        for (container, old) in containers.into_iter().flatten().zip(list(old, field)) {
            if let Some(container) = container.as_object_mut() {
                container.insert("image".to_owned(), json!(text(old, "image")));
            }
        }
    }
    if let Some(kept) = kept.as_object_mut() {
        for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
            put(kept, field, old.get(field));
        }
        let (before, after) = (
            pointer_number(old, "terminationGracePeriodSeconds"),
            pointer_number(new, "terminationGracePeriodSeconds"),
        );
        if before.is_some_and(|seconds| seconds < 0) && after == Some(1) {
            put(kept, "terminationGracePeriodSeconds", old.get("terminationGracePeriodSeconds"));
        }
    }
    kept
}

fn put(object: &mut Map<String, Value>, field: &str, value: Option<&Value>) {
    match value {
        Some(value) => {
            object.insert(field.to_owned(), value.clone());
        }
        None => {
            object.shift_remove(field);
        }
    }
}

/// Before a pod is scheduled, the choice of nodes may be narrowed. What may change is set back in `kept`.
fn validate_gated_changes(errors: &mut Errors, kept: &mut Value, old: &Value, path: &Path) {
    let is_narrower =
        entries(old, "nodeSelector").iter().all(|(key, value)| kept["nodeSelector"].get(*key) == Some(value));
    if !is_narrower {
        let rule = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        let value = kept.get("nodeSelector").cloned().unwrap_or(Value::Null);
        errors.invalid(&path.child("nodeSelector"), value, rule);
    }
    let before = part(&old["affinity"], "nodeAffinity").cloned();
    let after = part(&kept["affinity"], "nodeAffinity").cloned();
    let as_value = |affinity: &Option<Value>| affinity.clone().unwrap_or(Value::Null);
    let changed =
        before.is_some() != after.is_some() || !is_same("NodeAffinity", &as_value(&before), &as_value(&after));
    if changed {
        validate_node_affinity(
            errors,
            &as_value(&after),
            &as_value(&before),
            &path.child("affinity").child("nodeAffinity"),
        );
    }
    let Some(kept) = kept.as_object_mut() else { return };
    put(kept, "nodeSelector", old.get("nodeSelector"));
    if !changed {
        return;
    }
    let mut affinity = kept.get("affinity").and_then(Value::as_object).cloned().unwrap_or_default();
    let was_absent = part(old, "affinity").is_none();
    put(&mut affinity, "nodeAffinity", before.as_ref());
    let affinity = Value::Object(affinity);
    let is_empty =
        ["nodeAffinity", "podAffinity", "podAntiAffinity"].iter().all(|field| part(&affinity, field).is_none());
    put(kept, "affinity", if is_empty && was_absent { None } else { Some(&affinity) });
}

fn validate_node_affinity(errors: &mut Errors, new: &Value, old: &Value, path: &Path) {
    let Some(required) = part(old, REQUIRED) else { return };
    let (old, new) = (list(required, "nodeSelectorTerms"), list(&new[REQUIRED], "nodeSelectorTerms"));
    let path = path.child(REQUIRED).child("nodeSelectorTerms");
    let shown = |term: &Value| bad_value("NodeSelectorTerm", term);
    if !old.is_empty() && old.len() != new.len() {
        let value = if new.is_empty() { Value::Null } else { new.iter().map(shown).collect() };
        return errors.invalid(&path, value, "no additions/deletions to non-empty NodeSelectorTerms list are allowed");
    }
    for (i, (new, old)) in new.iter().zip(old).enumerate() {
        if !has_only_additions(new, old) {
            errors.invalid(&path.index(i), shown(new), "only additions are allowed (no mutations or deletions)");
        }
    }
}

fn has_only_additions(new: &Value, old: &Value) -> bool {
    let fields = ["matchExpressions", "matchFields"];
    // A term without requirements matches nothing, and stays so.
    if fields.iter().all(|field| list(old, field).is_empty()) && fields.iter().any(|field| !list(new, field).is_empty())
    {
        return false;
    }
    fields.iter().all(|field| list(new, field).starts_with(list(old, field)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(change: impl FnOnce(&mut Value)) -> Value {
        let mut pod = json!({
            "metadata": {"name": "a", "namespace": "b", "resourceVersion": "1"},
            "spec": {"containers": [{"name": "c", "image": "d", "resources": {}}]},
        });
        crate::pod::apply_defaults(&mut pod);
        change(&mut pod);
        pod
    }

    fn errors(new: &Value, old: &Value) -> Vec<String> {
        validate_update(new, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn images_and_tolerations_may_change() {
        let old = pod(|_| {});
        let new = pod(|pod| {
            pod["spec"]["containers"][0]["image"] = json!("e");
            pod["spec"]["tolerations"] = json!([{"key": "a", "operator": "Exists"}]);
            pod["spec"]["activeDeadlineSeconds"] = json!(5);
        });
        assert_eq!(errors(&new, &old), [""; 0]);
        assert_eq!(
            errors(&old, &new),
            [
                "spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
            ]
        );
    }

    #[test]
    fn before_scheduling_the_choice_of_nodes_may_be_narrowed() {
        let gated = |node_selector: Value, terms: Value| {
            pod(|pod| {
                pod["spec"]["schedulingGates"] = json!([{"name": "g"}]);
                pod["spec"]["nodeSelector"] = node_selector;
                pod["spec"]["affinity"] = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}});
            })
        };
        let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let narrower =
            json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]});
        let old = gated(json!({"a": "b"}), json!([term]));
        assert_eq!(errors(&gated(json!({"a": "b", "c": "d"}), json!([narrower])), &old), [""; 0]);
        assert_eq!(
            errors(&gated(json!({"c": "d"}), json!([term, term])), &old),
            [
                r#"spec.nodeSelector: Invalid value: {"c":"d"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)"#,
                r#"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Invalid value: [{"MatchExpressions":[{"Key":"a","Operator":"Exists","Values":null}],"MatchFields":null},{"MatchExpressions":[{"Key":"a","Operator":"Exists","Values":null}],"MatchFields":null}]: no additions/deletions to non-empty NodeSelectorTerms list are allowed"#
            ]
        );
    }
}
