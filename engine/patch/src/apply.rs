//! Server-side apply: who owns which field, and what an applied configuration makes of an object (KEP-555).
//!
//! ```text
//!  create, update, patch:  live, new ──compare──▶ changed paths ──▶ managedFields of new
//!  apply:  live, applied ──merge──▶ merged ──prune what the manager no longer applies──▶ object
//!                                                        │
//!                                     paths of others that change ──▶ conflicts, or taken by force
//! ```
//!
//! A set of paths is a tree; `FieldsV1` is its JSON. Kubernetes' own kinds have one version here: entries of others are
//! dropped, as the API server drops those of versions that it no longer serves. Entries of a custom resource keep their version, and their
//! paths are taken as they are: no conversion is asked what they are called in another version.
//!
//! # Invariants
//! - A write that changes nothing leaves `managedFields` as they are.
//! - Applying twice is applying once.
//! - Only the fields that a manager applied before, applies no more and shares with nobody go away.

mod compare;
mod conflict;
mod element;
mod entries;
mod field_set;
mod fields_v1;
mod go;
mod last_applied;
mod merge;
mod reconcile;
mod remove;
pub mod scale;
mod set;
mod shape;
mod validate;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

pub use conflict::{Conflict, Conflicts};
pub use entries::Operation;

use crate::schema::{Node, Schema};
use compare::{Comparison, compare};
use element::equal;
use entries::{Entry, Identity, Slot};
use field_set::field_set;
use set::Set;
use shape::Type;
use validate::{Duplicates, validate};

/// Who writes.
#[derive(Clone, Copy, Debug)]
pub struct Manager<'a> {
    /// `fieldManager` of the request, or what stands before the slash in its user agent.
    pub name: &'a str,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
}

/// What one request says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The type of the object, for subresources too.
    pub schema: Schema<'a>,
    /// The version of the request: `apps/v1`.
    pub api_version: &'a str,
    /// The kind of the object: `Deployment`.
    pub kind: &'a str,
    /// Who writes.
    pub manager: Manager<'a>,
    /// When.
    pub now: Timestamp,
    /// Fields that a write here does not touch, and so does not own: `status` of the object itself, `spec` of `/status`.
    pub reset: &'a [&'a [&'a str]],
}

/// Why a configuration was not applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ApplyError {
    /// 409: others own fields that would change.
    #[error("{0}")]
    Conflict(Conflicts),
    /// 400: it cannot be applied here at all.
    #[error("{0}")]
    BadRequest(String),
    /// 500 without a reason, as Kubernetes answers what does not fit the schema.
    #[error("{0}")]
    Invalid(String),
}

/// Sets the `managedFields` of an object that is written by anything but apply. There is no `live` object, or an empty one, on create.
///
/// `managedFields` that the writer sent are the base if they are well-formed; an empty list forgets all owners.
pub fn update(context: &Context<'_>, live: Option<&Value>, new: &mut Value) {
    let live = live.filter(|live| exists(live));
    let mut sent = match new.get_mut("metadata").and_then(Value::as_object_mut) {
        Some(metadata) => metadata.shift_remove("managedFields").unwrap_or_default(),
        None => return,
    };
    let stored = live.map_or(&Value::Null, managed_fields);
    // Most writers send the list as they read it.
    let unchanged = sent == *stored;
    let slots = updated(context, live, new, if unchanged { &Value::Null } else { &sent });
    let list = slots.into_iter().map(|slot| match slot {
        Slot::Written(entry) => entry,
        Slot::Kept(at) if unchanged => sent.get_mut(at).map(Value::take).unwrap_or_default(),
        Slot::Kept(at) => stored.get(at).cloned().unwrap_or_default(),
    });
    let list = list.collect();
    set_managed_fields(new, list);
}

/// Applies a configuration, which must not be of another kind or version. There is no `live` object, or an empty one, if it is to be created.
///
/// The caller gives the result its defaults.
pub fn apply(context: &Context<'_>, live: Option<&Value>, applied: &Value, force: bool) -> Result<Value, ApplyError> {
    let live = live.filter(|live| exists(live));
    let unmanaged = live.is_none_or(|live| managed_fields(live).as_array().is_none_or(Vec::is_empty));
    let zero = if unmanaged { zero_object(context) } else { Value::Null };
    let live = live.unwrap_or(&zero);
    let managed = entries::decode(managed_fields(live))
        .map_err(|error| ApplyError::Invalid(format!("failed to decode managed fields: {error}")))?;
    if text(applied, "apiVersion") != context.api_version || text(applied, "kind") != context.kind {
        return Err(ApplyError::BadRequest(format!("invalid object type: {}", group_version_kind(applied))));
    }
    let by_kubectl = context.manager.name == last_applied::KUBECTL;
    let managed = if managed.is_empty() {
        let before = Manager { name: "before-first-apply", ..context.manager };
        record(&Context { manager: before, ..*context }, &zero, live, managed)
            .map_err(|error| ApplyError::Invalid(format!("failed to create manager for existing fields: {error}")))?
    } else {
        managed
    };
    let before = if by_kubectl { managed.clone() } else { Vec::new() };
    let mut outcome = apply_once(context, live, applied, managed, force);
    if let Err(Refusal::Conflicts(conflicts)) = &mut outcome
        && by_kubectl
        && let Some(last) = last_applied::parse(live, context.api_version)
        && let Some(owned) = last_applied::owned(Type::Known(context.schema), &last, live)
    {
        for (_, set) in conflicts.iter_mut() {
            *set = set.difference(&owned);
        }
        conflicts.retain(|(_, set)| !set.is_empty());
        if conflicts.is_empty() {
            outcome = apply_once(context, live, applied, before, true);
        }
    }
    let (mut object, managed) = outcome.map_err(|refusal| match refusal {
        Refusal::Conflicts(sets) => ApplyError::Conflict(Conflicts::of(sets)),
        Refusal::Error(error) => error,
    })?;
    if by_kubectl {
        last_applied::refresh(&mut object, applied);
    }
    let list = entries::encode(managed).into_iter().map(|slot| match slot {
        Slot::Written(entry) => entry,
        Slot::Kept(at) => managed_fields(live).get(at).cloned().unwrap_or_default(),
    });
    set_managed_fields(&mut object, list.collect());
    Ok(object)
}

/// Gives `new` the times that `live` has, if nothing but the times of `managedFields` would change.
///
/// For the end of an update, when admission and the resource's own rules have had their say.
pub fn keep_times(live: &Value, new: &mut Value) {
    fn same_but_for_time(old: &Value, new: &Value) -> bool {
        let fields = |entry: &Value, other: &Value| {
            entry
                .as_object()
                .is_some_and(|entry| entry.iter().all(|(name, value)| name == "time" || other.get(name) == Some(value)))
        };
        fields(old, new) && fields(new, old)
    }
    let (Some(old_list), Some(new_list)) = (managed_fields(live).as_array(), managed_fields(new).as_array()) else {
        return;
    };
    let only_times = old_list != new_list
        && old_list.len() == new_list.len()
        && old_list.iter().zip(new_list).all(|(old, new)| same_but_for_time(old, new));
    if only_times {
        let new_list = new_list.clone();
        set_managed_fields(new, old_list.clone());
        if !equal(live, new) {
            set_managed_fields(new, new_list);
        }
    }
}

/// The list for `new`; empty if no owner is known, or if it cannot be computed.
fn updated(context: &Context<'_>, live: Option<&Value>, new: &Value, sent: &Value) -> Vec<Slot> {
    // A subresource does not set it.
    let sent = if context.manager.subresource.is_empty() { sent } else { &Value::Null };
    let mut managed = if is_reset(context, sent) { Vec::new() } else { entries::decode(sent).unwrap_or_default() };
    for entry in &mut managed {
        // It may not be written as we write it.
        entry.kept = None;
    }
    if managed.is_empty() && !is_reset(context, sent) {
        managed = live.and_then(|live| entries::decode(managed_fields(live)).ok()).unwrap_or_default();
    }
    // An object that nobody owned is not tracked before it is applied.
    if managed.is_empty() && live.is_some_and(|live| !text(&live["metadata"], "uid").is_empty()) {
        return Vec::new();
    }
    let zero = if live.is_some() { Value::Null } else { zero_object(context) };
    match record(context, live.unwrap_or(&zero), new, managed) {
        Ok(mut managed) => {
            entries::cap(&mut managed);
            entries::encode(managed)
        }
        Err(_) => Vec::new(),
    }
}

/// An empty list, or one empty entry. Of a custom resource's metadata, empty lists are dropped before anybody looks.
fn is_reset(context: &Context<'_>, sent: &Value) -> bool {
    match sent.as_array().map(Vec::as_slice) {
        Some([]) => is_built_in(context),
        Some([one]) => one.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// Gives the fields that changed to the manager, and takes them from all others.
fn record<'a>(
    context: &Context<'a>,
    live: &'a Value,
    new: &'a Value,
    managed: Vec<Entry<'a>>,
) -> Result<Vec<Entry<'a>>, String> {
    let at = Type::Known(context.schema);
    validate(at, new, Duplicates::Allowed)?;
    validate(at, live, Duplicates::Allowed)?;
    let mut managed = reconciled(context, managed);
    let reset = Set::of_fields(context.reset);
    let Comparison { removed, modified, added } = compare(at, live, new).without(&reset);
    let written = modified.union(&added);
    let changed = written.union(&removed);
    for entry in &mut managed {
        entry.lose(&changed);
    }
    managed.retain(|entry| !entry.set.is_empty());
    let owned = entries::without_identity(&written);
    if !owned.is_empty() {
        let mut own = take_own(context, Operation::Update, &mut managed);
        own.set = owned.union(&own.set);
        own.time = Some(context.now);
        own.kept = None;
        managed.push(own);
    }
    Ok(managed)
}

/// Why one attempt to apply failed.
enum Refusal<'a> {
    Conflicts(Vec<(Identity<'a>, Set<'a>)>),
    Error(ApplyError),
}

/// The object without its `managedFields`, and the entries for them.
fn apply_once<'a>(
    context: &Context<'a>,
    live: &'a Value,
    applied: &'a Value,
    managed: Vec<Entry<'a>>,
    force: bool,
) -> Result<(Value, Vec<Entry<'a>>), Refusal<'a>> {
    let invalid = |message: String| Refusal::Error(ApplyError::Invalid(message));
    if managed_fields(applied).is_array() {
        return Err(Refusal::Error(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned())));
    }
    let at = Type::Known(context.schema);
    validate(at, applied, Duplicates::Refused)
        .map_err(|error| invalid(format!("failed to create typed patch object ({}): {error}", described(applied))))?;
    validate(at, live, Duplicates::Allowed)
        .map_err(|error| invalid(format!("failed to create typed live object ({}): {error}", described(live))))?;
    let mut managed = reconciled(context, managed);
    let reset = Set::of_fields(context.reset);
    let mut own = take_own(context, Operation::Apply, &mut managed);
    let last = std::mem::replace(&mut own.set, field_set(at, applied).recursive_difference(&reset));
    let owned = managed.iter().fold(own.set.clone(), |owned, entry| owned.union(&entry.set));
    let object = pruned(at, merge::merge(at, live, applied), &owned, &last);

    let Comparison { removed, modified, added } = compare(at, live, &object).without(&reset);
    let written = modified.union(&added);
    let conflicts: Vec<_> = managed
        .iter()
        .map(|entry| (entry.identity.clone(), entry.set.intersection(&written)))
        .filter(|(_, set)| !set.is_empty())
        .collect();
    if !force && !conflicts.is_empty() {
        return Err(Refusal::Conflicts(conflicts));
    }
    let changed = written.union(&removed);
    for entry in &mut managed {
        entry.lose(&changed);
    }
    own.set = entries::without_identity(&own.set);
    let same = equal(live, &object);
    if !same {
        own.time = Some(context.now);
    }
    if !same || own.set != last {
        own.kept = None;
    }
    managed.push(own);
    managed.retain(|entry| !entry.set.is_empty());
    Ok((if same { live.clone() } else { object }, managed))
}

/// Takes away what was applied last time, is not now, and is nobody else's.
fn pruned(at: Type<'_>, merged: Value, owned: &Set<'_>, last: &Set<'_>) -> Value {
    if last.difference(owned).is_empty() {
        return merged;
    }
    let all = field_set(at, &merged).with_named_fields(at);
    let last = last.with_named_fields(at);
    let without_last = remove::remove(at, &merged, &last);
    let kept = field_set(at, &without_last).with_named_fields(at).union(&owned.with_named_fields(at));
    let with_owned = remove::remove(at, &merged, &all.difference(&kept));
    // What went with an item though it was not applied stays, and the item with it.
    let gone = all.difference(&field_set(at, &with_owned).with_named_fields(at)).intersection(&last);
    remove::remove(at, &merged, &gone)
}

/// The entries under today's schema. Versions of Kubernetes' own kinds that are not served are forgotten.
fn reconciled<'a>(context: &Context<'a>, mut managed: Vec<Entry<'a>>) -> Vec<Entry<'a>> {
    managed.retain(|entry| !is_built_in(context) || entry.api_version == context.api_version);
    for entry in &mut managed {
        if let Some(set) = reconcile::reconcile(Type::Known(context.schema), &entry.set) {
            entry.set = set;
            entry.kept = None;
        }
    }
    managed
}

fn identity<'a>(context: &Context<'a>, operation: Operation) -> Identity<'a> {
    let Manager { name, subresource } = context.manager;
    Identity {
        manager: if name.is_empty() { "unknown" } else { name }.into(),
        operation,
        api_version: if operation == Operation::Apply { "" } else { context.api_version }.into(),
        subresource: subresource.into(),
    }
}

/// The entry of the one who writes, out of the others; a new one if there is none.
fn take_own<'a>(context: &Context<'a>, operation: Operation, managed: &mut Vec<Entry<'a>>) -> Entry<'a> {
    let identity = identity(context, operation);
    let api_version = Cow::Borrowed(context.api_version);
    match managed.iter().position(|entry| entry.identity == identity) {
        Some(at) => {
            let entry = managed.swap_remove(at);
            Entry { kept: entry.kept.filter(|_| entry.api_version == api_version), api_version, ..entry }
        }
        None => Entry { identity, api_version, time: None, set: Set::default(), kept: None },
    }
}

/// The object that Go has before it decodes one.
fn zero_object(context: &Context<'_>) -> Value {
    let mut zero = Type::Known(context.schema).zero();
    if let Some(object) = zero.as_object_mut() {
        object.insert("apiVersion".to_owned(), context.api_version.into());
        object.insert("kind".to_owned(), context.kind.into());
    }
    zero
}

/// Not a custom resource.
fn is_built_in(context: &Context<'_>) -> bool {
    matches!(context.schema.node(), Node::Struct(object) if !object.go_name.is_empty())
}

fn exists(live: &Value) -> bool {
    live.as_object().is_some_and(|object| !object.is_empty())
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn managed_fields(object: &Value) -> &Value {
    &object["metadata"]["managedFields"]
}

fn set_managed_fields(object: &mut Value, list: Vec<Value>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if list.is_empty() {
        metadata.shift_remove("managedFields");
    } else {
        metadata.insert("managedFields".to_owned(), Value::Array(list));
    }
}

/// `default/web; apps/v1, Kind=Deployment`.
fn described(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!("{}/{}; {}", text(metadata, "namespace"), text(metadata, "name"), group_version_kind(object))
}

/// `apps/v1, Kind=Deployment`. The core group is empty: `/v1, Kind=Pod`.
fn group_version_kind(object: &Value) -> String {
    let api_version = text(object, "apiVersion");
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={}", text(object, "kind"))
}
