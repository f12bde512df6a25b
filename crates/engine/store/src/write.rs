//! Writes: what is asked, what may refuse it, and what it does.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::text::Text;
use crate::{Event, EventKind, Key, Stored};

/// As many bytes may an object have as JSON: what etcd takes in one request.
pub(crate) const LARGEST_OBJECT: usize = 3 << 19;

/// One change of one object.
///
/// The store sets `metadata.resourceVersion` of the object, in the place where it is already, if it is. Everything
/// else in the object is stored as given.
#[derive(Clone, Debug)]
pub enum Write {
    /// Stores an object where none is.
    Create {
        /// Where.
        key: Key,
        /// What.
        object: Map<String, Value>,
    },
    /// Replaces an object, if it is still as the caller read it.
    Update {
        /// Where.
        key: Key,
        /// The resourceVersion that the caller read.
        expected: u64,
        /// What.
        object: Map<String, Value>,
    },
    /// Removes an object, if it is still as the caller read it.
    Delete {
        /// Where.
        key: Key,
        /// The resourceVersion that the caller read.
        expected: u64,
    },
}

/// Why a write was not done.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is such an object.
    #[error("the object already exists")]
    AlreadyExists,
    /// There is no such object.
    #[error("the object was not found")]
    NotFound,
    /// The object is not as the caller read it.
    #[error("the object has been modified; it is at resourceVersion {} now", current.resource_version)]
    Conflict {
        /// The object as it is.
        current: Stored,
    },
    /// The object is larger than etcd would take.
    #[error("the object has more than {LARGEST_OBJECT} bytes")]
    TooLarge,
    /// The object is not one.
    #[error("the object cannot be stored: {0}")]
    Object(&'static str),
    /// The disk refused. Reading goes on, and the next write tries the disk again.
    #[error(transparent)]
    Storage(Arc<StorageError>),
}

/// Why the disk refused a write.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A transaction failed. None of its writes is visible.
    #[error("cannot write to {}: see that its disk has space and works, then try again", path.display())]
    Commit {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: redb::Error,
    },
    /// The thread that commits is gone; it ends early only by a mistake in this program.
    #[error("nothing writes to {} any more after an internal error: restart this program", path.display())]
    Ended {
        /// The file.
        path: PathBuf,
    },
}

/// A write whose object is serialised already.
pub(crate) enum Draft {
    Create { key: Key, text: Text },
    Update { key: Key, expected: u64, text: Text },
    Delete { key: Key, expected: u64 },
}

impl Draft {
    pub(crate) fn new(write: Write) -> Result<Draft, WriteError> {
        Ok(match write {
            Write::Create { key, object } => Draft::Create { key, text: Text::new(object)? },
            Write::Update { key, expected, object } => Draft::Update { key, expected, text: Text::new(object)? },
            Write::Delete { key, expected } => Draft::Delete { key, expected },
        })
    }

    pub(crate) fn key(&self) -> &Key {
        match self {
            Draft::Create { key, .. } | Draft::Update { key, .. } | Draft::Delete { key, .. } => key,
        }
    }

    /// What this write does at that version to what is stored under its key.
    pub(crate) fn decide(&self, key: Key, current: Option<Stored>, version: u64) -> Result<Event, WriteError> {
        let (kind, object) = match (self, &current) {
            (Draft::Create { .. }, Some(_)) => return Err(WriteError::AlreadyExists),
            (Draft::Update { .. } | Draft::Delete { .. }, None) => return Err(WriteError::NotFound),
            (Draft::Update { expected, .. } | Draft::Delete { expected, .. }, Some(current))
                if current.resource_version != *expected =>
            {
                return Err(WriteError::Conflict { current: current.clone() });
            }
            (Draft::Create { text, .. }, None) => (EventKind::Added, text.at(version)),
            (Draft::Update { text, .. }, Some(_)) => (EventKind::Modified, text.at(version)),
            (Draft::Delete { .. }, Some(current)) => (EventKind::Deleted, Text::of(current.bytes.clone())?.at(version)),
        };
        Ok(Event { kind, key, object, previous: current })
    }
}
