//! The pods of a DaemonSet: bound to their node by its name, and tolerant of its troubles.

use serde_json::{Value, json};

use crate::kinds::DaemonSet;
use crate::pod_control::from_template;
use crate::write::controller_reference;

pub(super) const REVISION: &str = "controller-revision-hash";
const TEMPLATE_GENERATION: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn pod(set: &DaemonSet, hash: &str, node: &str) -> Value {
    let mut pod = from_template(&set.spec.template, &controller_reference(set));
    if let Some(generation) = template_generation(set) {
        pod["metadata"]["labels"][TEMPLATE_GENERATION] = generation.to_string().into();
    }
    pod["metadata"]["labels"][REVISION] = hash.into();
    pod["spec"]["tolerations"] = tolerations(&set.spec.template["spec"]).into();
    let name = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [name]}]});
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = required;
    pod
}

/// The number of the template that older clients read.
pub(super) fn template_generation(set: &DaemonSet) -> Option<i64> {
    set.metadata.annotations.as_ref()?.get(GENERATION_ANNOTATION)?.parse().ok()
}

/// Whether a pod was made of the newest template.
pub(super) fn is_updated(labels: &std::collections::BTreeMap<String, String>, set: &DaemonSet, hash: &str) -> bool {
    let generation = template_generation(set).map(|generation| generation.to_string());
    let is = |key: &str, value: &str| labels.get(key).is_some_and(|label| label == value);
    !hash.is_empty() && is(REVISION, hash) || generation.is_some_and(|generation| is(TEMPLATE_GENERATION, &generation))
}

/// The template's tolerations, and those of what a daemon has to live with.
pub(super) fn tolerations(spec: &Value) -> Vec<Value> {
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let mut troubles = vec![
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if spec["hostNetwork"] == true {
        troubles.push(("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    for (key, effect) in troubles {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |other: &Value| {
            ["key", "operator", "effect", "value"].iter().all(|field| other[field] == toleration[field])
        };
        // One for the same taint is replaced; it may end sooner than this one, which never does.
        match tolerations.iter_mut().find(|other| is_same(other)) {
            Some(same) => *same = toleration,
            None => tolerations.push(toleration),
        }
    }
    tolerations
}
