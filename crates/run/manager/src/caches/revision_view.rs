//! What is kept of a ControllerRevision: enough to name it, and to see whether it holds what a SidecarSet says now.
//!
//! A cluster has several for each SidecarSet, and nearly all of them are only history. The few that new pods get are read whole from the API
//! server when a set pins them.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::ResourceExt as _;
use pillion_api::digest::Digest;
use pillion_api::names;
use pillion_api::sidecarset::{SidecarSet, revision};
use pillion_informer::{Cache, Kind, Watched, controller_of};
use pillion_inject::Revisions;
use pillion_pods::shared;
use pillion_rollout::StoredRevision;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// What is kept of a ControllerRevision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RevisionView {
    name: Box<str>,
    /// The SidecarSet that the label names.
    owner: Option<Arc<str>>,
    /// The UID of the owner that controls it.
    controller: Option<Arc<str>>,
    custom_version: Option<Box<str>>,
    number: i64,
    created: Option<Timestamp>,
    /// Stands for what it holds.
    pub(crate) digest: Digest,
}

/// What is read of a ControllerRevision.
#[derive(Clone, Debug)]
pub(crate) struct OfRevision {
    created: Option<Timestamp>,
    labels: Labels,
    data: Data,
    revision: i64,
}

/// The text of a ControllerRevision, as far as it is looked at.
#[derive(Deserialize)]
struct Raw {
    metadata: RawMetadata,
    #[serde(default)]
    data: Data,
    #[serde(default)]
    revision: i64,
}

/// The metadata that is looked at. Most of the rest is `managedFields`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    labels: Option<Labels>,
    owner_references: Option<Vec<Owner>>,
}

/// The labels [`names::REVISION_OWNER`] and [`names::CUSTOM_VERSION`].
#[derive(Clone, Debug, Default, Deserialize)]
struct Labels {
    #[serde(rename = "kruise.io/sidecarset-name")]
    owner: Option<String>,
    #[serde(rename = "apps.kruise.io/sidecarset-custom-version")]
    custom_version: Option<String>,
}

#[derive(Deserialize)]
struct Owner {
    uid: String,
    controller: Option<bool>,
}

impl Kind for OfRevision {
    type Read = OfRevision;

    fn read<'de, D: Deserializer<'de>>(text: D) -> Result<(ObjectMeta, OfRevision), D::Error> {
        let Raw { metadata, data, revision } = Raw::deserialize(text)?;
        let owner = |Owner { uid, controller }| OwnerReference { uid, controller, ..OwnerReference::default() };
        let known = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            owner_references: metadata.owner_references.map(|owners| owners.into_iter().map(owner).collect()),
            ..ObjectMeta::default()
        };
        let created = metadata.creation_timestamp.map(|time| time.0);
        Ok((known, OfRevision { created, labels: metadata.labels.unwrap_or_default(), data, revision }))
    }
}

impl pillion_informer::View for RevisionView {
    type Object = Watched<OfRevision>;

    /// `None` for the ControllerRevision of a workload. One without the label of its owner can be pinned by its name.
    fn of(object: Watched<OfRevision>) -> Option<RevisionView> {
        let (name, controller) = (object.name_any(), controller_of(&object).map(|owner| shared(&owner.uid)));
        let OfRevision { created, labels, data, revision } = object.into_read();
        let is_known = labels.owner.is_some() || data.holds_a_sidecar_set;
        is_known.then(|| RevisionView {
            owner: labels.owner.as_deref().map(shared),
            controller,
            custom_version: labels.custom_version.map(Into::into),
            number: revision,
            created,
            digest: data.digest,
            name: name.into(),
        })
    }

    fn is_same(&self, old: &RevisionView) -> bool {
        self == old
    }

    fn groups(&self) -> Vec<Arc<str>> {
        self.owner.iter().cloned().collect()
    }
}

impl RevisionView {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// The ControllerRevision as the history of its set sees it, with what it holds if that was read.
    pub(crate) fn stored<'r>(&'r self, data: Option<&'r Value>) -> StoredRevision<'r> {
        StoredRevision {
            name: &self.name,
            owner: self.owner.as_deref(),
            controller: self.controller.as_deref(),
            custom_version: self.custom_version.as_deref(),
            number: self.number,
            created: self.created,
            digest: self.digest,
            data,
        }
    }

    /// The ControllerRevision as far as it can be pinned: without what it holds.
    fn to_value(&self) -> Value {
        let labels =
            [(names::REVISION_OWNER, self.owner.as_deref()), (names::CUSTOM_VERSION, self.custom_version.as_deref())];
        let labels = labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), Value::from(value?))));
        json!({"metadata": {"name": self.name, "labels": labels.collect::<serde_json::Map<_, _>>()}, "revision": self.number})
    }
}

/// The ControllerRevisions that `set` may pin, without what they hold.
pub(crate) fn pinnable_by(set: &SidecarSet, known: &Cache<RevisionView>, namespace: &str) -> Revisions {
    let named = set.spec.pinned_revision().and_then(|pinned| known.get(namespace, &pinned.revision_name?));
    known.in_group(set.name()).into_iter().chain(named).map(|stored| stored.to_value()).collect()
}

/// Whether a ControllerRevision that was read holds what the view says.
pub(crate) fn holds(whole: &Value, digest: Digest) -> bool {
    Digest::of(&whole["data"]) == digest && revision::holds_a_sidecar_set(whole)
}

/// What a ControllerRevision holds, as far as it is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Data {
    digest: Digest,
    /// As [`revision::holds_a_sidecar_set`] sees it.
    holds_a_sidecar_set: bool,
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Data, D::Error> {
        let (digest, holds_a_sidecar_set) = Digest::read_and_look(deserializer, &["spec", "$patch"], "replace")?;
        Ok(Data { digest, holds_a_sidecar_set })
    }
}

#[cfg(test)]
mod tests {
    use pillion_informer::View as _;
    use pillion_testkit::{mk_container, mk_set};

    use super::*;

    fn view(stored: &Value) -> Option<RevisionView> {
        RevisionView::of(serde_json::from_str(&stored.to_string()).unwrap())
    }

    #[test]
    fn a_view_says_of_a_revision_what_the_revision_says() {
        let mut set =
            mk_set("mesh", json!({"app": "web"}), json!({"containers": [mk_container("c")], "customVersion": "v1"}));
        set.metadata.uid = Some("7".to_owned());
        let mut stored = revision::new(&set, 3, "kruise-system");
        stored["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let view = view(&stored).unwrap();
        assert!(holds(&stored, view.digest) && !holds(&json!({"data": {}}), view.digest));
        assert_eq!(view.stored(Some(&stored["data"])), StoredRevision::of(&stored));
        assert_eq!(view.digest, revision::digest(&set));
        assert_eq!(revision::described("mesh", &view.to_value()), revision::described("mesh", &stored));
    }

    #[test]
    fn revisions_without_a_label_are_known_and_those_of_workloads_are_not() {
        let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [mk_container("c")]}));
        let mut unlabelled = revision::new(&set, 1, "kruise-system");
        unlabelled["metadata"]["labels"] = json!({});
        assert!(view(&unlabelled).is_some());
        let workload = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": "daemon-1"},
            "data": {"spec": {"template": {"$patch": "replace"}}}, "revision": 1,
        });
        assert_eq!(view(&workload), None);
    }
}
