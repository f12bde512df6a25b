//! Which nodes a DaemonSet runs on.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt as _;
use serde_json::json;

use super::template;
use crate::kinds::DaemonSet;
use crate::pod::PodView;
use crate::scheduler::node_affinity::Wanted;
use crate::scheduler::taints::tolerates;

/// Whether a pod should be on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Yes.
    Run,
    /// One that is there may stay.
    Keep,
    /// No, not even one that is there.
    Never,
}

/// What a template asks of nodes.
pub(super) struct Eligibility {
    node_name: Option<String>,
    wanted: Wanted,
    pod: PodView,
}

impl Eligibility {
    pub(super) fn of(set: &DaemonSet) -> Eligibility {
        let mut spec = set.spec.template["spec"].clone();
        spec["tolerations"] = template::tolerations(&spec).into();
        // What cannot be read was not checked by anybody, and asks for nothing.
        let pod: PodView = serde_json::from_value(json!({"spec": spec})).unwrap_or_default();
        Eligibility {
            node_name: pod.spec.node_name.clone().filter(|name| !name.is_empty()),
            wanted: Wanted::of(&pod),
            pod,
        }
    }

    pub(super) fn place(&self, node: &Node) -> Place {
        let is_other = self.node_name.as_ref().is_some_and(|name| *name != node.name_any());
        if is_other || !self.wanted.matches(node) {
            return Place::Never;
        }
        let repels = |effect: &str| {
            let of_effect = taints(node).iter().filter(|taint| taint.effect == effect);
            of_effect.into_iter().any(|taint| !tolerates(&self.pod.spec.tolerations, taint))
        };
        if repels("NoExecute") {
            Place::Never
        } else if repels("NoSchedule") {
            Place::Keep
        } else {
            Place::Run
        }
    }
}

pub(super) fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// The node that a pod is on, or is meant for.
pub(super) fn of_pod(pod: &PodView) -> Option<String> {
    if let Some(node) = pod.spec.node_name.as_deref().filter(|node| !node.is_empty()) {
        return Some(node.to_owned());
    }
    let affinity = pod.spec.affinity.as_ref()?;
    let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let fields = terms.as_array()?.iter().flat_map(|term| term["matchFields"].as_array().into_iter().flatten());
    let named = fields.into_iter().find(|field| field["key"] == "metadata.name" && field["operator"] == "In")?;
    match named["values"].as_array()?.as_slice() {
        [only] => only.as_str().map(ToOwned::to_owned),
        _ => None,
    }
}
