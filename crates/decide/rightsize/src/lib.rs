//! Rightsizing.
#![forbid(unsafe_code)]

mod admission;
mod aggregate;
mod amount;
mod boost;
mod buckets;
mod cap;
mod container;
mod decaying_histogram;
mod estimate;
mod float;
mod histogram;
mod limit_range;
mod limits;
mod patch;
mod pod;
mod post_process;
mod recommendation;
mod settings;
mod target;
mod time;
mod usage;

pub use admission::{Admission, admit};
pub use aggregate::Aggregate;
pub use amount::MAX_AMOUNT;
pub use boost::{BoostError, Unboost, unboost};
pub use cap::{Cap, CapNote, Capped, cap};
pub use container::{Container, Rejected};
pub use estimate::{Bound, Derivation, EstimatorSettings, Percentiles};
pub use histogram::CheckpointError;
pub use limit_range::{LimitRangeItem, LimitRanges};
pub use limits::LimitNote;
pub use patch::{annotation_patch, annotation_removal_patch, resource_patch};
pub use pod::{Amounts, ContainerKind, OomKill, Owner, PodContainer, PodView, ResizeState, SpecResources};
pub use post_process::{cap_to_policy, round_to_whole_cores};
pub use recommendation::{Candidate, Estimate, RecommendationFormat, recommend};
pub use settings::{MemorySettings, SampleSettings};
pub use target::{ContainerTarget, TargetNote, capped_recommendation, container_targets};
pub use usage::{ContainerUsage, Usage, Workload};
