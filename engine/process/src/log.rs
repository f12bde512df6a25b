//! What containers write: one file to an attempt, in the format of the Container Runtime Interface.

mod entry;
mod read;
mod write;

pub use read::LogOptions;
pub(crate) use read::read;
pub(crate) use write::pump;

/// How far a log is, for those who follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Changes with everything that is written.
    written: u64,
    /// How often a new file was begun.
    rotations: u64,
    /// Whether nothing will be written any more.
    pub(crate) finished: bool,
}
