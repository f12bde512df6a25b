//! Which version of the API an object is written in, and what its fields are there.

use serde_json::Value;

use super::shape::{Shape, V1ALPHA1, V1BETA1};
use crate::{field, names};

/// Why JSON is not a SidecarSet.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is something else.
    #[error("apiVersion {api_version:?}, kind {kind:?} is not a SidecarSet of {}", names::GROUP)]
    NotASidecarSet {
        /// The version that it names, or "".
        api_version: String,
        /// The kind that it names, or "".
        kind: String,
    },
    /// It is a SidecarSet of a version that is not known.
    #[error("SidecarSet has no version {api_version:?}; write {} or {}", names::V1BETA1, names::V1ALPHA1)]
    UnknownVersion {
        /// The version that it names.
        api_version: String,
    },
    /// Fields have the wrong type; every one is listed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Fields(Vec<field::Error>),
    /// Its text cannot be read.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// The table for the version that the object says it has.
pub(super) fn shape_of(object: &Value) -> Result<&'static Shape, DecodeError> {
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (names::V1BETA1, names::SIDECARSET_KIND) => Ok(&V1BETA1),
        (names::V1ALPHA1, names::SIDECARSET_KIND) => Ok(&V1ALPHA1),
        (version, names::SIDECARSET_KIND) if version.split('/').next() == Some(names::GROUP) => {
            Err(DecodeError::UnknownVersion { api_version: version.to_owned() })
        }
        (version, kind) => Err(DecodeError::NotASidecarSet { api_version: version.to_owned(), kind: kind.to_owned() }),
    }
}
