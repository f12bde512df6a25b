//! `pods/binding`: the scheduler's word on which node a pod goes to.

use axum::http::StatusCode;
use axum::response::Response;
use pillion_rules::field;
use pillion_store::{Write, WriteError};
use serde_json::{Value, json};

use crate::admission;
use crate::attributes::{Attributes, Operation};
use crate::call::Call;
use crate::query::{Verb, WriteOptions};
use crate::status::{GroupResource, Refusal, Result, aggregate};
use crate::{body, create, kinds, meta, respond, storage, stored};

pub(crate) async fn create(call: &Call<'_>) -> Result<Response> {
    let options = WriteOptions::decode(&call.query, Verb::Create)?;
    let mut binding = body::document(call, "Binding", "v1", "io.k8s.api.core.v1.Binding", options.field_validation)?;
    create::ensure_namespace(call, &mut binding)?;
    let attributes = Attributes::new(call, Operation::Create, options.dry_run, &options.shown, "CreateOptions")
        .of_kind("", "v1", "Binding");
    admission::mutate(&attributes, &mut binding, None).await?;
    // The old way to bind names the pod in the body alone.
    let name = call.path.name.clone().unwrap_or_else(|| meta::name(&binding).to_owned());
    if name != meta::name(&binding) {
        return Err(Refusal::bad_request("name in URL does not match name in Binding object"));
    }
    check(&binding)?;
    admission::validate(&attributes, Some(&binding), None).await?;
    assign(call, &name, &binding, options.dry_run).await?;
    respond::object(
        call,
        StatusCode::CREATED,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}

fn check(binding: &Value) -> Result<()> {
    let target = field::Path::new("target");
    let mut errors = Vec::new();
    match binding["target"]["kind"].as_str().unwrap_or_default() {
        "" | "Node" => {}
        other => errors.push(field::Error::not_supported(&target.child("kind"), other, &["Node", "<empty>"])),
    }
    if binding["target"]["name"].as_str().unwrap_or_default().is_empty() {
        errors.push(field::Error::required(&target.child("name"), ""));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "", aggregate(&errors), Value::Null))
}

async fn assign(call: &Call<'_>, name: &str, binding: &Value, dry_run: bool) -> Result<()> {
    let pods = GroupResource::new("", "pods");
    let Some(resource) = kinds::find("", "v1", "pods") else { return Err(Refusal::not_found(&pods, name)) };
    let endpoint = crate::endpoint::Endpoint::Builtin(resource);
    let key = pillion_store::Key::new("pods", call.namespace(), name);
    loop {
        let stored = call.inner().store.get(&key).ok_or_else(|| Refusal::not_found(&pods, name))?;
        let mut pod = stored::parse(&stored)?;
        preconditions(binding, &pod, &storage::registry_key(&key), name)?;
        bind(call, &mut pod, binding, name)?;
        if dry_run {
            return Ok(());
        }
        let object = storage::to_storage(call.inner(), &endpoint, pod).await?;
        let write = Write::Update { key: key.clone(), expected: stored.resource_version, object };
        match call.inner().store.write(write).await {
            Ok(_) => return Ok(()),
            Err(WriteError::Conflict { .. } | WriteError::NotFound) => {}
            Err(error) => return Err(storage::not_written(&error)),
        }
    }
}

fn preconditions(binding: &Value, pod: &Value, key: &str, name: &str) -> Result<()> {
    for (what, wanted, is) in [
        ("UID", meta::uid(binding), meta::uid(pod)),
        ("ResourceVersion", meta::text(binding, "resourceVersion"), meta::text(pod, "resourceVersion")),
    ] {
        if !wanted.is_empty() && wanted != is {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {is}"
            );
            return Err(Refusal::conflict(&GroupResource::new("", "pods"), name, &why));
        }
    }
    Ok(())
}

fn bind(call: &Call<'_>, pod: &mut Value, binding: &Value, name: &str) -> Result<()> {
    let conflict = |why: String| Refusal::conflict(&GroupResource::new("", "pods/binding"), name, &why);
    if meta::is_deleting(pod) {
        return Err(conflict(format!("pod {name} is being deleted, cannot be assigned to a host")));
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if !node.is_empty() {
        return Err(conflict(format!("pod {name} is already assigned to node {node:?}")));
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(conflict(format!("pod {name} has non-empty .spec.schedulingGates")));
    }
    pod["spec"]["nodeName"] = binding["target"]["name"].clone();
    if let Value::Object(status) = &mut pod["status"] {
        status.shift_remove("nominatedNodeName");
    }
    for part in ["annotations", "labels"] {
        for (key, value) in binding["metadata"][part].as_object().into_iter().flatten() {
            let slot = meta::metadata(pod).entry(part).or_insert_with(|| json!({}));
            slot[key] = value.clone();
        }
    }
    set_condition(call, pod, &json!({"type": "PodScheduled", "status": "True"}));
    Ok(())
}

/// Writes a condition; its time moves only when its status does.
pub(super) fn set_condition(call: &Call<'_>, pod: &mut Value, condition: &Value) {
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    let now = meta::time(call.now());
    let old = conditions.iter().position(|old| old["type"] == condition["type"]);
    let same_status = old.and_then(|index| conditions.get(index)).filter(|old| old["status"] == condition["status"]);
    let transition = same_status.map_or_else(|| now.into(), |old| old["lastTransitionTime"].clone());
    let mut new = json!({"type": condition["type"]});
    new["status"] = condition["status"].clone();
    new["lastProbeTime"] = Value::Null;
    new["lastTransitionTime"] = transition;
    for key in ["reason", "message"] {
        if let Some(value) = condition.get(key) {
            new[key] = value.clone();
        }
    }
    match old.and_then(|index| conditions.get_mut(index)) {
        Some(slot) => *slot = new,
        None => conditions.push(new),
    }
}
