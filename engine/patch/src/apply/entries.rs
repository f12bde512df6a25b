//! `metadata.managedFields`: who owns what, since when.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

use super::fields_v1;
use super::go;
use super::set::Set;

/// Updates by more managers than this are merged, oldest first.
const MAX_UPDATE_MANAGERS: usize = 10;

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        })
    }
}

/// Which entry of the list: appliers have one for all versions, updaters one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity<'a> {
    pub manager: Cow<'a, str>,
    pub operation: Operation,
    /// Empty for appliers.
    pub api_version: Cow<'a, str>,
    pub subresource: Cow<'a, str>,
}

impl Identity<'_> {
    /// The text by which Kubernetes orders managers.
    pub(super) fn text(&self) -> String {
        let mut out = String::from("{");
        let operation = self.operation.to_string();
        let fields = [
            ("manager", self.manager.as_ref()),
            ("operation", &operation),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            if out.len() > 1 {
                out.push(',');
            }
            go::json_string(name, &mut out);
            out.push(':');
            go::json_string(value, &mut out);
        }
        out.push('}');
        out
    }
}

#[derive(Clone, Debug)]
pub(super) struct Entry<'a> {
    pub identity: Identity<'a>,
    /// The version whose paths the set has.
    pub api_version: Cow<'a, str>,
    pub time: Option<Timestamp>,
    pub set: Set<'a>,
    /// Its place in the list that it was read from, while it is as it was there.
    pub kept: Option<usize>,
}

impl Entry<'_> {
    /// Takes these paths away.
    pub(super) fn lose(&mut self, paths: &Set<'_>) {
        if self.set.overlaps(paths) {
            self.set = self.set.difference(paths);
            self.kept = None;
        }
    }
}

/// An entry to be written.
pub(super) enum Slot {
    /// The one at this place of the list that was read.
    Kept(usize),
    /// This.
    Written(Value),
}

/// Reads the list. Null is an empty one.
pub(super) fn decode(managed_fields: &Value) -> Result<Vec<Entry<'_>>, String> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for (index, value) in managed_fields.as_array().into_iter().flatten().enumerate() {
        let entry = decode_entry(value, index)?;
        match find(&mut entries, &entry.identity) {
            Some(same) => *same = entry,
            None => entries.push(entry),
        }
    }
    Ok(entries)
}

fn decode_entry(value: &Value, index: usize) -> Result<Entry<'_>, String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
        other => return Err(format!("invalid fieldsType {} in managed fields entry {index}", go::quote(other))),
    }
    let set = match value.get("fieldsV1") {
        None => Set::default(),
        Some(fields) => fields_v1::parse(fields)
            .map_err(|error| format!("error decoding versioned set: error decoding set: {error}"))?,
    };
    let identity = Identity {
        manager: text("manager").into(),
        operation,
        api_version: if operation == Operation::Apply { "".into() } else { api_version.into() },
        subresource: text("subresource").into(),
    };
    Ok(Entry { identity, api_version: api_version.into(), time: text("time").parse().ok(), set, kept: Some(index) })
}

/// The list, in order.
pub(super) fn encode(mut entries: Vec<Entry<'_>>) -> Vec<Slot> {
    fn key<'e>(entry: &'e Entry<'_>) -> (Operation, i64, &'e str, &'e str, &'e str) {
        let Identity { manager, operation, subresource, .. } = &entry.identity;
        (*operation, seconds(entry.time), manager, &entry.api_version, subresource)
    }
    entries.sort_by(|a, b| key(a).cmp(&key(b)));
    entries.iter().map(|entry| entry.kept.map_or_else(|| Slot::Written(encode_entry(entry)), Slot::Kept)).collect()
}

fn encode_entry(entry: &Entry<'_>) -> Value {
    let Identity { manager, operation, subresource, .. } = &entry.identity;
    let mut object = Map::with_capacity(7);
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    if !manager.is_empty() {
        put("manager", manager.as_ref().into());
    }
    put("operation", operation.to_string().into());
    put("apiVersion", entry.api_version.as_ref().into());
    if let Some(time) = entry.time {
        put("time", time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    }
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", fields_v1::render(&entry.set));
    if !subresource.is_empty() {
        put("subresource", subresource.as_ref().into());
    }
    Value::Object(object)
}

pub(super) fn find<'e, 'a>(entries: &'e mut [Entry<'a>], identity: &Identity<'_>) -> Option<&'e mut Entry<'a>> {
    entries.iter_mut().find(|entry| entry.identity == *identity)
}

/// Merges the oldest updates until there are no more than ten.
pub(super) fn cap(entries: &mut Vec<Entry<'_>>) {
    let mut updaters: Vec<(i64, String, Identity<'_>)> = entries
        .iter()
        .filter(|entry| entry.identity.operation == Operation::Update)
        .map(|entry| (seconds(entry.time), entry.identity.text(), entry.identity.clone()))
        .collect();
    let mut excess = updaters.len().saturating_sub(MAX_UPDATE_MANAGERS);
    if excess == 0 {
        return;
    }
    updaters.sort_unstable_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut first_of_version: Vec<Identity<'_>> = Vec::new();
    for (_, _, identity) in updaters {
        if excess == 0 {
            break;
        }
        let Some(first) = first_of_version.iter().find(|first| first.api_version == identity.api_version) else {
            first_of_version.push(identity);
            continue;
        };
        let bucket = Identity { manager: "ancient-changes".into(), subresource: "".into(), ..identity.clone() };
        let Some(at) = entries.iter().position(|entry| entry.identity == identity) else { continue };
        if find(entries, &bucket).is_none()
            && let Some(entry) = find(entries, first)
        {
            entry.identity = bucket.clone();
            entry.kept = None;
        }
        let merged = entries.remove(at);
        if let Some(entry) = find(entries, &bucket) {
            entry.set = merged.set.union(&entry.set);
            // It is the more recent of the two.
            entry.time = merged.time;
            entry.kept = None;
        }
        excess -= 1;
    }
}

fn seconds(time: Option<Timestamp>) -> i64 {
    time.map_or(0, Timestamp::as_second)
}

/// What nobody owns: the server writes it, or it says which object this is.
pub(super) fn without_identity<'a>(set: &Set<'a>) -> Set<'a> {
    set.difference(&Set::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ]))
}
