//! Writes: what is asked, what may refuse it, and what it does.

use serde_json::{Map, Value};

use crate::text::Text;
use crate::write_error::WriteError;
use crate::{Event, EventKind, Key, Stored};

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
