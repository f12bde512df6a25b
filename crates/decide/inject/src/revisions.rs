//! The ControllerRevisions that SidecarSets may pin.

use std::sync::Arc;

use imbl::{HashMap, OrdSet};
use pillion_api::names;
use pillion_api::sidecarset::validation::Revision;
use pillion_api::sidecarset::{InjectRevision, SidecarSet, revision};
use serde_json::Value;

/// ControllerRevisions, by name and by the SidecarSet that they belong to. Clones share what they have in common.
#[derive(Clone, Debug, Default)]
pub struct Revisions {
    by_name: HashMap<Arc<str>, Arc<Value>>,
    by_owner: HashMap<String, OrdSet<Arc<str>>>,
}

impl Revisions {
    /// Adds a ControllerRevision, in the place of the one of its name.
    pub fn insert(&mut self, stored: Arc<Value>) {
        let name: Arc<str> = Arc::from(name_of(&stored));
        self.remove(&name);
        if let Some(owner) = owner_of(&stored) {
            self.by_owner.entry(owner.to_owned()).or_default().insert(Arc::clone(&name));
        }
        self.by_name.insert(name, stored);
    }

    /// Removes the ControllerRevision of this name, if it is there.
    pub fn remove(&mut self, name: &str) {
        let Some(stored) = self.by_name.remove(name) else { return };
        let Some(owner) = owner_of(&stored) else { return };
        if let Some(names) = self.by_owner.get_mut(owner) {
            names.remove(name);
            if names.is_empty() {
                self.by_owner.remove(owner);
            }
        }
    }

    /// The ControllerRevision of this name, whatever it belongs to.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.by_name.get(name).map(AsRef::as_ref)
    }

    /// Returns the revisions that decide whether `set` may pin one: its own, and the one that it names, which may belong to another set.
    pub fn candidates<'r>(&'r self, set: &SidecarSet) -> Vec<Revision<'r>> {
        let own = self.by_owner.get(set.name()).into_iter().flatten().filter_map(|name| self.by_name.get(name));
        let pinned = set.spec.pinned_revision().and_then(|pinned| self.by_name.get(pinned.revision_name?.as_str()));
        own.chain(pinned).map(|stored| revision::described(set.name(), stored)).collect()
    }

    /// The name of the revision that `set` pins, if it is there. It need not hold anything.
    pub fn pinned_by(&self, set: &SidecarSet) -> Option<&str> {
        self.pinned(set, &set.spec.pinned_revision()?).map(name_of)
    }

    /// Which revision is missing, if `set` pins one that does not exist or is not its own.
    pub fn missing_for(&self, set: &SidecarSet) -> Option<String> {
        let pinned = set.spec.pinned_revision()?;
        let is_there = self.pinned(set, &pinned).is_some();
        (!is_there).then(|| self.missing(&pinned))
    }

    pub(crate) fn missing(&self, pinned: &InjectRevision) -> String {
        let Some(name) = &pinned.revision_name else {
            let version = pinned.custom_version.as_deref().unwrap_or_default();
            return format!(
                "a ControllerRevision with customVersion {version:?} is pinned for new pods and does not exist"
            );
        };
        match self.get(name).map(|other| owner_of(other).unwrap_or_default()) {
            Some(owner) => {
                format!("ControllerRevision {name:?} is pinned for new pods and belongs to SidecarSet {owner:?}")
            }
            None => format!("ControllerRevision {name:?} is pinned for new pods and does not exist"),
        }
    }

    /// The revision that `set` pins. Of several with the same custom version it is the newest.
    pub(crate) fn pinned(&self, set: &SidecarSet, pinned: &InjectRevision) -> Option<&Value> {
        if let Some(name) = &pinned.revision_name {
            return self.get(name).filter(|stored| revision::is_pinnable(set.name(), stored));
        }
        let version = pinned.custom_version.as_deref();
        let own = self.by_owner.get(set.name()).into_iter().flatten().filter_map(|name| self.get(name));
        let is_meant = |stored: &&Value| revision::described(set.name(), stored).custom_version == version;
        own.filter(is_meant).max_by_key(|stored| stored["revision"].as_i64())
    }
}

impl FromIterator<Value> for Revisions {
    fn from_iter<I: IntoIterator<Item = Value>>(stored: I) -> Revisions {
        let mut revisions = Revisions::default();
        for stored in stored {
            revisions.insert(Arc::new(stored));
        }
        revisions
    }
}

pub(crate) fn name_of(stored: &Value) -> &str {
    stored["metadata"]["name"].as_str().unwrap_or_default()
}

/// The SidecarSet that the label of a ControllerRevision names.
pub(crate) fn owner_of(stored: &Value) -> Option<&str> {
    stored["metadata"]["labels"].get(names::REVISION_OWNER)?.as_str()
}

#[cfg(test)]
mod tests {
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::json;

    use super::*;

    fn stored(name: &str, owner: Option<&str>, number: i64) -> Value {
        let mut labels = json!({names::CUSTOM_VERSION: "v1"});
        if let Some(owner) = owner {
            labels[names::REVISION_OWNER] = json!(owner);
        }
        json!({"metadata": {"name": name, "labels": labels}, "revision": number})
    }

    fn pins(pin: Value) -> SidecarSet {
        let spec = json!({"containers": [mk_container("c")], "injectionStrategy": {"revision": pin}});
        mk_set("mesh", json!({"app": "web"}), spec)
    }

    fn found(revisions: &Revisions, pin: Value) -> Option<&str> {
        let set = pins(pin);
        revisions.pinned(&set, &set.spec.pinned_revision()?).map(name_of)
    }

    #[test]
    fn a_revision_is_found_by_its_name_unless_it_belongs_to_another_set() {
        let revisions: Revisions =
            [stored("mesh-1", Some("mesh"), 1), stored("other-1", Some("other"), 1), stored("free", None, 1)]
                .into_iter()
                .collect();
        assert_eq!(found(&revisions, json!({"revisionName": "mesh-1"})), Some("mesh-1"));
        assert_eq!(found(&revisions, json!({"revisionName": "free"})), Some("free"));
        assert_eq!(found(&revisions, json!({"revisionName": "other-1"})), None);
        assert_eq!(found(&revisions, json!({"revisionName": "gone"})), None);
    }

    #[test]
    fn of_several_revisions_with_a_custom_version_the_newest_is_found() {
        let mut revisions: Revisions =
            [stored("mesh-2", Some("mesh"), 2), stored("mesh-1", Some("mesh"), 1), stored("free", None, 9)]
                .into_iter()
                .collect();
        assert_eq!(
            found(&revisions, json!({"customVersion": "v1"})),
            Some("mesh-2"),
            "a custom version needs an owner"
        );
        assert_eq!(found(&revisions, json!({"customVersion": "v2"})), None);
        revisions.remove("mesh-2");
        assert_eq!(found(&revisions, json!({"customVersion": "v1"})), Some("mesh-1"));
        assert_eq!(revisions.missing_for(&pins(json!({"customVersion": "v1"}))), None);
        revisions.remove("mesh-1");
        assert!(revisions.missing_for(&pins(json!({"customVersion": "v1"}))).unwrap().contains("does not exist"));
        assert!(revisions.by_owner.is_empty());
    }

    #[test]
    fn a_revision_that_changes_its_owner_leaves_the_old_one() {
        let mut revisions: Revisions = [stored("mesh-1", Some("mesh"), 1)].into_iter().collect();
        revisions.insert(Arc::new(stored("mesh-1", Some("other"), 1)));
        assert_eq!(found(&revisions, json!({"customVersion": "v1"})), None);
        let set = pins(json!({"revisionName": "mesh-1"}));
        let owners: Vec<_> = revisions.candidates(&set).iter().map(|known| known.other_owner).collect();
        assert_eq!(owners, [Some("other")]);
    }
}
