//! Rightsizing: from samples of usage to what a pod should have, as the Vertical Pod Autoscaler does it.
//!
//! ```
//! use jiff::{SignedDuration, Timestamp};
//! use pillion_api::vpa::Gates;
//! use pillion_rightsize::{
//!     Candidate, ContainerKind, EstimatorSettings, RecommendationFormat, SampleSettings, Usage, Workload, recommend,
//! };
//!
//! let web = Workload { namespace: "shop".into(), kind: "Deployment".into(), name: "web".into() };
//! let start = Timestamp::UNIX_EPOCH;
//! let mut usage = Usage::new(SampleSettings::default(), Gates { native_sidecar: true, ..Gates::default() });
//! usage.add_pod("web-0", &web, [("app", ContainerKind::Regular), ("mesh", ContainerKind::NativeSidecar)], start);
//! for minute in 0..60 {
//!     let at = start + SignedDuration::from_mins(minute);
//!     usage.add_sample("web-0", "mesh", 100, 300 << 20, at)?;
//! }
//!
//! let history: Vec<Candidate<'_>> = usage
//!     .containers(&web)
//!     .filter_map(|it| Some(Candidate { name: it.name(), kind: it.kind()?, aggregate: it.aggregate(), policy: None }))
//!     .collect();
//! let estimates = recommend(&history, &EstimatorSettings::default());
//! let recommendation = RecommendationFormat::default().apply(&estimates);
//! let mesh = recommendation.of("mesh").unwrap();
//! assert_eq!(mesh.target.get("cpu").unwrap().to_string(), "126m");
//! // Nothing was measured of `app`, so nothing is recommended for it.
//! assert_eq!(recommendation.of("app"), None);
//! assert!(estimates[0].derivations[1].to_string().starts_with("90th percentile of cpu is 110m, with margin 126m"));
//! # Ok::<(), pillion_rightsize::Rejected>(())
//! ```
//!
//! ```text
//!  samples, OOM kills ──▶ Usage: by workload and container ──▶ Aggregate: two decaying histograms ◀──▶ checkpoint v3
//!                                                                 │
//!                          recommend: percentile ▸ margin ▸ confidence ▸ minimum (each number with its Derivation)
//!                                                                 │
//!                          RecommendationFormat ▸ round_to_whole_cores ▸ cap_to_policy ──▶ status of the autoscaler
//!                                                                 │
//!  Pod, LimitRanges ──▶ cap: LimitRange of pods ▸ of containers ▸ policy ▸ own limit ──▶ container_targets
//!                                                                 │
//!                                     admit (a new pod) ◀─────────┴─────────▶ update::Pass (running pods)
//! ```
//!
//! # Invariants
//! - Pure: no clock, no IO, no randomness; the same samples give the same bits on every machine.
//! - Buckets, weights and checkpoints are those of upstream's recommender: either reads what the other wrote. Every difference
//!   in what is estimated or decided is listed in `docs/compat.md`.
//! - History belongs to a workload and a container. New pods of the same workload add none.
//! - A histogram takes room only for buckets that have weight; a container at rest takes less than a kilobyte.
//! - With the gate `NativeSidecar` off nothing here looks at a native sidecar. Plain init containers are never looked at.
#![forbid(unsafe_code)]

mod admission;
mod aggregate;
mod amount;
mod amounts;
mod author;
mod autoscalers;
mod boost;
mod boosted_cpu;
mod buckets;
mod cap;
mod conditions;
mod control;
mod decaying_histogram;
mod estimate;
mod float;
mod histogram;
mod horizontal;
mod limit_range;
mod limits;
mod missing;
mod oom;
mod patch;
mod pod;
mod pod_range;
mod post_process;
mod qos_share;
mod recommendation;
mod settings;
mod target;
mod time;
mod topmost;
pub mod update;
mod usage;
mod writes;

pub use admission::{Admission, Sizing, admit, annotations, size};
pub use aggregate::Aggregate;
pub use aggregate::container::{Container, Rejected};
pub use amount::{MAX_AMOUNT, amount};
pub use author::{is_recommended_by, keep_recommenders};
pub use autoscalers::Autoscalers;
pub use boost::{Unboost, unboost};
pub use boosted_cpu::BoostError;
pub use cap::{Cap, CapNote, Capped, cap};
pub use conditions::{Observed, ignored_bounds, update_conditions};
pub use control::{
    WELL_KNOWN_CONTROLLERS, admits, controlling, is_refused, is_target, refuse_set_target, sized_set, target_of,
    targeted_set, targets_custom_resource, unsupported, without_containers, workload_of, workload_of_set,
};
pub use estimate::{Bound, Derivation, EstimatorSettings, Percentiles};
pub use histogram::CheckpointError;
pub use horizontal::horizontal_conflicts;
pub use limit_range::{LimitRangeItem, LimitRanges};
pub use limits::LimitNote;
pub use missing::Missing;
pub use oom::{MemoryEviction, NewOom, memory_evictions, new_ooms};
pub use patch::{annotation_patch, annotation_removal_patch, resource_patch};
pub use pod::{
    Amounts, ContainerKind, InitContainer, OomKill, Owner, PodContainer, PodView, ResizeState, SpecResources,
};
pub use pod_range::Unrecommended;
pub use post_process::{cap_to_policy, keep_bounds, release_bounds, retain_controlled, round_to_whole_cores};
pub use recommendation::{Candidate, Estimate, RecommendationFormat, recommend};
pub use settings::{MemorySettings, SampleSettings};
pub use target::{ContainerTarget, TargetNote, capped_recommendation, container_targets, running_targets};
pub use topmost::{Controller, refuse_target, topmost};
pub use usage::{ContainerUsage, Usage, Workload};
pub use writes::{Stored, has_bound_moved, is_checkpoint_due, is_fetching_history, is_status_due, oldest_first};
