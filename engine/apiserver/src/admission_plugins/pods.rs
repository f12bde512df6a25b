//! The plugins for pods: LimitRanges, service accounts, priorities, tolerations.

use pillion_kinds::pod;
use pillion_store::Key;
use serde_json::Value;

use crate::attributes::{Attributes, Operation};
use crate::status::{Refusal, Result};
use crate::stored;

/// Whether these plugins look at the write at all.
pub(super) fn concerned(attributes: &Attributes<'_>) -> bool {
    attributes.call.endpoint.is("", "pods")
        && attributes.operation != Operation::Delete
        && matches!(attributes.subresource(), "" | "resize")
}

pub(super) fn mutate(attributes: &Attributes<'_>, pod: &mut Value, old: Option<&Value>) -> Result<()> {
    refuse_account_of_mirror(attributes, pod, old)?;
    if attributes.subresource() == "resize" {
        return Ok(());
    }
    if let Some(old) = old {
        pod::keep_priority(pod, old);
        pod::apply_default_tolerations(pod);
        return Ok(());
    }
    let ranges = limit_ranges(attributes)?;
    pod::apply_limit_ranges(pod, &ranges.iter().collect::<Vec<_>>());
    if let Some(name) = pod::service_account_name(pod).map(str::to_owned) {
        let account = service_account(attributes, pod, &name)?;
        pod::apply_service_account(pod, &account, &attributes.call.inner().suffix());
    }
    if let Some(name) = pod["spec"]["runtimeClassName"].as_str() {
        // Processes of one machine have no classes.
        let why = format!("pod rejected: RuntimeClass {name:?} not found");
        return Err(forbidden(attributes, pod, &why));
    }
    let class = priority_class(attributes, pod)?;
    pod::apply_priority(pod, class.as_ref()).map_err(|why| forbidden(attributes, pod, &why))?;
    pod::apply_default_tolerations(pod);
    Ok(())
}

pub(super) fn validate(attributes: &Attributes<'_>, pod: &Value) -> Result<()> {
    let resize = attributes.subresource() == "resize";
    if attributes.operation == Operation::Create || resize {
        let ranges = limit_ranges(attributes)?;
        let broken = pod::validate_limit_ranges(pod, &ranges.iter().collect::<Vec<_>>());
        match broken.as_slice() {
            [] => {}
            [one] => return Err(forbidden(attributes, pod, one)),
            several => return Err(forbidden(attributes, pod, &format!("[{}]", several.join(", ")))),
        }
    }
    if attributes.operation == Operation::Create
        && let Some(name) = pod::service_account_name(pod)
    {
        let account = service_account(attributes, pod, name)?;
        pod::validate_service_account(pod, &account).map_err(|why| forbidden(attributes, pod, &why))?;
    }
    Ok(())
}

/// A mirror pod shows a static pod of a kubelet, and may not use a service account.
fn refuse_account_of_mirror(attributes: &Attributes<'_>, pod: &Value, old: Option<&Value>) -> Result<()> {
    let mirror = pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string();
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    if old.is_none() && mirror && !account.is_empty() {
        return Err(forbidden(attributes, pod, "a mirror pod may not reference service accounts"));
    }
    Ok(())
}

fn forbidden(attributes: &Attributes<'_>, pod: &Value, why: &str) -> Box<Refusal> {
    Refusal::forbidden(&attributes.call.endpoint.group_resource(), attributes.object_name(pod), why)
}

fn limit_ranges(attributes: &Attributes<'_>) -> Result<Vec<Value>> {
    let snapshot = attributes.call.inner().store.list("limitranges", Some(attributes.call.namespace()));
    snapshot.iter().map(|(_, _, stored)| stored::parse(stored)).collect()
}

fn service_account(attributes: &Attributes<'_>, pod: &Value, name: &str) -> Result<Value> {
    let namespace = attributes.call.namespace();
    if let Some(stored) = attributes.call.inner().store.get(&Key::new("serviceaccounts", namespace, name)) {
        return stored::parse(&stored);
    }
    let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
    Err(forbidden(attributes, pod, &why))
}

/// The class that the pod names, or the default one.
fn priority_class(attributes: &Attributes<'_>, pod: &Value) -> Result<Option<Value>> {
    let store = &attributes.call.inner().store;
    let resource = "priorityclasses.scheduling.k8s.io";
    let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
    if !name.is_empty() {
        return store.get(&Key::new(resource, "", name)).map(|stored| stored::parse(&stored)).transpose();
    }
    let classes =
        store.list(resource, None).iter().map(|(_, _, stored)| stored::parse(stored)).collect::<Result<Vec<_>>>()?;
    Ok(pod::default_priority_class(&classes.iter().collect::<Vec<_>>()).cloned())
}
