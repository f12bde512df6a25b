//! `containers[].sidecar` (KEP-0008): the one field of the embedded pod schema that Kubernetes does not have. It is behind the gate `SidecarField`.

use serde_json::Value;

use super::read::{CONTAINER_LISTS, list, text};

pub const SIDECAR_FIELD: &str = "sidecar";

/// Where objects of a resource have the spec of pods, as a JSON pointer.
fn pod_spec_of(plural: &str) -> Option<&'static str> {
    match plural {
        "pods" => Some("/spec"),
        "podtemplates" => Some("/template/spec"),
        "cronjobs" => Some("/spec/jobTemplate/spec/template/spec"),
        "jobs" | "deployments" | "replicasets" | "statefulsets" | "daemonsets" | "replicationcontrollers" => {
            Some("/spec/template/spec")
        }
        _ => None,
    }
}

/// Drops the field where the gate is off, unless the stored object has it. Returns a warning for the client if something was dropped.
///
/// ```
/// use pillion_rules::pod::drop_sidecar_field;
/// let mut pod = serde_json::json!({"spec": {"containers": [{"name": "main"}, {"name": "proxy", "sidecar": true}]}});
/// let stored = pod.clone();
/// assert_eq!(drop_sidecar_field("pods", &mut pod, Some(&stored)), None);
/// assert!(drop_sidecar_field("pods", &mut pod, None).is_some());
/// assert!(pod["spec"]["containers"][1].get("sidecar").is_none());
/// ```
pub fn drop_sidecar_field(plural: &str, object: &mut Value, old: Option<&Value>) -> Option<String> {
    let place = pod_spec_of(plural)?;
    let has_field = |spec: &Value| containers(spec).any(|container| container.get(SIDECAR_FIELD).is_some());
    if old.and_then(|old| old.pointer(place)).is_some_and(has_field) {
        return None;
    }
    let spec = object.pointer_mut(place)?;
    let marked: Vec<String> = containers(spec)
        .filter(|container| container[SIDECAR_FIELD] == true)
        .map(|container| format!("{:?}", text(container, "name")))
        .collect();
    for field in CONTAINER_LISTS {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.shift_remove(SIDECAR_FIELD);
            }
        }
    }
    (!marked.is_empty()).then(|| {
        let path = place.trim_start_matches('/').replace('/', ".");
        let marked = marked.join(", ");
        format!(
            "{path}.containers[].sidecar: dropped from {marked}, because the feature gate SidecarField is off; the pod ends only when these containers end by themselves"
        )
    })
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|field| list(spec, field))
}

/// Why marks of sidecars have no effect, if that is so: a container that does the work is always restarted, by its own restart policy or by the
/// pod's. `work` are the names of these containers, each with its own restart policy or an empty text.
pub fn endless_work<'c>(mut work: impl Iterator<Item = (&'c str, &'c str)>, policy: &str) -> Option<String> {
    work.find_map(|(name, own)| match own {
        "Always" => Some(format!(
            "has no effect: container {name:?} has restartPolicy Always, so the work of the pod is never done"
        )),
        "" if policy == "Always" => {
            Some("has no effect in a pod with restartPolicy Always, whose work is never done".to_owned())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_field_stays_in_objects_that_have_it_and_is_dropped_from_others() {
        let template = json!({"spec": {"containers": [{"name": "main"}, {"name": "proxy", "sidecar": true}]}});
        let places = [
            ("jobs", json!({"spec": {"template": template}})),
            ("cronjobs", json!({"spec": {"jobTemplate": {"spec": {"template": template}}}})),
            ("podtemplates", json!({"template": template})),
        ];
        for (plural, object) in places {
            let mut updated = object.clone();
            assert_eq!(drop_sidecar_field(plural, &mut updated, Some(&object)), None);
            assert_eq!(updated, object);
            let warning = drop_sidecar_field(plural, &mut updated, Some(&json!({}))).unwrap();
            assert!(warning.contains("dropped from \"proxy\""), "{warning}");
            assert!(!updated.to_string().contains("sidecar"), "{updated}");
            assert_eq!(drop_sidecar_field(plural, &mut updated, None), None);
        }
        assert_eq!(drop_sidecar_field("services", &mut json!({}), None), None);
    }
}
