//! Hot updates: what is asked for, whether it is taken, and what a restarted pod has to do.

mod entry;
mod journal;
mod outcome;
mod trigger;
mod version;

pub(crate) use entry::read_entry;
pub use entry::{Entry, LONGEST_ENTRY, RESULTS, entries_of, workload_of};
pub use journal::{Journal, OnDisk, Resume, resume};
pub use outcome::UpdateOutcome;
pub use trigger::{Refusal, Source, Trigger, check_host};
pub use version::Version;
