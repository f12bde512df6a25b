//! The admission plugins that are built in: namespace lifecycle, pods, and the taint of a new node.

use pillion_store::Key;
use serde_json::Value;

use crate::attributes::{Attributes, Operation};
use crate::status::{GroupResource, Refusal, Result};
use crate::{meta, stored};

mod pods;

/// Plugins that may change the object. `object` is `Null` for a deletion.
pub(crate) fn mutate(attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
    namespace_lifecycle(attributes, object)?;
    if pods::concerned(attributes) {
        pods::mutate(attributes, object, old)?;
    }
    taint_new_node(attributes, object);
    Ok(())
}

/// Runs them again after a webhook has changed the object.
pub(crate) fn reinvoke(attributes: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
    if pods::concerned(attributes) {
        pods::mutate(attributes, object, old)?;
    }
    Ok(())
}

/// Plugins that only accept or refuse, when the object is complete.
pub(crate) fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<()> {
    match object {
        Some(object) if pods::concerned(attributes) => pods::validate(attributes, object),
        _ => Ok(()),
    }
}

/// A node is not ready before it says so.
fn taint_new_node(attributes: &Attributes<'_>, node: &mut Value) {
    if attributes.operation != Operation::Create || !attributes.call.endpoint.is("", "nodes") {
        return;
    }
    let taints = &mut node["spec"]["taints"];
    if !taints.is_array() {
        *taints = Value::Array(Vec::new());
    }
    let Value::Array(taints) = taints else { return };
    let taint = serde_json::json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    if !taints.iter().any(|there| there["key"] == taint["key"] && there["effect"] == taint["effect"]) {
        taints.push(taint);
    }
}

/// Refuses new objects in a namespace that is missing or terminating, and the deletion of namespaces that every cluster has.
fn namespace_lifecycle(attributes: &Attributes<'_>, object: &Value) -> Result<()> {
    let call = attributes.call;
    let namespaces = GroupResource::new("", "namespaces");
    if call.endpoint.is("", "namespaces") {
        let is_immortal = matches!(attributes.name.as_str(), "default" | "kube-system" | "kube-public");
        if attributes.operation == Operation::Delete && is_immortal {
            return Err(Refusal::forbidden(&namespaces, &attributes.name, "this namespace may not be deleted"));
        }
        return Ok(());
    }
    if attributes.operation != Operation::Create || !call.endpoint.namespaced() {
        return Ok(());
    }
    let name = call.namespace();
    // Asking whether something is allowed is allowed anywhere.
    if call.endpoint.is("authorization.k8s.io", "localsubjectaccessreviews") {
        return Ok(());
    }
    let Some(stored) = call.inner().store.get(&Key::new("namespaces", "", name)) else {
        return Err(Refusal::not_found(&namespaces, name));
    };
    let namespace = stored::parse(&stored)?;
    if !meta::is_deleting(&namespace) && namespace["status"]["phase"] != "Terminating" {
        return Ok(());
    }
    let mut refusal = Refusal::forbidden(
        &call.endpoint.group_resource(),
        attributes.object_name(object),
        &format!("unable to create new content in namespace {name} because it is being terminated"),
    );
    refusal.details["causes"] = serde_json::json!([{
        "reason": "NamespaceTerminating",
        "message": format!("namespace {name} is being terminated"),
        "field": "metadata.namespace",
    }]);
    Err(refusal)
}
