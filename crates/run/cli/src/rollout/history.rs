//! The revisions of a SidecarSet, and what changed between them.

use std::collections::HashMap;

use jiff::Timestamp;
use pillion_api::names;
use pillion_api::sidecarset::{SidecarSet, revision};
use pillion_embedded::table::human;
use pillion_preview::{Difference, differences};
use pillion_rollout::{PodView, Target, missing_pin};
use serde::Serialize;
use serde_json::{Map, Value};

use super::status::images;
use crate::cluster::target::nearest;
use crate::render::{self, table};
use crate::terminal::{clean, clean_line};
use crate::{Failure, rendered_yaml};

/// One revision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) revision: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) custom_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Timestamp>,
    pub(crate) is_latest: bool,
    /// Whether new pods get it by `injectionStrategy.revision`.
    pub(crate) is_pinned: bool,
    /// How many pods have it.
    pub(crate) pods: usize,
    pub(crate) images: Vec<String>,
    /// What differs from the revision before.
    pub(crate) changes: Vec<Difference>,
    /// What it injects.
    pub(crate) spec: Value,
}

/// The revisions of a set, from the oldest to the newest.
pub(crate) fn entries(set: &SidecarSet, revisions: &[Value], target: &Target, pods: &[PodView]) -> Vec<Entry> {
    let latest = revision::current_name(set);
    let mut having: HashMap<&str, usize> = HashMap::new();
    for standing in pods.iter().filter_map(|pod| target.standing(pod)) {
        *having.entry(standing.revision).or_default() += 1;
    }
    let pinned = set.spec.pinned_revision();
    let mut before = Value::Null;
    let mut entries = Vec::new();
    for object in revisions {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let custom_version = metadata["labels"][names::CUSTOM_VERSION].as_str().map(str::to_owned);
        let is_pinned = pinned.as_ref().is_some_and(|pinned| match &pinned.revision_name {
            Some(pinned) => pinned == name,
            None => pinned.custom_version.is_some() && pinned.custom_version == custom_version,
        });
        let spec = tidy(&object["data"]["spec"]);
        let changes = if entries.is_empty() { Vec::new() } else { differences(&before, &spec) };
        before.clone_from(&spec);
        entries.push(Entry {
            name: name.to_owned(),
            revision: object["revision"].as_i64().unwrap_or_default(),
            custom_version,
            created: metadata["creationTimestamp"].as_str().and_then(|time| time.parse().ok()),
            is_latest: name == latest,
            is_pinned,
            pods: having.get(name).copied().unwrap_or_default(),
            images: images(&spec),
            changes,
            spec,
        });
    }
    entries
}

/// The place of the revision with this name or number.
pub(crate) fn place(set: &SidecarSet, entries: &[Entry], wanted: &str) -> Result<usize, Failure> {
    let is_wanted = |entry: &Entry| entry.name == wanted || entry.revision.to_string() == wanted;
    entries.iter().position(is_wanted).ok_or_else(|| {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let help = match nearest(wanted, &names) {
            Some(near) => format!("; did you mean {near:?}?"),
            None if names.is_empty() => ": it has none".to_owned(),
            None => format!("; there are {}", names.join(", ")),
        };
        Failure::no(format!("SidecarSet {:?} has no revision {wanted:?}{help}", set.name()))
    })
}

/// The revisions as a table, with a diff for each that has one before it. It is coloured.
pub(crate) fn text(set: &SidecarSet, entries: &[Entry], now: Timestamp) -> Result<String, Failure> {
    let missing = set.status.as_ref().and_then(missing_pin).map(|condition| clean_line(&condition.message));
    let missing = missing.map(|message| format!("\n{message}\n")).unwrap_or_default();
    if entries.is_empty() {
        return Ok(format!("SidecarSet {}: no revisions are stored\n{missing}", set.name()));
    }
    let rows = entries.iter().map(|entry| {
        let age = entry.created.map(|created| human(now.duration_since(created))).unwrap_or_default();
        let version = entry.custom_version.clone().unwrap_or_else(|| "-".to_owned());
        let images = clean_line(&entry.images.join(", "));
        vec![entry.revision.to_string(), named(entry), version, age, entry.pods.to_string(), images]
    });
    let mut text = table(&["NUMBER", "REVISION", "VERSION", "AGE", "PODS", "IMAGES"], rows);
    text.push_str(&missing);
    for pair in entries.windows(2) {
        let [before, after] = pair else { continue };
        text.push('\n');
        text.push_str(&diff(before, after)?);
    }
    Ok(text)
}

/// One revision: its diff to the one before, and all that it injects. It is coloured.
pub(crate) fn one(entries: &[Entry], place: usize) -> Result<String, Failure> {
    let Some(entry) = entries.get(place) else { return Ok(String::new()) };
    let mut text = format!("{}\n", named(entry));
    if let Some(before) = place.checked_sub(1).and_then(|before| entries.get(before)) {
        text.push_str(&diff(before, entry)?);
    }
    text.push_str(&clean(&rendered_yaml(&entry.spec)?));
    Ok(text)
}

fn diff(before: &Entry, after: &Entry) -> Result<String, Failure> {
    let diff = render::diff_between([&before.name, &after.name], &printable(&before.spec), &printable(&after.spec))?;
    if diff.is_empty() { Ok(format!("{} and {} inject the same\n", before.name, after.name)) } else { Ok(diff) }
}

fn named(entry: &Entry) -> String {
    let mut marks = Vec::new();
    marks.extend(entry.is_latest.then_some("latest"));
    marks.extend(entry.is_pinned.then_some("pinned"));
    let name = clean_line(&entry.name);
    if marks.is_empty() { name } else { format!("{name} ({})", marks.join(", ")) }
}

/// What a revision holds, without what is empty: Go writes every field.
fn tidy(spec: &Value) -> Value {
    match spec {
        Value::Object(object) => {
            let fields = object.iter().filter(|(key, _)| *key != "$patch");
            let fields = fields.map(|(key, value)| (key.clone(), tidy(value)));
            let is_empty = |value: &Value| {
                value.is_null()
                    || value.as_object().is_some_and(Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty)
            };
            Value::Object(fields.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => items.iter().map(tidy).collect(),
        other => other.clone(),
    }
}

/// The same without what a terminal would act on: the diff has colours of its own.
fn printable(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(text).into_owned()),
        Value::Array(items) => items.iter().map(printable).collect(),
        Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), printable(value))).collect(),
        other => other.clone(),
    }
}
