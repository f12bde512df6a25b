//! A ReplicaSet of a Deployment, as a plan changes it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use kube::ResourceExt as _;
use serde_json::Value;

use super::annotations::Annotations;
use crate::kinds::ReplicaSet;

/// The label that distinguishes the pods of one ReplicaSet from those of another.
pub(super) const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// A ReplicaSet as it is to be. One without an origin is still to be created.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) name: String,
    pub(super) replicas: i32,
    pub(super) min_ready_seconds: i32,
    pub(super) annotations: Annotations,
    pub(super) status: ReplicaSetStatus,
    pub(super) origin: Option<Arc<ReplicaSet>>,
}

impl Set {
    pub(super) fn of(set: &Arc<ReplicaSet>) -> Set {
        Set {
            name: set.name_any(),
            replicas: set.spec.replicas.unwrap_or(1),
            min_ready_seconds: set.spec.min_ready_seconds,
            annotations: set.annotations().clone(),
            status: set.status.clone(),
            origin: Some(Arc::clone(set)),
        }
    }

    /// By age, then by name. One that is still to be created is the youngest.
    pub(super) fn age(&self) -> (bool, Option<Timestamp>, &str) {
        let created = self.origin.as_ref().and_then(|set| set.metadata.creation_timestamp.as_ref());
        (self.origin.is_none(), created.map(|time| time.0), &self.name)
    }

    pub(super) fn is_active(&self) -> bool {
        self.replicas > 0
    }

    pub(super) fn available(&self) -> i32 {
        self.status.available_replicas.unwrap_or(0)
    }

    pub(super) fn failure(&self) -> Option<&ReplicaSetCondition> {
        self.status.conditions.iter().flatten().find(|condition| condition.type_ == "ReplicaFailure")
    }

    /// Whether nothing is left of it but history.
    pub(super) fn is_spent(&self) -> bool {
        let observed =
            |set: &Arc<ReplicaSet>| set.metadata.generation.unwrap_or(0) <= set.status.observed_generation.unwrap_or(0);
        self.status.replicas == 0
            && self.replicas == 0
            && self.origin.as_ref().is_some_and(observed)
            && !self.is_going()
    }

    pub(super) fn is_going(&self) -> bool {
        self.origin.as_ref().is_some_and(|set| set.metadata.deletion_timestamp.is_some())
    }
}

/// Whether two templates make the same pods. The hash is a label of the ReplicaSet alone.
pub(super) fn same_template(one: &Value, other: &Value) -> bool {
    let fields = |template: &Value| match template {
        Value::Object(fields) => fields.keys().cloned().collect::<std::collections::BTreeSet<_>>(),
        _ => std::collections::BTreeSet::new(),
    };
    let mut all = fields(one);
    all.extend(fields(other));
    all.into_iter().all(|field| match field.as_str() {
        "metadata" => same_metadata(&one[&field], &other[&field]),
        _ => one[&field] == other[&field],
    })
}

fn same_metadata(one: &Value, other: &Value) -> bool {
    without_hash(one) == without_hash(other)
}

fn without_hash(metadata: &Value) -> Value {
    let mut metadata = metadata.clone();
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.shift_remove(POD_TEMPLATE_HASH);
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn templates_are_the_same_but_for_the_hash() {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web"}]}});
        let mut hashed = template.clone();
        hashed["metadata"]["labels"][POD_TEMPLATE_HASH] = "7d4b".into();
        assert!(same_template(&template, &hashed));
        let mut other = hashed.clone();
        other["spec"]["containers"][0]["image"] = "new".into();
        assert!(!same_template(&template, &other));
        other = hashed;
        other["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "now"});
        assert!(!same_template(&template, &other));
    }
}
