//! What becomes of an object, by the state of its owners and dependents.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PropagationPolicy;

use super::graph::{FOREGROUND, Graph, ORPHAN, Object, Work};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// It is there to stay, or goes without regard to dependents.
    Solid,
    /// It does not exist.
    Absent,
    /// It waits for its dependents to go.
    Waiting,
}

/// What is to be done.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    Nothing,
    /// It keeps only these owners.
    KeepOwners(Vec<OwnerReference>),
    /// It goes; before, it stops blocking its owners if it would wait for itself.
    Delete {
        how: PropagationPolicy,
        unblock: bool,
    },
}

/// What becomes of an object whose owners are like this, in the order of its owner references.
pub(super) fn plan(graph: &Graph, uid: &str, latest: &ObjectMeta, owners: &[Owner]) -> Action {
    let references = latest.owner_references.as_deref().unwrap_or_default();
    if references.is_empty() {
        return Action::Nothing;
    }
    let of = |state: Owner| owners.contains(&state);
    if of(Owner::Solid) {
        if !of(Owner::Absent) && !of(Owner::Waiting) {
            return Action::Nothing;
        }
        let solid = references.iter().zip(owners).filter(|(_, owner)| **owner == Owner::Solid);
        return Action::KeepOwners(solid.map(|(reference, _)| reference.clone()).collect());
    }
    if of(Owner::Waiting) && graph.dependents(uid).next().is_some() {
        // Its own dependents go first, as its owner wants; but a circle must not wait for itself.
        let circle = graph.dependents(uid).any(Object::deletes_dependents);
        return Action::Delete { how: PropagationPolicy::Foreground, unblock: circle };
    }
    let has = |name: &str| latest.finalizers.iter().flatten().any(|finalizer| finalizer == name);
    let how = if has(ORPHAN) {
        PropagationPolicy::Orphan
    } else if has(FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    Action::Delete { how, unblock: false }
}

/// What an object that waits for its dependents has to wait for still.
pub(super) fn blocking(graph: &Graph, uid: &str) -> Vec<Work> {
    let blocks = |dependent: &&Object| {
        dependent.owners.iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
    };
    graph.dependents(uid).filter(blocks).map(|dependent| Work::Delete(dependent.uid.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::api::ApiResource;
    use kube::core::GroupVersionKind;
    use serde_json::{Value, json};

    use super::*;
    use crate::garbage::resources::Served;

    fn object(uid: &str, owners: &[&str], more: Value) -> Object {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Thing"));
        let served = Arc::new(Served { resource, namespaced: true, deletes_collections: true });
        Object::new(&served, &metadata(uid, owners, more))
    }

    fn metadata(uid: &str, owners: &[&str], more: Value) -> ObjectMeta {
        let owner = |uid: &&str| json!({"apiVersion": "v1", "kind": "Thing", "name": uid, "uid": uid, "blockOwnerDeletion": true});
        let owners: Vec<Value> = owners.iter().map(owner).collect();
        let mut metadata = json!({"uid": uid, "name": uid, "namespace": "default", "ownerReferences": owners});
        for (field, value) in more.as_object().unwrap() {
            metadata[field] = value.clone();
        }
        serde_json::from_value(metadata).unwrap()
    }

    fn going(finalizers: &[&str]) -> Value {
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers})
    }

    fn delete(uid: &str) -> Work {
        Work::Delete(uid.to_owned())
    }

    #[test]
    fn dependents_are_looked_at_when_their_owner_is_gone_or_waits_for_them() {
        let mut graph = Graph::default();
        assert_eq!(graph.observe(object("owner", &[], json!({}))), []);
        assert_eq!(graph.observe(object("child", &["owner"], json!({}))), []);
        assert_eq!(graph.observe(object("stray", &["unknown"], json!({}))), [delete("stray")]);
        assert_eq!(graph.observe(object("owner", &[], going(&[FOREGROUND]))), [delete("child"), delete("owner")]);
        assert_eq!(blocking(&graph, "owner"), [delete("child")]);
        assert_eq!(graph.forget("child"), [delete("owner")]);
        assert_eq!(blocking(&graph, "owner"), []);
        graph.observe(object("late", &["owner"], json!({})));
        assert_eq!(graph.forget("owner"), [delete("late")]);
        assert!(graph.is_gone("owner"));
    }

    #[test]
    fn an_owner_that_orphans_is_looked_at_once() {
        let mut graph = Graph::default();
        let orphaning = || object("owner", &[], going(&[ORPHAN]));
        assert_eq!(graph.observe(orphaning()), [Work::Orphan("owner".to_owned())]);
        assert_eq!(graph.observe(orphaning()), []);
    }

    #[test]
    fn an_object_goes_when_no_owner_is_left() {
        use Owner::{Absent, Solid, Waiting};
        let background = Action::Delete { how: PropagationPolicy::Background, unblock: false };
        let foreground = Action::Delete { how: PropagationPolicy::Foreground, unblock: false };
        let mut graph = Graph::default();
        graph.observe(object("parent", &["a"], json!({})));
        graph.observe(object("grandchild", &["parent"], json!({})));
        let keep_b = Action::KeepOwners(metadata("x", &["b"], json!({})).owner_references.unwrap());
        for (uid, owners, states, action) in [
            ("x", vec![], vec![], Action::Nothing),
            ("x", vec!["a"], vec![Solid], Action::Nothing),
            ("x", vec!["a"], vec![Absent], background),
            ("x", vec!["a", "b"], vec![Absent, Solid], keep_b),
            ("x", vec!["a"], vec![Waiting], Action::Delete { how: PropagationPolicy::Background, unblock: false }),
            ("parent", vec!["a"], vec![Waiting], foreground),
        ] {
            assert_eq!(plan(&graph, uid, &metadata(uid, &owners, json!({})), &states), action, "{uid} {states:?}");
        }
        let orphaning = metadata("x", &["a"], json!({"finalizers": [ORPHAN]}));
        assert_eq!(
            plan(&graph, "x", &orphaning, &[Absent]),
            Action::Delete { how: PropagationPolicy::Orphan, unblock: false }
        );
    }

    #[test]
    fn a_circle_does_not_wait_for_itself() {
        let mut graph = Graph::default();
        graph.observe(object("one", &["two"], going(&[FOREGROUND])));
        graph.observe(object("two", &["one"], json!({})));
        let action = plan(&graph, "two", &metadata("two", &["one"], json!({})), &[Owner::Waiting]);
        assert_eq!(action, Action::Delete { how: PropagationPolicy::Foreground, unblock: true });
    }
}
