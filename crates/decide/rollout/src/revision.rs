//! A ControllerRevision as the history of its SidecarSet sees it.

use jiff::Timestamp;
use pillion_api::digest::Digest;
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use serde_json::Value;

/// A ControllerRevision that is stored. Whether it holds what a set says now is seen by its digest: what it holds is often not at hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoredRevision<'r> {
    pub name: &'r str,
    /// The SidecarSet that its label names.
    pub owner: Option<&'r str>,
    /// The UID of the owner that controls it.
    pub controller: Option<&'r str>,
    /// The name that the user gave this version.
    pub custom_version: Option<&'r str>,
    pub number: i64,
    pub created: Option<Timestamp>,
    /// Stands for what it holds.
    pub digest: Digest,
    /// What it holds, if that was read.
    pub data: Option<&'r Value>,
}

impl<'r> StoredRevision<'r> {
    /// A whole ControllerRevision.
    pub fn of(object: &'r Value) -> StoredRevision<'r> {
        let metadata = &object["metadata"];
        let label = |key: &str| metadata["labels"].get(key)?.as_str();
        let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let controller = owners.find(|owner| owner["controller"] == true);
        StoredRevision {
            name: metadata["name"].as_str().unwrap_or_default(),
            owner: label(names::REVISION_OWNER),
            controller: controller.map(|owner| owner["uid"].as_str().unwrap_or_default()),
            custom_version: label(names::CUSTOM_VERSION),
            number: object["revision"].as_i64().unwrap_or_default(),
            created: metadata["creationTimestamp"].as_str().and_then(|at| at.parse().ok()),
            digest: Digest::of(&object["data"]),
            data: Some(&object["data"]),
        }
    }

    /// Whether it belongs to the set: by its label, and by its owner unless it has none.
    pub(crate) fn is_owned_by(&self, set: &SidecarSet) -> bool {
        let uid = set.metadata.uid.as_deref().unwrap_or_default();
        self.owner == Some(set.name()) && self.controller.is_none_or(|controller| controller == uid)
    }

    /// Older revisions have a lower rank.
    pub(crate) fn rank(&self) -> (i64, Option<Timestamp>, &'r str) {
        (self.number, self.created, self.name)
    }
}
