//! A pod as the watch reads it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use pillion_informer::Kind;
use pillion_rollout::{PodParts, PodView};
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};
use serde_json::value::RawValue;

use crate::texts::texts;

/// A pod as its text, with what a rollout reads of it.
#[derive(Clone, Debug)]
pub struct PodText {
    pub(crate) rollout: PodView,
    pub(crate) text: Box<RawValue>,
}

impl Kind for PodText {
    type Read = PodText;

    fn read<'de, D: Deserializer<'de>>(text: D) -> Result<(ObjectMeta, PodText), D::Error> {
        let text = Box::<RawValue>::deserialize(text)?;
        let parts: PodParts<'_> = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let owner = |uid: &str| OwnerReference { uid: uid.to_owned(), controller: Some(true), ..Default::default() };
        let metadata = ObjectMeta {
            name: Some(parts.name().to_owned()),
            namespace: Some(parts.namespace().to_owned()),
            uid: Some(parts.uid().to_owned()),
            resource_version: Some(parts.resource_version().to_owned()),
            owner_references: parts.controller_uid().map(|uid| vec![owner(uid)]),
            ..ObjectMeta::default()
        };
        let rollout = parts.view(&mut texts());
        Ok((metadata, PodText { rollout, text }))
    }
}
