//! JSON patches (RFC 6902) for the resources and the annotations of a pod.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::amount::RESOURCES;
use crate::pod::{Amounts, PodView};
use crate::target::ContainerTarget;

/// Sets the resources of containers: the objects that the spec does not have first, then each value. The same patch is for a
/// new pod and for the subresource `resize`.
pub fn resource_patch(pod: &PodView, targets: &[ContainerTarget]) -> Vec<Value> {
    let mut patch = Vec::new();
    for target in targets.iter().filter(|target| !target.is_empty()) {
        let Some(container) = pod.containers.iter().find(|container| container.name == target.container) else {
            continue;
        };
        let path = format!("/spec/{}/{}/resources", container.kind.list(), container.index);
        let spec = &container.spec;
        if spec.requests.is_none() && spec.limits.is_none() {
            patch.push(add(&path, json!({})));
        }
        let lists: [(&str, Option<Amounts>, Amounts); 2] =
            [("requests", spec.requests, target.requests), ("limits", spec.limits, target.limits)];
        for (list, current, amounts) in lists {
            if current.is_none() && !amounts.is_empty() {
                patch.push(add(&format!("{path}/{list}"), json!({})));
            }
            for resource in RESOURCES {
                if let Some(amount) = amounts.get(resource) {
                    patch.push(add(&format!("{path}/{list}/{resource}"), json!(amount.to_string())));
                }
            }
        }
    }
    patch
}

/// Sets annotations of a pod that has some, or has none.
pub fn annotation_patch(annotations: &BTreeMap<String, String>, has_annotations: bool) -> Vec<Value> {
    let first = (!has_annotations && !annotations.is_empty()).then(|| add("/metadata/annotations", json!({})));
    let set =
        annotations.iter().map(|(key, value)| add(&format!("/metadata/annotations/{}", escape(key)), json!(value)));
    first.into_iter().chain(set).collect()
}

/// Removes annotations that a pod has.
pub fn annotation_removal_patch(keys: &[String]) -> Vec<Value> {
    let remove = |key: &String| json!({"op": "remove", "path": format!("/metadata/annotations/{}", escape(key))});
    keys.iter().map(remove).collect()
}

fn add(path: &str, value: Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

/// A segment of a JSON pointer.
fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of upstream's `pkg/admission-controller/resource/pod/patch/util_test.go`.
    #[test]
    fn segments_of_a_pointer_are_escaped() {
        assert_eq!(escape("nvidia.com/gpu"), "nvidia.com~1gpu");
        assert_eq!(escape("custom~domain.com/resource/name"), "custom~0domain.com~1resource~1name");
    }
}
