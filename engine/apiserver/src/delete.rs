//! Deleting objects: at once, with grace, or when their finalizers are done.

use axum::http::StatusCode;
use axum::response::Response;
use jiff::SignedDuration;
use pillion_patch::{decode, schema};
use pillion_store::{Key, Stored, Write, WriteError};
use serde_json::{Value, json};

use crate::admission;
use crate::attributes::{Attributes, Operation};
use crate::call::Call;
use crate::query::{DeleteOptions, ListOptions};
use crate::status::{Refusal, Result};
use crate::{body, definition, list, meta, respond, storage, stored, versioned};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

pub(crate) async fn delete(call: &Call<'_>) -> Result<Response> {
    let options = options(call)?;
    warn_of_orphans(call, &options);
    let outcome = delete_one(call, call.name(), &options).await?;
    let waits = !outcome.gone && options.orphan_dependents == Some(false);
    let code = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
    respond::object(call, code, outcome.shown)
}

pub(crate) async fn delete_collection(call: &Call<'_>) -> Result<Response> {
    let list_options = ListOptions::decode(&call.query, false)?;
    let options = options(call)?;
    let page = list::find(call, &list_options)?;
    for stored in &page.items {
        let object = stored::parse(stored)?;
        match run(call, meta::name(&object), &options, Admission::OfCollection).await {
            Err(refusal) if refusal.reason == "NotFound" => {}
            Err(refusal) => return Err(refusal),
            Ok(_) => {}
        }
    }
    list::answer(call, &page).await
}

/// Jobs alone leave their pods behind unless the request says otherwise, which surprises people.
fn warn_of_orphans(call: &Call<'_>, options: &DeleteOptions) {
    let said = options.propagation_policy.is_some() || options.orphan_dependents.is_some();
    if call.endpoint.is("batch", "jobs") && !said {
        call.warnings.add("child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning");
    }
}

/// The options: of the body, or of the query where there is no body.
fn options(call: &Call<'_>) -> Result<DeleteOptions> {
    if call.body.is_empty() {
        return DeleteOptions::from_query(&call.query);
    }
    let schema = schema::builtin().get("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    let parsed = body::options(call, schema)?;
    if let Some(kind) = parsed.value["kind"].as_str()
        && kind != "DeleteOptions"
    {
        let version = parsed.value["apiVersion"].as_str().unwrap_or_default();
        return Err(Refusal::bad_request(body::no_such_kind(version, kind)));
    }
    let body = match schema {
        Some(schema) => decode::decode(schema, parsed).map_err(|error| Refusal::bad_request(error.to_string()))?.object,
        None => parsed.value,
    };
    DeleteOptions::from_body(&body)
}

/// What became of a deletion.
struct Outcome {
    /// The object went, instead of only being marked.
    gone: bool,
    /// What the client is shown.
    shown: Value,
}

/// How an object is to go.
enum Plan {
    /// Out of the store.
    Remove,
    /// It stays, so marked, until its grace or its finalizers are over.
    Mark(Value),
    /// It is marked for others to see, and goes at once.
    MarkAndRemove(Value),
    /// It is going already; nothing to do.
    Pending,
}

async fn delete_one(call: &Call<'_>, name: &str, options: &DeleteOptions) -> Result<Outcome> {
    run(call, name, options, Admission::OfObject).await
}

/// How a deletion is admitted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admission {
    OfObject,
    /// Of an object that the request does not name.
    OfCollection,
    /// It is part of something that was admitted.
    Done,
}

/// Deletes without admission: what is deleted in the course of something that was admitted.
pub(crate) async fn delete_unasked(call: &Call<'_>, name: &str, options: &DeleteOptions) -> Result<()> {
    run(call, name, options, Admission::Done).await.map(|_| ())
}

async fn run(call: &Call<'_>, name: &str, options: &DeleteOptions, admission: Admission) -> Result<Outcome> {
    let mut admitted = admission == Admission::Done;
    let shown_name = if admission == Admission::OfCollection { "" } else { name };
    let key = call.key_of(name);
    // The object as this request has marked it, if somebody else may remove it now.
    let mut ours: Option<Value> = None;
    loop {
        let stored = call.inner().store.get(&key);
        let object = match &stored {
            Some(stored) => Some(versioned::decode(call.inner(), &call.endpoint, stored).await?),
            None => None,
        };
        let is_still_there =
            |marked: &Value| object.as_ref().is_some_and(|object| meta::uid(object) == meta::uid(marked));
        if let Some(marked) = ours.take_if(|marked| !is_still_there(marked)) {
            return Ok(Outcome { gone: true, shown: deleted(call, name, marked) });
        }
        let Some((stored, object)) = stored.zip(object) else {
            return Err(Refusal::not_found(&call.endpoint.group_resource(), name));
        };
        preconditions(call, name, options, &object)?;
        let plan = plan(call, options, &object);
        if !admitted && !matches!(plan, Plan::Pending) {
            let attributes = Attributes::new(call, Operation::Delete, options.dry_run, &options.shown, "DeleteOptions")
                .named(shown_name);
            admission::mutate(&attributes, &mut Value::Null, Some(&object)).await?;
            admission::validate(&attributes, None, Some(&object)).await?;
            admitted = true;
        }
        match plan {
            Plan::Pending => return Ok(Outcome { gone: false, shown: object }),
            Plan::Mark(marked) => {
                if let Some(shown) = mark(call, &key, &stored, marked, options.dry_run).await? {
                    return Ok(Outcome { gone: false, shown });
                }
            }
            Plan::MarkAndRemove(marked) => {
                let Some(shown) = mark(call, &key, &stored, marked, options.dry_run).await? else { continue };
                if options.dry_run {
                    return Ok(Outcome { gone: true, shown });
                }
                let version = meta::resource_version(&shown).unwrap_or(0);
                if let Some(removed) = remove_from_store(call, &key, version, shown.clone()).await? {
                    return Ok(Outcome { gone: true, shown: deleted(call, name, removed) });
                }
                ours = Some(shown);
            }
            Plan::Remove => {
                let removed = if options.dry_run {
                    Some(object)
                } else {
                    remove_from_store(call, &key, stored.resource_version, object).await?
                };
                if let Some(removed) = removed {
                    return Ok(Outcome { gone: true, shown: deleted(call, name, removed) });
                }
            }
        }
    }
}

/// What the client is shown of an object that went: kinds with grace show the object, others a Status.
fn deleted(call: &Call<'_>, name: &str, object: Value) -> Value {
    let shows_object = matches!(
        (call.endpoint.group(), call.endpoint.plural()),
        (
            "",
            "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "replicationcontrollers"
                | "resourcequotas"
                | "podtemplates"
        ) | ("storage.k8s.io", "storageclasses")
            | ("node.k8s.io", _)
    );
    if shows_object {
        return object;
    }
    let mut details = json!({"name": name});
    if !call.endpoint.group().is_empty() {
        details["group"] = call.endpoint.group().into();
    }
    details["kind"] = call.endpoint.plural().into();
    details["uid"] = meta::uid(&object).into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

pub(crate) fn preconditions(call: &Call<'_>, name: &str, options: &DeleteOptions, object: &Value) -> Result<()> {
    if call.endpoint.is("", "namespaces") {
        return namespace_preconditions(call, name, options, object);
    }
    // Kubernetes names the kind here, not the resource.
    let resource = crate::status::GroupResource::new(call.endpoint.group(), call.endpoint.kind());
    if let Some(uid) = &options.uid
        && uid != meta::uid(object)
    {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            meta::uid(object)
        );
        return Err(Refusal::conflict(&resource, name, &why));
    }
    if let Some(version) = &options.resource_version
        && version != meta::text(object, "resourceVersion")
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            meta::text(object, "resourceVersion")
        );
        return Err(Refusal::conflict(&resource, name, &why));
    }
    Ok(())
}

/// Namespaces have a storage of their own, and it has its own words.
fn namespace_preconditions(call: &Call<'_>, name: &str, options: &DeleteOptions, object: &Value) -> Result<()> {
    let unmet = |what: &str, given: &str, stored: &str| {
        let why = format!("Precondition failed: {what} in precondition: {given}, {what} in object meta: {stored}");
        Err(Refusal::conflict(&call.endpoint.group_resource(), name, &why))
    };
    match (&options.uid, &options.resource_version) {
        (Some(uid), _) if uid != meta::uid(object) => unmet("UID", uid, meta::uid(object)),
        (_, Some(version)) if version != meta::text(object, "resourceVersion") => {
            unmet("ResourceVersion", version, meta::text(object, "resourceVersion"))
        }
        _ => Ok(()),
    }
}

fn plan(call: &Call<'_>, options: &DeleteOptions, object: &Value) -> Plan {
    if call.endpoint.is("", "namespaces") {
        return plan_namespace(call, object);
    }
    if call.endpoint.is("apiextensions.k8s.io", "customresourcedefinitions") && !meta::is_deleting(object) {
        // What it brought goes first.
        let mut marked = object.clone();
        definition::mark(call.inner(), &mut marked);
        return Plan::Mark(marked);
    }
    let mut marked = object.clone();
    let grace = if call.endpoint.is("", "pods") { grace(call, options, object, &mut marked) } else { Grace::None };
    let changed = set_deletion_finalizers(call, options, &mut marked);
    let has_finalizers = !meta::finalizers(&marked).is_empty();
    match grace {
        Grace::Pending => return Plan::Pending,
        Grace::Given => return Plan::Mark(marked),
        Grace::Over if has_finalizers => return Plan::Mark(marked),
        Grace::Over => return Plan::MarkAndRemove(marked),
        Grace::None => {}
    }
    if has_finalizers {
        mark_as_deleting(call, &mut marked);
        // Deleting a second time changes nothing.
        return if !changed && marked == *object { Plan::Mark(object.clone()) } else { Plan::Mark(marked) };
    }
    Plan::Remove
}

/// A namespace is emptied first; its controller says when that is done.
fn plan_namespace(call: &Call<'_>, object: &Value) -> Plan {
    let done = object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    if meta::is_deleting(object) {
        return if done && meta::finalizers(object).is_empty() { Plan::Remove } else { Plan::Mark(object.clone()) };
    }
    if done && meta::finalizers(object).is_empty() {
        return Plan::Remove;
    }
    let mut marked = object.clone();
    meta::set(&mut marked, "deletionTimestamp", Some(meta::time(call.now()).into()));
    marked["status"]["phase"] = "Terminating".into();
    Plan::Mark(marked)
}

enum Grace {
    /// The pod gets time; `marked` says how much.
    Given,
    /// The pod gets none; `marked` says so.
    Over,
    /// Not a matter of grace, or no more.
    None,
    /// It was asked to end before, and no less time is asked for.
    Pending,
}

fn grace(call: &Call<'_>, options: &DeleteOptions, pod: &Value, marked: &mut Value) -> Grace {
    let asked = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let now = call.now();
    if let Some(deadline) = pod["metadata"]["deletionTimestamp"].as_str() {
        let current = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        let Some(asked) = asked else { return if current == 0 { Grace::None } else { Grace::Pending } };
        if current == 0 {
            return Grace::None;
        }
        if asked >= current {
            return Grace::Pending;
        }
        let deadline: jiff::Timestamp = deadline.parse().unwrap_or(now);
        let moved = deadline.checked_sub(SignedDuration::from_secs(current - asked)).unwrap_or(now);
        let (moved, seconds) = if moved < now { (now, i64::from(asked != 0)) } else { (moved, asked) };
        meta::set(marked, "deletionTimestamp", Some(meta::time(moved).into()));
        meta::set(marked, "deletionGracePeriodSeconds", Some(seconds.into()));
        return if seconds == 0 { Grace::Over } else { Grace::Given };
    }
    let seconds = pod_grace(asked, pod);
    let deadline = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    meta::set(marked, "deletionTimestamp", Some(meta::time(deadline).into()));
    meta::set(marked, "deletionGracePeriodSeconds", Some(seconds.into()));
    if meta::generation(marked) > 0 {
        meta::set(marked, "generation", Some((meta::generation(marked) + 1).into()));
    }
    if seconds == 0 { Grace::Over } else { Grace::Given }
}

/// The pod's own grace unless another is asked for; none for pods that no kubelet runs.
fn pod_grace(asked: Option<i64>, pod: &Value) -> i64 {
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let seconds = asked.unwrap_or(if own < 0 { 1 } else { own });
    let unscheduled = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    let finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if unscheduled || finished { 0 } else { seconds }
}

/// Finalizers that tell the garbage collector what to do with dependents. True when they changed.
fn set_deletion_finalizers(call: &Call<'_>, options: &DeleteOptions, object: &mut Value) -> bool {
    let policy = options.propagation_policy.as_deref();
    let there = |name: &str| meta::finalizers(object).contains(&name);
    let orphan = match (policy, options.orphan_dependents) {
        (Some("Orphan"), _) | (_, Some(true)) => true,
        (Some(_), _) | (_, Some(false)) => false,
        _ if there(ORPHAN) => true,
        _ if there(FOREGROUND) => false,
        _ => call.endpoint.orphan_by_default(),
    };
    let foreground = match (policy, options.orphan_dependents) {
        (Some("Foreground"), _) => true,
        (Some(_), _) | (_, Some(_)) => false,
        _ => there(FOREGROUND),
    };
    let old: Vec<String> = meta::finalizers(object).into_iter().map(str::to_owned).collect();
    let mut new: Vec<String> = old.iter().filter(|name| *name != ORPHAN && *name != FOREGROUND).cloned().collect();
    if orphan {
        new.push(ORPHAN.to_owned());
    }
    if foreground {
        new.push(FOREGROUND.to_owned());
    }
    let set = |names: &[String]| names.iter().cloned().collect::<std::collections::BTreeSet<_>>();
    if set(&old) == set(&new) {
        return false;
    }
    meta::set(object, "finalizers", (!new.is_empty()).then(|| json!(new)));
    true
}

fn mark_as_deleting(call: &Call<'_>, object: &mut Value) {
    if !meta::is_deleting(object) {
        if meta::generation(object) > 0 {
            meta::set(object, "generation", Some((meta::generation(object) + 1).into()));
        }
        meta::set(object, "deletionTimestamp", Some(meta::time(call.now()).into()));
    }
    meta::set(object, "deletionGracePeriodSeconds", Some(0.into()));
}

/// Writes the mark. `None` when another was faster.
async fn mark(call: &Call<'_>, key: &Key, stored: &Stored, mut marked: Value, dry_run: bool) -> Result<Option<Value>> {
    meta::sort(&mut marked);
    let unchanged = versioned::decode(call.inner(), &call.endpoint, stored).await.is_ok_and(|object| object == marked);
    if dry_run || unchanged {
        return Ok(Some(marked));
    }
    let write = Write::Update {
        key: key.clone(),
        expected: stored.resource_version,
        object: storage::to_storage(call.inner(), &call.endpoint, marked.clone()).await?,
    };
    match call.inner().store.write(write).await {
        Ok(committed) => {
            meta::set(&mut marked, "resourceVersion", Some(committed.resource_version().to_string().into()));
            definition::after_write(call.inner(), &call.endpoint, &marked).await?;
            Ok(Some(marked))
        }
        Err(WriteError::Conflict { .. } | WriteError::NotFound) => Ok(None),
        Err(error) => Err(storage::not_written(&error)),
    }
}

/// Takes the object out of the store. `None` when another was faster.
async fn remove_from_store(call: &Call<'_>, key: &Key, expected: u64, mut object: Value) -> Result<Option<Value>> {
    match call.inner().store.write(Write::Delete { key: key.clone(), expected }).await {
        Ok(committed) => {
            meta::set(&mut object, "resourceVersion", Some(committed.resource_version().to_string().into()));
            definition::after_delete(call.inner(), &call.endpoint, &object).await?;
            Ok(Some(object))
        }
        Err(WriteError::Conflict { .. } | WriteError::NotFound) => Ok(None),
        Err(error) => Err(storage::not_written(&error)),
    }
}

/// Removes an object whose last finalizer went with an update. False when another was faster.
pub(crate) async fn remove(call: &Call<'_>, key: &Key, expected: u64) -> Result<bool> {
    match call.inner().store.write(Write::Delete { key: key.clone(), expected }).await {
        Ok(_) => {
            if let Some(name) = call.path.name.as_deref() {
                definition::after_delete(call.inner(), &call.endpoint, &json!({"metadata": {"name": name}})).await?;
            }
            Ok(true)
        }
        Err(WriteError::NotFound) => Ok(true),
        Err(WriteError::Conflict { .. }) => Ok(false),
        Err(error) => Err(storage::not_written(&error)),
    }
}
