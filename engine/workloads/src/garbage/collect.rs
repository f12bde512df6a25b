//! Carries out what is planned for an object.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use pillion_events::reference_to;
use serde_json::{Value, json};

use super::Collector;
use super::graph::{FOREGROUND, ORPHAN, Object};
use super::plan::{self, Action, Owner};
use super::resources::Served;
use crate::error::Error;
use crate::write;

/// Lets an object go if it should, or finish going if it can.
pub(super) async fn delete(collector: &Collector, uid: &str) -> Result<(), Error> {
    let Some(object) = collector.graph().get(uid).cloned() else { return Ok(()) };
    if object.just_goes() {
        return Ok(());
    }
    let api = object.served.api(&collector.client, object.namespace.as_deref());
    let Some(latest) = latest(&api, &object).await? else {
        collector.forget(uid);
        return Ok(());
    };
    if object.deletes_dependents() {
        let blocking = plan::blocking(&collector.graph(), uid);
        if blocking.is_empty() {
            return remove_finalizer(&api, &latest, FOREGROUND).await;
        }
        collector.enqueue(unfinished(collector, blocking));
        return Ok(());
    }
    let mut owners = Vec::new();
    for reference in latest.owner_references.iter().flatten() {
        match owner(collector, &object, reference).await? {
            Some(owner) => owners.push(owner),
            None => return Ok(()),
        }
    }
    let action = plan::plan(&collector.graph(), uid, &latest, &owners);
    match action {
        Action::Nothing => Ok(()),
        Action::KeepOwners(kept) => change(&api, &latest, json!({"ownerReferences": kept})).await,
        Action::Delete { how, unblock } => {
            if unblock {
                let mut references = latest.owner_references.clone().unwrap_or_default();
                for reference in &mut references {
                    reference.block_owner_deletion = Some(false);
                }
                change(&api, &latest, json!({"ownerReferences": references})).await?;
            }
            let resource_version = latest.resource_version.clone().filter(|_| !unblock);
            let preconditions = Preconditions { uid: latest.uid.clone(), resource_version };
            let how = DeleteParams {
                propagation_policy: Some(how),
                preconditions: Some(preconditions),
                ..DeleteParams::default()
            };
            Ok(write::unless_gone(api.delete(&object.name, &how).await)?)
        }
    }
}

/// The dependents that have to be looked at; those that wait for their own are looked at when these are gone.
fn unfinished(collector: &Collector, blocking: Vec<super::Work>) -> Vec<super::Work> {
    let graph = collector.graph();
    let waits = |work: &super::Work| match work {
        super::Work::Delete(uid) => {
            graph.get(uid).is_some_and(|object| object.deletes_dependents() || object.just_goes())
        }
        super::Work::Orphan(_) => false,
    };
    blocking.into_iter().filter(|work| !waits(work)).collect()
}

/// Makes the dependents of an object forget it, and lets it go.
pub(super) async fn orphan(collector: &Collector, uid: &str) -> Result<(), Error> {
    let (object, dependents) = {
        let graph = collector.graph();
        let Some(object) = graph.get(uid).cloned() else { return Ok(()) };
        let dependents: Vec<Object> = graph.dependents(uid).cloned().collect();
        (object, dependents)
    };
    for dependent in &dependents {
        let api = dependent.served.api(&collector.client, dependent.namespace.as_deref());
        if let Some(latest) = latest(&api, dependent).await? {
            let mut references = latest.owner_references.clone().unwrap_or_default();
            references.retain(|reference| reference.uid != uid);
            change(&api, &latest, json!({"ownerReferences": references})).await?;
        }
    }
    let api = object.served.api(&collector.client, object.namespace.as_deref());
    match latest(&api, &object).await? {
        Some(latest) => remove_finalizer(&api, &latest, ORPHAN).await,
        None => Ok(()),
    }
}

/// The object as the API server has it, if it is still the same.
async fn latest(api: &Api<DynamicObject>, object: &Object) -> Result<Option<ObjectMeta>, Error> {
    let found = api.get_metadata_opt(&object.name).await?;
    Ok(found.map(|found| found.metadata).filter(|metadata| metadata.uid.as_deref() == Some(&object.uid)))
}

/// How an owner is. `None` if it cannot be known, and the object is left alone.
async fn owner(collector: &Collector, object: &Object, reference: &OwnerReference) -> Result<Option<Owner>, Error> {
    let (known, gone, elsewhere) = {
        let graph = collector.graph();
        let known = graph.owner_of(object, reference).map(Object::deletes_dependents);
        (known, graph.is_gone(&reference.uid), known.is_none() && graph.get(&reference.uid).is_some())
    };
    if let Some(waiting) = known {
        return Ok(Some(if waiting { Owner::Waiting } else { Owner::Solid }));
    }
    if gone {
        return Ok(Some(Owner::Absent));
    }
    if elsewhere {
        warn(collector, object, reference);
    }
    let Some(served) = kind_of(collector, reference) else {
        return Err(Error::Object(format!("no kind {} in {} is served", reference.kind, reference.api_version)));
    };
    // An object of the cluster cannot be owned by one of a namespace.
    if served.namespaced && object.namespace.is_none() {
        return Ok(None);
    }
    let found = served.api(&collector.client, object.namespace.as_deref()).get_metadata_opt(&reference.name).await?;
    let Some(found) = found.filter(|found| found.metadata.uid.as_deref() == Some(&reference.uid)) else {
        // One that lives elsewhere is absent here only.
        if !elsewhere {
            collector.graph().remember_gone(&reference.uid);
        }
        return Ok(Some(Owner::Absent));
    };
    let waiting = Object::new(&served, &found.metadata).deletes_dependents();
    Ok(Some(if waiting { Owner::Waiting } else { Owner::Solid }))
}

fn kind_of(collector: &Collector, reference: &OwnerReference) -> Option<Arc<Served>> {
    let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
    let served = collector.served();
    served.iter().find(|served| served.resource.group == group && served.resource.kind == reference.kind).cloned()
}

fn warn(collector: &Collector, object: &Object, reference: &OwnerReference) {
    let resource = &object.served.resource;
    let place = object.namespace.as_deref();
    let about = reference_to(&resource.api_version, &resource.kind, place, &object.name, Some(&object.uid));
    let namespace = place.unwrap_or_default();
    let owner = format!(
        "{}/{}, namespace: {namespace}, name: {}, uid: {}",
        reference.api_version, reference.kind, reference.name, reference.uid
    );
    let message = format!("ownerRef [{owner}] does not exist in namespace {namespace:?}");
    collector.recorder.warning(&about, "OwnerRefInvalidNamespace", message);
}

async fn remove_finalizer(api: &Api<DynamicObject>, latest: &ObjectMeta, name: &str) -> Result<(), Error> {
    let mut finalizers = latest.finalizers.clone().unwrap_or_default();
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != name);
    if finalizers.len() == before {
        return Ok(());
    }
    change(api, latest, json!({"finalizers": finalizers})).await
}

/// Changes metadata, if nobody else has changed the object.
async fn change(api: &Api<DynamicObject>, latest: &ObjectMeta, mut metadata: Value) -> Result<(), Error> {
    metadata["uid"] = json!(latest.uid);
    metadata["resourceVersion"] = json!(latest.resource_version);
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let name = latest.name.as_deref().unwrap_or_default();
    Ok(write::unless_gone(api.patch_metadata(name, &PatchParams::default(), &patch).await)?)
}
