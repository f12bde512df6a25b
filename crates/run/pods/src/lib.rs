//! The pods of a cluster as controllers see them. A process watches pods once, for all of its controllers.
//!
//! ```text
//!                         ┌─▶ rollout: what rollouts, repairs and places read
//!  API server ─▶ watch ─▶ CachedPod ─▶ sized: what the recommender, the updater and followers of resizes read
//!               (once)    ├─▶ marked: pods whose sidecars the manager ends
//!                         └─▶ agent: pods with an in-pod agent
//! ```
//!
//! # Invariants
//! - Pods are watched only while a controller needs them, and the cache has only the parts that the controllers of this process have needed.
//! - A controller that needs a further part has the pods listed again. What the cache holds stays usable meanwhile.
#![forbid(unsafe_code)]

mod agent;
mod cached;
mod evict;
mod marked;
mod parts;
mod pods;
mod shared;
mod sized;
mod text;
mod texts;

pub use agent::AgentPod;
pub use cached::CachedPod;
pub use evict::evict;
pub use marked::MarkedPod;
pub use parts::PodPart;
pub use pods::{InUse, Pods};
pub use sized::SizedPod;
pub use text::PodText;
pub use texts::{shared, texts};
