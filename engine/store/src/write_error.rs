//! Why a write was not done.

use std::path::PathBuf;
use std::sync::Arc;

use crate::stored::Stored;

/// The most bytes that an object may have as JSON: what etcd takes in one request.
pub(crate) const LARGEST_OBJECT: usize = 3 << 19;

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
