//! An object as it is stored.

use bytes::Bytes;

/// An object at one version. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Compact JSON; `metadata.resourceVersion` is [`Stored::resource_version`].
    pub bytes: Bytes,
    /// The version that the last write to this object made.
    pub resource_version: u64,
}
