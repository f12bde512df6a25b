//! The history of a set: which ControllerRevision is the latest, which are written, and which are trimmed.

use std::collections::BTreeSet;

use pillion_api::sidecarset::{SidecarSet, revision};
use serde_json::Value;

use crate::revision::StoredRevision;
use crate::target::Target;

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
    older: Vec<StoredRevision<'r>>,
}

impl<'r> History<'r> {
    /// Compares what is stored with the set. Revisions of other sets are ignored.
    pub(crate) fn new(target: &Target, stored: &[StoredRevision<'r>], namespace: &str) -> History<'r> {
        let set = target.set();
        let mut revisions: Vec<StoredRevision<'r>> =
            stored.iter().filter(|stored| stored.is_owned_by(set)).copied().collect();
        revisions.sort_by_key(StoredRevision::rank);
        let next = revisions.last().map_or(1, |newest| newest.number + 1);

        let mut collision_count = revision::collision_count(set);
        let mut writes = Vec::new();
        let latest = if let Some(found) = revisions.iter().rposition(|stored| stored.digest == target.digest) {
            let is_newest = found + 1 == revisions.len();
            let stored = revisions.remove(found);
            if !is_newest {
                writes.push(RevisionWrite::Renumber { name: stored.name.to_owned(), revision: next });
            }
            writes.extend(custom_version(set, &stored));
            stored.name.to_owned()
        } else {
            let is_taken = |new: &Value| stored.iter().any(|stored| new["metadata"]["name"] == stored.name);
            let mut new = revision::with_collision_count(set, next, namespace, collision_count);
            while is_taken(&new) {
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
        let excess = (self.older.len() + 1).saturating_sub(set.spec.history_limit());
        let pinned = self.pinned(set);
        let free = self.older.iter().filter(|stored| Some(stored.name) != pinned && !in_use(stored.name));
        let trimmed: Vec<String> = free.take(excess).map(|stored| stored.name.to_owned()).collect();
        let left = excess - trimmed.len();
        (trimmed, left)
    }

    /// The revision that new pods get, if the set pins one that is not the latest.
    fn pinned(&self, set: &SidecarSet) -> Option<&'r str> {
        let pinned = set.spec.pinned_revision()?;
        let has_version = |stored: &&StoredRevision<'r>| stored.custom_version == pinned.custom_version.as_deref();
        let found = match &pinned.revision_name {
            Some(name) => self.older.iter().find(|stored| stored.name == name),
            // The newest revision with this version is meant, and that is the latest one.
            None if pinned.custom_version == set.spec.custom_version => None,
            None => self.older.iter().rev().find(has_version),
        };
        found.map(|stored| stored.name)
    }

    /// Which fields other than images differ between an older revision and the set, as `CONTAINER.FIELD`; `None` if the revision was not read.
    pub(crate) fn changed_fields(&self, set: &SidecarSet, older: &str) -> Option<BTreeSet<String>> {
        let held = self.older.iter().find(|stored| stored.name == older)?.data?;
        let data: Value = serde_json::from_str(&revision::data(set)).unwrap_or_default();
        let mut fields = BTreeSet::new();
        for list in ["initContainers", "containers"] {
            let (old, new) = (&held["spec"][list], &data["spec"][list]);
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
    let all = stored.into_iter().map(|object| (StoredRevision::of(object), object));
    let mut revisions: Vec<_> = all.filter(|(stored, _)| stored.is_owned_by(set)).collect();
    revisions.sort_by_key(|(stored, _)| stored.rank());
    revisions.into_iter().map(|(_, object)| object).collect()
}

fn containers(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The label that the stored revision should have and does not. Clearing `customVersion` leaves the label, as in Kruise.
fn custom_version(set: &SidecarSet, stored: &StoredRevision<'_>) -> Option<RevisionWrite> {
    let wanted = set.spec.custom_version.as_ref().filter(|version| !version.is_empty())?;
    (stored.custom_version != Some(wanted))
        .then(|| RevisionWrite::SetCustomVersion { name: stored.name.to_owned(), custom_version: wanted.clone() })
}
