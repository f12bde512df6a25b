//! What a write did.

use crate::{Key, Stored};

/// What happened to an object; the words of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was created.
    Added,
    /// It was updated.
    Modified,
    Deleted,
}

/// One write: what a watch yields, and what the writer gets back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// To which object.
    pub key: Key,
    /// The object as it is now. After a deletion: as it last was, with the resourceVersion of the deletion.
    pub object: Stored,
    /// The object as it was before; `None` when it was created.
    pub previous: Option<Stored>,
}

impl Event {
    /// The version that this write made.
    pub fn resource_version(&self) -> u64 {
        self.object.resource_version
    }

    /// What is stored under the key from now on.
    pub(crate) fn state(&self) -> Option<&Stored> {
        (self.kind != EventKind::Deleted).then_some(&self.object)
    }

    /// An upper bound of what remembering this event costs: both texts may be held by nothing else.
    pub(crate) fn size(&self) -> usize {
        self.object.bytes.len() + self.previous.as_ref().map_or(0, |previous| previous.bytes.len())
    }
}
