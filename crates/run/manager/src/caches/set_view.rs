//! What is kept of a SidecarSet.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use pillion_api::names;
use pillion_api::sidecarset::{self, DecodeError, InjectRevisionPolicy, Packed, SidecarSet, SidecarSetStatus};
use pillion_informer::{Kind, Watched, part};
use pillion_partial::Keep;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use serde_json::value::RawValue;

/// What is read of a SidecarSet: the set, or why it cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct OfSet;

impl Kind for OfSet {
    type Read = Result<SidecarSet, Arc<DecodeError>>;

    fn read<'de, D: Deserializer<'de>>(text: D) -> Result<(ObjectMeta, Self::Read), D::Error> {
        let text = <&RawValue>::deserialize(text)?;
        match sidecarset::decode_stored(text) {
            Ok(set) => {
                let metadata = &set.metadata;
                let known = ObjectMeta {
                    name: metadata.name.clone(),
                    uid: metadata.uid.clone(),
                    resource_version: metadata.resource_version.clone(),
                    owner_references: metadata.owner_references.clone(),
                    ..ObjectMeta::default()
                };
                Ok((known, Ok(set)))
            }
            Err(error) => {
                let mut text = serde_json::Deserializer::from_str(text.get());
                let (metadata, _) = part(METADATA, &mut text).map_err(D::Error::custom)?;
                Ok((metadata, Err(Arc::new(error))))
            }
        }
    }
}

const METADATA: Keep = Keep::Fields(&[("metadata", Keep::Without("managedFields"))]);

/// A SidecarSet as admission sees it, and the status that its rollout has written.
#[derive(Debug)]
pub(crate) struct SetView {
    /// The set with nothing in it that admission does not look at, so that sets that differ only in that are the same.
    packed: Packed,
    /// What the rollout has written, as JSON: too short to be worth packing.
    rollout: Option<Box<str>>,
    version: Option<Box<str>>,
    /// The revision that it names in its pin.
    pinned: Option<Arc<str>>,
    /// Whether it is for some namespaces only.
    pub(crate) is_scoped: bool,
}

impl SetView {
    /// The text of the set as admission sees it.
    pub(crate) fn packed(&self) -> &Packed {
        &self.packed
    }

    /// The set as its rollout sees it. What other controllers report in the status is not there.
    pub(crate) fn of_rollout(&self) -> Option<SidecarSet> {
        let mut set = self.packed.unpack()?;
        set.status = self.rollout.as_ref().and_then(|status| serde_json::from_str(status).ok());
        set.metadata.resource_version = self.version.as_deref().map(str::to_owned);
        Some(set)
    }
}

impl pillion_informer::View for SetView {
    type Object = Watched<OfSet>;

    /// `None` for a set that cannot be used: it was stored while no webhook checked it.
    fn of(object: Watched<OfSet>) -> Option<SetView> {
        let name = object.name_any();
        let mut set = object.into_read().inspect_err(|error| unusable(&name, &**error)).ok()?;
        let version = set.metadata.resource_version.take().map(Into::into);
        let policy = set.spec.pinned_revision().and_then(|pinned| pinned.policy);
        let counts_pods = matches!(policy, Some(InjectRevisionPolicy::Partial | InjectRevisionPolicy::Quota));
        let rollout = set.status.clone().map(|status| SidecarSetStatus {
            missed_pods: None,
            conditions: status.conditions.into_iter().filter(|condition| is_of_rollout(&condition.type_)).collect(),
            ..status
        });
        set.status = set.status.map(|status| SidecarSetStatus {
            collision_count: status.collision_count,
            matched_pods: if counts_pods { status.matched_pods } else { 0 },
            missed_pods: status.missed_pods,
            conditions: status.conditions.into_iter().filter(|condition| is_ours(&condition.type_)).collect(),
            ..SidecarSetStatus::default()
        });
        Some(SetView {
            packed: Packed::new(&set),
            rollout: rollout.and_then(|status| serde_json::to_string(&status).ok()).map(Into::into),
            version,
            pinned: pinned_name(&set).map(Into::into),
            is_scoped: set.spec.namespace_selector.is_some(),
        })
    }

    fn is_same(&self, old: &SetView) -> bool {
        self.packed == old.packed && self.rollout == old.rollout
    }

    /// The revision that it pins: a revision finds the sets that need it.
    fn groups(&self) -> Vec<Arc<str>> {
        self.pinned.iter().cloned().collect()
    }
}

/// The revision that a set names in its pin.
pub(crate) fn pinned_name(set: &SidecarSet) -> Option<String> {
    set.spec.pinned_revision()?.revision_name
}

/// Whether the rollout writes conditions of this type.
fn is_of_rollout(condition_type: &str) -> bool {
    matches!(
        condition_type,
        pillion_rollout::PROGRESSING
            | pillion_rollout::AVAILABLE
            | pillion_rollout::BLOCKED
            | pillion_rollout::PINNED_REVISION
    )
}

/// Whether the manager writes conditions of this type by what the view says.
fn is_ours(condition_type: &str) -> bool {
    matches!(condition_type, names::PODS_INJECTED | names::FAILURE_POLICY_ENFORCED)
}

/// Says that a set is left out.
pub(crate) fn unusable(name: &str, error: &(dyn std::error::Error + 'static)) {
    tracing::warn!(sidecarset = name, error, "this SidecarSet is not injected: it cannot be used");
}

#[cfg(test)]
mod tests {
    use kube::Resource as _;
    use kube::core::WatchEvent;
    use pillion_informer::View as _;

    use super::*;

    fn added(text: &str) -> Watched<OfSet> {
        let event = format!(r#"{{"type":"ADDED","object":{text}}}"#);
        match serde_json::from_str(&event).unwrap() {
            WatchEvent::Added(object) => object,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_set_is_read_from_an_event_of_a_watch() {
        let set = r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"name":"mesh","uid":"1","resourceVersion":"7"}}"#;
        let object = added(set);
        let metadata = object.meta();
        assert_eq!((metadata.name.as_deref(), metadata.resource_version.as_deref()), (Some("mesh"), Some("7")));
        assert_eq!(SetView::of(object).unwrap().packed().unpack().unwrap().name(), "mesh");
    }

    #[test]
    fn a_set_that_cannot_be_used_has_its_name_and_version() {
        let set = r#"{"apiVersion":"apps.kruise.io/v1beta1","kind":"SidecarSet","metadata":{"name":"mesh","resourceVersion":"7"},"spec":{"containers":5}}"#;
        let object = added(set);
        assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
        assert!(SetView::of(object).is_none());
    }
}
