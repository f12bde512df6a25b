//! What kube-apiserver itself does about CustomResourceDefinitions: accepting their names, and cleaning up after them.

use std::sync::Arc;

use pillion_store::{Event, Key, Write, WriteError};
use serde_json::{Map, Value, json};

use crate::custom::{DEFINITIONS, condition};
use crate::endpoint::Endpoint;
use crate::state::Inner;
use crate::status::Result;
use crate::{meta, storage, stored};

const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn set_condition(inner: &Inner, definition: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let now = meta::time(inner.clock.now());
    let conditions = &mut definition["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    let old = conditions.iter().position(|condition| condition["type"] == kind);
    let unmoved = old.and_then(|index| conditions.get(index)).filter(|condition| condition["status"] == status);
    let since = unmoved.map_or_else(|| Value::from(now), |condition| condition["lastTransitionTime"].clone());
    let new =
        json!({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message});
    match old.and_then(|index| conditions.get_mut(index)) {
        Some(slot) => *slot = new,
        None => conditions.push(new),
    }
}

/// After any write: a definition is settled, or cleaned up if it is being deleted.
pub(crate) async fn after_write(inner: &Inner, endpoint: &Endpoint, object: &Value) -> Result<()> {
    if endpoint.is("apiextensions.k8s.io", "customresourcedefinitions") {
        if meta::is_deleting(object) {
            clean_up(inner, meta::name(object)).await?;
        } else {
            settle(inner, meta::name(object)).await?;
        }
    }
    Ok(())
}

/// After any deletion: a definition is no longer served, and one that is terminating goes with its last object.
pub(crate) async fn after_delete(inner: &Inner, endpoint: &Endpoint, object: &Value) -> Result<()> {
    if endpoint.is("apiextensions.k8s.io", "customresourcedefinitions") {
        inner.custom.removed(meta::name(object));
    } else if endpoint.is_custom() && inner.custom.is_terminating(&endpoint.storage_name()) {
        clean_up(inner, &endpoint.storage_name()).await?;
    }
    Ok(())
}

/// After a definition was written: accepts its names if no other has them, and establishes it.
pub(crate) async fn settle(inner: &Inner, name: &str) -> Result<()> {
    let key = Key::new(DEFINITIONS, "", name);
    loop {
        let Some(stored) = inner.store.get(&key) else { return Ok(()) };
        let old = stored::parse(&stored)?;
        if meta::is_deleting(&old) {
            return Ok(());
        }
        let mut new = old.clone();
        accept_names(inner, &mut new);
        if new == old {
            inner.custom.changed(&old, stored.resource_version);
            return Ok(());
        }
        let Value::Object(object) = new.clone() else { return Ok(()) };
        match inner.store.write(Write::Update { key: key.clone(), expected: stored.resource_version, object }).await {
            Ok(event) => {
                inner.custom.changed(&new, event.resource_version());
                return Ok(());
            }
            Err(WriteError::Conflict { .. } | WriteError::NotFound) => {}
            Err(error) => return Err(storage::not_written(&error)),
        }
    }
}

/// Whether the status already says everything that [`settle`] would write.
pub(crate) fn is_settled(definition: &Value) -> bool {
    definition["spec"]["names"] == definition["status"]["acceptedNames"]
        && condition(definition, "Established") == Some("True")
}

fn accept_names(inner: &Inner, definition: &mut Value) {
    if is_settled(definition) {
        return;
    }
    let (spec, accepted) = (definition["spec"]["names"].clone(), definition["status"]["acceptedNames"].clone());
    let (resources, kinds) = names_in_use(inner, definition);
    let mut names: Map<String, Value> = accepted.as_object().cloned().unwrap_or_default();
    let mut refused: Option<(&str, String)> = None;
    let in_use = |name: &Value| format!("{name} is already in use");
    for (key, reason, used) in [
        ("plural", "PluralConflict", &resources),
        ("singular", "SingularConflict", &resources),
        ("kind", "KindConflict", &kinds),
        ("listKind", "ListKindConflict", &kinds),
    ] {
        if spec[key] != accepted[key] && used.contains(&spec[key]) {
            refused = Some((reason, in_use(&spec[key])));
        } else if let Some(name) = spec.get(key) {
            names.insert(key.to_owned(), name.clone());
        }
    }
    let short = spec["shortNames"].as_array().cloned().unwrap_or_default();
    let taken: Vec<String> = short
        .iter()
        .filter(|name| {
            !accepted["shortNames"].as_array().is_some_and(|old| old.contains(name)) && resources.contains(name)
        })
        .map(in_use)
        .collect();
    match taken.as_slice() {
        [] => {
            put_or_remove(&mut names, "shortNames", spec.get("shortNames"));
        }
        [one] => refused = Some(("ShortNamesConflict", one.clone())),
        several => refused = Some(("ShortNamesConflict", format!("[{}]", several.join(", ")))),
    }
    put_or_remove(&mut names, "categories", spec.get("categories"));
    definition["status"]["acceptedNames"] = ordered(names);
    match refused {
        None => {
            set_condition(inner, definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found");
            if condition(definition, "Established") != Some("True") {
                let message = "the initial names have been accepted";
                set_condition(inner, definition, "Established", "True", "InitialNamesAccepted", message);
            }
        }
        Some((reason, message)) => {
            set_condition(inner, definition, "NamesAccepted", "False", reason, &message);
            if condition(definition, "Established").is_none() {
                set_condition(inner, definition, "Established", "False", "NotAccepted", "not all names are accepted");
            }
        }
    }
}

fn put_or_remove(names: &mut Map<String, Value>, key: &str, value: Option<&Value>) {
    match value {
        Some(value) => names.insert(key.to_owned(), value.clone()),
        None => names.shift_remove(key),
    };
}

/// In the order of Kubernetes' own fields.
fn ordered(mut names: Map<String, Value>) -> Value {
    let mut sorted = Map::new();
    for key in ["plural", "singular", "shortNames", "kind", "listKind", "categories"] {
        if let Some(value) = names.shift_remove(key) {
            sorted.insert(key.to_owned(), value);
        }
    }
    Value::Object(sorted)
}

/// Names of resources and kinds that other definitions of the group have.
fn names_in_use(inner: &Inner, definition: &Value) -> (Vec<Value>, Vec<Value>) {
    let (mut resources, mut kinds) = (Vec::new(), Vec::new());
    for (_, name, stored) in inner.store.list(DEFINITIONS, None).iter() {
        if **name == *meta::name(definition) {
            continue;
        }
        let Ok(other) = stored::parse(stored) else { continue };
        if other["spec"]["group"] != definition["spec"]["group"] {
            continue;
        }
        let accepted = &other["status"]["acceptedNames"];
        resources.extend([accepted["plural"].clone(), accepted["singular"].clone()]);
        resources.extend(accepted["shortNames"].as_array().into_iter().flatten().cloned());
        kinds.extend([accepted["kind"].clone(), accepted["listKind"].clone()]);
    }
    (resources, kinds)
}

/// Marks a definition for deletion, as its first deletion does.
pub(crate) fn mark(inner: &Inner, definition: &mut Value) {
    meta::set(definition, "deletionTimestamp", Some(meta::time(inner.clock.now()).into()));
    let mut finalizers: Vec<Value> = definition["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    meta::set(definition, "finalizers", Some(Value::Array(finalizers)));
    set_condition(
        inner,
        definition,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    meta::sort(definition);
}

/// Deletes the objects of a definition that is marked for deletion, and then the definition, unless finalizers of others hold either.
/// Whoever removes the last object calls this again.
pub(crate) async fn clean_up(inner: &Inner, name: &str) -> Result<()> {
    inner.custom.terminates(name);
    loop {
        let step = match delete_objects(inner, name).await? {
            Step::Done => release(inner, name).await?,
            step => step,
        };
        match step {
            Step::Again => {}
            Step::Held => return Ok(()),
            Step::Done => {
                inner.custom.removed(name);
                return Ok(());
            }
        }
    }
}

/// How far a deletion has come.
enum Step {
    Done,
    /// Somebody else's finalizers hold it.
    Held,
    /// Somebody else was faster: it has to be looked at again.
    Again,
}

fn step_of(written: std::result::Result<Arc<Event>, WriteError>, then: Step) -> Result<Step> {
    match written {
        Ok(_) => Ok(then),
        Err(WriteError::NotFound | WriteError::Conflict { .. }) => Ok(Step::Again),
        Err(error) => Err(storage::not_written(&error)),
    }
}

async fn delete_objects(inner: &Inner, name: &str) -> Result<Step> {
    let mut all = Step::Done;
    for (namespace, object, stored) in inner.store.list(name, None).iter() {
        let (key, expected) = (Key::new(name, namespace.clone(), object.clone()), stored.resource_version);
        let mut instance = stored::parse(stored)?;
        let step = if meta::finalizers(&instance).is_empty() {
            step_of(inner.store.write(Write::Delete { key, expected }).await, Step::Done)?
        } else if meta::is_deleting(&instance) {
            Step::Held
        } else {
            meta::set(&mut instance, "deletionTimestamp", Some(meta::time(inner.clock.now()).into()));
            meta::set(&mut instance, "deletionGracePeriodSeconds", Some(0.into()));
            meta::sort(&mut instance);
            let Value::Object(object) = instance else { continue };
            step_of(inner.store.write(Write::Update { key, expected, object }).await, Step::Held)?
        };
        all = match (all, step) {
            (Step::Again, _) | (_, Step::Again) => Step::Again,
            (Step::Held, _) | (_, Step::Held) => Step::Held,
            _ => Step::Done,
        };
    }
    Ok(all)
}

/// Takes our finalizer from a definition without objects, and the definition with it if it was the last one.
async fn release(inner: &Inner, name: &str) -> Result<Step> {
    let key = Key::new(DEFINITIONS, "", name);
    let Some(stored) = inner.store.get(&key) else { return Ok(Step::Done) };
    let (mut definition, expected) = (stored::parse(&stored)?, stored.resource_version);
    let mut finalizers: Vec<Value> = definition["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let before = finalizers.len();
    finalizers.retain(|finalizer| finalizer != CLEANUP);
    if finalizers.is_empty() {
        return step_of(inner.store.write(Write::Delete { key, expected }).await, Step::Done);
    }
    if finalizers.len() == before {
        return Ok(Step::Held);
    }
    meta::set(&mut definition, "finalizers", Some(Value::Array(finalizers)));
    let Value::Object(object) = definition else { return Ok(Step::Held) };
    step_of(inner.store.write(Write::Update { key, expected, object }).await, Step::Held)
}
