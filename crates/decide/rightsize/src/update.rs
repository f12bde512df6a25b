//! Which running pods are updated, in which order, and how.
//!
//! ```text
//!  pods of an autoscaler ──▶ priority (who, in which order) ──▶ requirements ──▶ Pass ──▶ steps: unboost, resize, evict
//!                                                                               ▲
//!                                             groups (how many at once), in_place (resize, wait or evict)
//! ```

mod brake;
mod group;
mod in_place;
mod pass;
mod priority;
mod qos;
mod rate;
mod reason;
mod requirements;
mod settings;

pub use brake::Brake;
pub use group::Replicas;
pub use pass::{Action, Pass, Snapshot, Step};
pub use priority::Priority;
pub use qos::changes_qos_class;
pub use rate::RateLimit;
pub use reason::{EvictReason, SkipReason};
pub use settings::UpdaterSettings;
