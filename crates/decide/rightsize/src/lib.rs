//! Rightsizing.
#![forbid(unsafe_code)]

mod aggregate;
mod amount;
mod buckets;
mod container;
mod decaying_histogram;
mod estimate;
mod float;
mod histogram;
mod settings;
mod time;

pub use aggregate::Aggregate;
pub use amount::MAX_AMOUNT;
pub use container::{Container, Rejected};
pub use estimate::{Bound, Derivation, EstimatorSettings, Percentiles};
pub use histogram::CheckpointError;
pub use settings::{MemorySettings, SampleSettings};
