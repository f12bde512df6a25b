//! Rightsizing.
#![forbid(unsafe_code)]

mod aggregate;
mod amount;
mod buckets;
mod cap;
mod container;
mod decaying_histogram;
mod estimate;
mod float;
mod histogram;
mod limit_range;
mod limits;
mod pod;
mod post_process;
mod recommendation;
mod settings;
mod time;
mod usage;

pub use aggregate::Aggregate;
pub use amount::MAX_AMOUNT;
pub use cap::{Cap, CapNote, Capped, cap};
pub use container::{Container, Rejected};
pub use estimate::{Bound, Derivation, EstimatorSettings, Percentiles};
pub use histogram::CheckpointError;
pub use limit_range::{LimitRangeItem, LimitRanges};
pub use limits::LimitNote;
pub use pod::{Amounts, ContainerKind, OomKill, Owner, PodContainer, PodView, ResizeState, SpecResources};
pub use post_process::{cap_to_policy, round_to_whole_cores};
pub use recommendation::{Candidate, Estimate, RecommendationFormat, recommend};
pub use settings::{MemorySettings, SampleSettings};
pub use usage::{ContainerUsage, Usage, Workload};
