//! What the API server sets, keeps and drops before it checks a pod.

use pillion_rules::pod::internal::is_same;
use pillion_rules::pod::read::{CONTAINER_LISTS, list, number, part, text};
use serde_json::{Map, Value, json};

use super::qos::recorded_qos_class;

/// Metadata that a subresource leaves as it is.
const METADATA: [&str; 7] =
    ["deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"];

/// Makes a pod that a client sent a new one: pending, of its class, and of the first generation.
pub fn prepare_create(pod: &mut Value) {
    set(pod, "/metadata", "generation", json!(1));
    // A class that the client wrote is believed, odd as that is: so does the API server.
    let class = recorded_qos_class(pod).to_owned();
    set(pod, "", "status", json!({"phase": "Pending", "qosClass": class}));
    drop_disabled(pod);
    note_scheduling_gates(pod);
    apply_label_keys(pod);
}

/// Keeps the status when a client updates a pod, and counts changes of the spec.
pub fn prepare_update(new: &mut Value, old: &Value) {
    copy_field(new, old, "", "status");
    drop_disabled(new);
    count_generation(new, old);
}

/// Keeps everything but the status when a client updates that.
pub fn prepare_status(new: &mut Value, old: &Value) {
    copy_field(new, old, "", "spec");
    copy_field(new, old, "/metadata", "deletionTimestamp");
    copy_field(new, old, "/metadata", "ownerReferences");
    if text(&new["status"], "qosClass").is_empty() {
        copy_field(new, old, "/status", "qosClass");
    }
    keep_observed_generations(new, old);
    drop_disabled(new);
}

/// Keeps everything but the ephemeral containers when a client adds one.
pub fn prepare_ephemeral_containers(new: &mut Value, old: &Value) {
    let containers = new["spec"].get("ephemeralContainers").cloned();
    keep_all(new, old);
    put(new, "/spec", "ephemeralContainers", containers);
    drop_disabled(new);
    count_generation(new, old);
}

/// Keeps everything but resources and resize policies when a client resizes a pod (KEP-1287). Containers that were added, removed or
/// renamed are left as they are, for validation to refuse.
pub fn prepare_resize(new: &mut Value, old: &Value) {
    let is_as_long = |field: &str| list(&new["spec"], field).len() == list(&old["spec"], field).len();
    if is_as_long("containers") && is_as_long("initContainers") {
        let lists = ["containers", "initContainers"]
            .map(|field| (field, resized(list(&new["spec"], field), list(&old["spec"], field))));
        keep_all(new, old);
        for (field, containers) in lists {
            put(new, "/spec", field, (!containers.is_empty()).then_some(Value::Array(containers)));
        }
    }
    drop_disabled(new);
    count_generation(new, old);
}

fn resized(new: &[Value], old: &[Value]) -> Vec<Value> {
    if new.iter().zip(old).any(|(new, old)| text(new, "name") != text(old, "name")) {
        return new.to_vec();
    }
    let merge = |(new, old): (&Value, &Value)| {
        let mut merged = old.clone();
        for field in ["resources", "resizePolicy"] {
            put(&mut merged, "", field, new.get(field).cloned());
        }
        merged
    };
    new.iter().zip(old).map(merge).collect()
}

fn keep_all(new: &mut Value, old: &Value) {
    copy_field(new, old, "", "spec");
    copy_field(new, old, "", "status");
    for field in METADATA {
        copy_field(new, old, "/metadata", field);
    }
}

fn count_generation(new: &mut Value, old: &Value) {
    let generation = number(&old["metadata"], "generation");
    let changed = !is_same("PodSpec", &new["spec"], &old["spec"]);
    set(new, "/metadata", "generation", json!(if changed { generation.saturating_add(1) } else { generation }));
}

/// A client that does not know of `observedGeneration` does not clear it.
fn keep_observed_generations(new: &mut Value, old: &Value) {
    let observed = |of: &Value| number(of, "observedGeneration");
    if observed(&new["status"]) == 0 {
        put(new, "/status", "observedGeneration", old["status"].get("observedGeneration").cloned());
    }
    let mut before: Vec<&Value> = list(&old["status"], "conditions").iter().collect();
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let found = before.iter().position(|old| text(old, "type") == text(condition, "type"));
        let generation = found.map_or(0, |i| observed(before.remove(i)));
        if observed(condition) == 0 && generation != 0 {
            set(condition, "", "observedGeneration", json!(generation));
        }
    }
}

/// Drops what is behind gates that are off in Kubernetes 1.35.
fn drop_disabled(pod: &mut Value) {
    if let Some(spec) = pod.get_mut("spec") {
        drop_disabled_from_spec(spec);
    }
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
    for field in ["resources", "allocatedResources", "extendedResourceClaimStatus"] {
        status.shift_remove(field);
    }
    for field in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        let statuses = status.get_mut(field).and_then(Value::as_array_mut);
        for status in statuses.into_iter().flatten().filter_map(Value::as_object_mut) {
            status.shift_remove("allocatedResourcesStatus");
        }
    }
}

/// Drops from the template of a workload what is behind gates that are off.
pub fn prepare_template(template: &mut Value) {
    if let Some(spec) = template.get_mut("spec") {
        drop_disabled_from_spec(spec);
    }
}

fn drop_disabled_from_spec(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else { return };
    spec.shift_remove("workloadRef");
    for volume in elements(spec, "volumes") {
        let Some(projected) = volume.get_mut("projected").and_then(Value::as_object_mut) else { continue };
        for source in elements(projected, "sources") {
            source.shift_remove("clusterTrustBundle");
            source.shift_remove("podCertificate");
        }
    }
    for field in CONTAINER_LISTS {
        for container in elements(spec, field) {
            let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) else { continue };
            if lifecycle.shift_remove("stopSignal").is_some() && lifecycle.is_empty() {
                container.shift_remove("lifecycle");
            }
        }
    }
}

fn elements<'a>(object: &'a mut Map<String, Value>, field: &str) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// A pod behind gates says so until they are cleared.
fn note_scheduling_gates(pod: &mut Value) {
    if list(&pod["spec"], "schedulingGates").is_empty() {
        return;
    }
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": null,
        "lastTransitionTime": pod["metadata"]["creationTimestamp"],
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    });
    set(pod, "/status", "conditions", json!([condition]));
}

/// The pod's own values of the labels that `matchLabelKeys` name become part of the selectors beside them.
fn apply_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (field, inner) in [
            ("preferredDuringSchedulingIgnoredDuringExecution", "/podAffinityTerm"),
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
        ] {
            let terms = pod.pointer_mut(&format!("/spec/affinity/{kind}/{field}")).and_then(Value::as_array_mut);
            for term in terms.into_iter().flatten() {
                if let Some(term) = term.pointer_mut(inner) {
                    apply_label_keys_to(term, &labels);
                }
            }
        }
    }
    let constraints = pod.pointer_mut("/spec/topologySpreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten() {
        apply_label_keys_to(constraint, &labels);
    }
}

fn apply_label_keys_to(term: &mut Value, labels: &Value) {
    if part(term, "labelSelector").is_none() {
        return;
    }
    let mut expressions = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in list(term, field).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if expressions.is_empty() {
        return;
    }
    let mut all = list(&term["labelSelector"], "matchExpressions").to_vec();
    all.extend(expressions);
    set(term, "/labelSelector", "matchExpressions", Value::Array(all));
}

/// Sets a field of the object at a JSON pointer.
fn set(object: &mut Value, pointer: &str, field: &str, value: Value) {
    put(object, pointer, field, Some(value));
}

/// Sets or removes a field of the object at a JSON pointer.
fn put(object: &mut Value, pointer: &str, field: &str, value: Option<Value>) {
    let Some(object) = object.pointer_mut(pointer).and_then(Value::as_object_mut) else { return };
    match value.filter(|value| !value.is_null()) {
        Some(value) => {
            object.insert(field.to_owned(), value);
        }
        None => {
            object.shift_remove(field);
        }
    }
}

/// Makes a field what it was in `old`, absence included.
fn copy_field(new: &mut Value, old: &Value, pointer: &str, field: &str) {
    let value = old.pointer(pointer).and_then(|object| object.get(field)).cloned();
    put(new, pointer, field, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_behind_a_gate_is_created_with_a_condition() {
        let mut pod = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"schedulingGates": [{"name": "a"}]}, "status": {"phase": "Running", "qosClass": "Guaranteed"}});
        prepare_create(&mut pod);
        assert_eq!(pod["status"]["phase"], "Pending");
        assert_eq!(pod["status"]["qosClass"], "Guaranteed");
        assert_eq!(pod["status"]["conditions"][0]["reason"], "SchedulingGated");
        assert_eq!(pod["metadata"]["generation"], 1);
    }

    #[test]
    fn the_generation_counts_changes_of_the_spec() {
        let old = json!({"metadata": {"generation": 3}, "spec": {"nodeName": "a"}, "status": {"phase": "Running"}});
        let mut new = json!({"metadata": {}, "spec": {"nodeName": "b"}, "status": {}});
        prepare_update(&mut new, &old);
        assert_eq!(
            new,
            json!({"metadata": {"generation": 4}, "spec": {"nodeName": "b"}, "status": {"phase": "Running"}})
        );
        let mut status = json!({"metadata": {"generation": 3}, "spec": {}, "status": {"phase": "Failed"}});
        prepare_status(&mut status, &old);
        assert_eq!(status["spec"]["nodeName"], "a");
        assert_eq!(status["status"]["phase"], "Failed");
    }
}
