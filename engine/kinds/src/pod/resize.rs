//! Resizing a pod in place (KEP-1287).

use pillion_rules::field::{Error, Path};
use pillion_rules::pod::internal::is_same;
use pillion_rules::pod::read::{annotation, entries, is_sidecar, list, part, text};
use pillion_rules::pod::validation::annotations::MIRROR;
use pillion_rules::pod::validation::report::{Errors, Report, nowhere};
use pillion_rules::pod::validation::{metadata, validate_metadata_and_spec};
use serde_json::{Map, Value};

use super::qos::{qos_class, recorded_qos_class};

/// Checks an update of `pods/resize`: only CPU and memory change, and the class of the pod does not.
pub fn validate_resize(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = Errors::new();
    metadata::validate_update(&mut errors, &new["metadata"], &old["metadata"]);
    validate_metadata_and_spec(&mut errors, new);
    let nowhere = nowhere();
    if annotation(old, MIRROR).is_some() {
        return vec![Error::forbidden(&nowhere, "static pods cannot be resized")];
    }
    let (spec, before, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    if recorded_qos_class(old) != qos_class(new) {
        let rule = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&path, text(&new["status"], "qosClass"), rule);
    }
    let running =
        list(&old["status"], "containerStatuses").iter().find(|status| part(&status["state"], "running").is_some());
    if running.is_some_and(|status| part(status, "resources").is_none()) {
        errors.forbidden(&path, "Pod running on node without support for resize");
    }
    if has_pod_resources(before) || has_pod_resources(spec) {
        let rule = "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";
        errors.forbidden(&nowhere, rule);
        return errors;
    }
    if !validate_order(&mut errors, spec, before, &path) {
        return errors;
    }
    for (field, may_change) in [("initContainers", is_sidecar as fn(&Value) -> bool), ("containers", |_| true)] {
        for (i, (new, old)) in list(spec, field).iter().zip(list(before, field)).enumerate() {
            if may_change(old) {
                let path = path.child(field).index(i).child("resources");
                validate_removals(&mut errors, &new["resources"], &old["resources"], &path);
            }
        }
    }
    validate_changes(&mut errors, spec, before, &path);
    errors
}

fn has_pod_resources(spec: &Value) -> bool {
    ["requests", "limits"].iter().any(|which| !entries(&spec["resources"], which).is_empty())
}

/// False if containers are not the same ones, so that they cannot be compared.
fn validate_order(errors: &mut Errors, new: &Value, old: &Value, path: &Path) -> bool {
    let before = errors.len();
    for field in ["containers", "initContainers"] {
        let path = path.child(field);
        let (new, old) = (list(new, field), list(old, field));
        if new.len() != old.len() {
            errors.forbidden(&path, format!("{field} may not be added or removed on resize"));
            continue;
        }
        for (i, _) in new.iter().zip(old).enumerate().filter(|(_, (new, old))| text(new, "name") != text(old, "name")) {
            errors
                .forbidden(&path.index(i).child("name"), format!("{field} may not be renamed or reordered on resize"));
        }
    }
    errors.len() == before
}

fn validate_removals(errors: &mut Errors, new: &Value, old: &Value, path: &Path) {
    for which in ["requests", "limits"] {
        let is_gone = |name: &str| new[which].get(name).is_none();
        if entries(old, which).iter().any(|(name, _)| is_gone(name)) {
            errors.forbidden(&path.child(which), format!("resource {which} cannot be removed"));
        }
    }
}

fn validate_changes(errors: &mut Errors, new: &Value, old: &Value, path: &Path) {
    let mut kept = new.clone();
    let mut keep = |field: &str, errors: &mut Errors| {
        let containers = kept.get_mut(field).and_then(Value::as_array_mut);
        for (container, old) in containers.into_iter().flatten().zip(list(old, field)) {
            let rule = match (field, is_sidecar(container)) {
                ("containers", _) => "only cpu and memory resources are mutable",
                (_, true) => "only cpu and memory resources for sidecar containers are mutable",
                (_, false) => "resources for non-sidecar init containers are immutable",
            };
            if field == "containers" || is_sidecar(container) {
                keep_cpu_and_memory(container, old);
            }
            if !is_same("Container", container, old) {
                errors.forbidden(path, rule);
            }
        }
    };
    keep("containers", errors);
    keep("initContainers", errors);
    if errors.is_empty() && !is_same("PodSpec", &kept, old) {
        errors.forbidden(path, "only cpu and memory resources are mutable");
    }
}

/// The new resources with CPU and memory as they were. Claims are left out on the way, as they are in the API server.
fn keep_cpu_and_memory(container: &mut Value, old: &Value) {
    let mut resources = Map::new();
    for which in ["limits", "requests"] {
        let mut amounts = container["resources"][which].as_object().cloned().unwrap_or_default();
        for name in ["cpu", "memory"] {
            match old["resources"][which].get(name) {
                Some(amount) => {
                    amounts.insert(name.to_owned(), amount.clone());
                }
                None => {
                    amounts.shift_remove(name);
                }
            }
        }
        if !amounts.is_empty() {
            resources.insert(which.to_owned(), Value::Object(amounts));
        }
    }
    if let Some(container) = container.as_object_mut() {
        container.insert("resources".to_owned(), Value::Object(resources));
    }
}
