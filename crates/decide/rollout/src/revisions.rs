//! The history of a set: which ControllerRevision is the latest, which are written, and which are trimmed.

use std::collections::BTreeSet;

use pillion_api::names;
use pillion_api::sidecarset::{SidecarSet, revision};
use serde_json::Value;

/// What is to be written before any pod refers to it.
#[derive(Clone, Debug, PartialEq)]
pub enum RevisionWrite {
    /// A new ControllerRevision.
    Create(Value),
    /// The set went back to this revision: it gets the highest number.
    Renumber {
        /// The ControllerRevision.
        name: String,
        /// Its new number.
        revision: i64,
    },
    /// The user named this version after it was stored.
    SetCustomVersion {
        /// The ControllerRevision.
        name: String,
        /// The value of the label.
        custom_version: String,
    },
}

/// The history of a set as it should be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct History<'r> {
    /// The name of the latest revision.
    pub(crate) latest: String,
    pub(crate) collision_count: i32,
    pub(crate) writes: Vec<RevisionWrite>,
    /// What there is, from the oldest to the newest, without the latest.
    older: Vec<Stored<'r>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stored<'r> {
    name: &'r str,
    number: i64,
    object: &'r Value,
}

impl<'r> History<'r> {
    /// Compares what is stored with the set. Revisions of other sets are ignored.
    pub(crate) fn new(set: &SidecarSet, stored: impl IntoIterator<Item = &'r Value>, namespace: &str) -> History<'r> {
        let mut taken = BTreeSet::new();
        let stored = stored.into_iter().inspect(|object| _ = taken.insert(name(object)));
        let revisions = history(set, stored).into_iter();
        let mut revisions: Vec<Stored<'r>> =
            revisions.map(|object| Stored { name: name(object), number: number(object), object }).collect();
        let next = revisions.last().map_or(1, |newest| newest.number + 1);

        let data: Value = serde_json::from_str(&revision::data(set)).unwrap_or_default();
        let mut collision_count = revision::collision_count(set);
        let mut writes = Vec::new();
        let latest = if let Some(found) = revisions.iter().rposition(|stored| stored.object["data"] == data) {
            let is_newest = found + 1 == revisions.len();
            let stored = revisions.remove(found);
            if !is_newest {
                writes.push(RevisionWrite::Renumber { name: stored.name.to_owned(), revision: next });
            }
            writes.extend(custom_version(set, &stored));
            stored.name.to_owned()
        } else {
            let mut new = revision::with_collision_count(set, next, namespace, collision_count);
            while taken.contains(new["metadata"]["name"].as_str().unwrap_or_default()) {
                collision_count += 1;
                new = revision::with_collision_count(set, next, namespace, collision_count);
            }
            let name = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            writes.push(RevisionWrite::Create(new));
            name
        };
        History { latest, collision_count, writes, older: revisions }
    }

    /// The revisions to delete, and how many remain above the limit because they are in use.
    pub(crate) fn trim(&self, set: &SidecarSet, in_use: impl Fn(&str) -> bool) -> (Vec<String>, usize) {
        let limit = set.spec.revision_history_limit.unwrap_or(10).max(1);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let excess = (self.older.len() + 1).saturating_sub(limit);
        let pinned = self.pinned(set);
        let free = self.older.iter().filter(|stored| Some(stored.name) != pinned && !in_use(stored.name));
        let trimmed: Vec<String> = free.take(excess).map(|stored| stored.name.to_owned()).collect();
        let left = excess - trimmed.len();
        (trimmed, left)
    }

    /// The revision that new pods get, if the set pins one that is not the latest.
    fn pinned(&self, set: &SidecarSet) -> Option<&'r str> {
        let pinned = set.spec.pinned_revision()?;
        let has_version =
            |stored: &&Stored<'r>| label(stored.object, names::CUSTOM_VERSION) == pinned.custom_version.as_deref();
        let found = match &pinned.revision_name {
            Some(name) => self.older.iter().find(|stored| stored.name == name),
            // The newest revision with this version is meant, and that is the latest one.
            None if pinned.custom_version == set.spec.custom_version => None,
            None => self.older.iter().rev().find(has_version),
        };
        found.map(|stored| stored.name)
    }

    /// Which fields other than images differ between an older revision and the set, as `CONTAINER.FIELD`; `None` if the revision is not stored.
    pub(crate) fn changed_fields(&self, set: &SidecarSet, older: &str) -> Option<BTreeSet<String>> {
        let stored = self.older.iter().find(|stored| stored.name == older)?;
        let data: Value = serde_json::from_str(&revision::data(set)).unwrap_or_default();
        let mut fields = BTreeSet::new();
        for list in ["initContainers", "containers"] {
            let (old, new) = (&stored.object["data"]["spec"][list], &data["spec"][list]);
            for container in containers(old).chain(containers(new)) {
                let name = container["name"].as_str().unwrap_or_default();
                let find = |list| containers(list).find(|container| container["name"] == name);
                let (Some(old), Some(new)) = (find(old), find(new)) else {
                    fields.insert(name.to_owned());
                    continue;
                };
                let keys = |object: &Value| {
                    object.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect::<Vec<_>>()
                };
                let differs = |key: &String| key != "image" && old[key.as_str()] != new[key.as_str()];
                fields
                    .extend(keys(old).into_iter().chain(keys(new)).filter(differs).map(|key| format!("{name}.{key}")));
            }
        }
        Some(fields)
    }
}

/// The ControllerRevisions of a set among others, from the oldest to the newest.
pub fn history<'r>(set: &SidecarSet, stored: impl IntoIterator<Item = &'r Value>) -> Vec<&'r Value> {
    let mut revisions: Vec<&Value> = stored.into_iter().filter(|object| is_owned(set, object)).collect();
    revisions.sort_by_key(|object| (number(object), created(object), name(object)));
    revisions
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn number(object: &Value) -> i64 {
    object["revision"].as_i64().unwrap_or_default()
}

fn containers(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The label that the stored revision should have and does not. Clearing `customVersion` leaves the label, as in Kruise.
fn custom_version(set: &SidecarSet, stored: &Stored<'_>) -> Option<RevisionWrite> {
    let wanted = set.spec.custom_version.as_ref().filter(|version| !version.is_empty())?;
    (label(stored.object, names::CUSTOM_VERSION) != Some(wanted))
        .then(|| RevisionWrite::SetCustomVersion { name: stored.name.to_owned(), custom_version: wanted.clone() })
}

/// Whether a ControllerRevision belongs to the set: by its label, and by its owner unless it has none.
fn is_owned(set: &SidecarSet, object: &Value) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut controllers = owners.filter(|owner| owner["controller"] == true);
    label(object, names::REVISION_OWNER) == Some(set.name())
        && controllers.next().is_none_or(|owner| owner["uid"].as_str() == set.metadata.uid.as_deref().or(Some("")))
}

fn label<'r>(object: &'r Value, key: &str) -> Option<&'r str> {
    object["metadata"]["labels"].get(key)?.as_str()
}

fn created(object: &Value) -> &str {
    object["metadata"]["creationTimestamp"].as_str().unwrap_or_default()
}
