//! Which running pods are updated, in which order, and how.
//!
//! ```text
//!  pods of an autoscaler ──▶ priority (who, in which order) ──▶ requirements ──▶ Pass ──▶ steps: unboost, resize, evict
//!                                                                               ▲
//!                                             groups (how many at once), in_place (resize, wait or evict),
//!                                             rules (would the API server accept the successor), brake (do pods come back),
//!                                             infeasible (what nodes cannot do)
//!  pods that were left alone ──▶ skips ──▶ events
//! ```

mod brake;
mod budgets;
mod group;
mod in_place;
mod infeasible;
mod outlook;
mod pass;
mod priority;
mod qos;
mod rate;
mod reason;
mod requirements;
mod rules;
mod settings;
mod skips;
mod stop;

pub use brake::{Brake, stop_conditions, stopped};
pub use budgets::{Budgets, forbidding};
pub use group::{Disrupted, Replicas};
pub use infeasible::Infeasible;
pub use outlook::{Outlook, outlook};
pub use pass::{Action, Pass, Snapshot, Step};
pub use priority::Priority;
pub use qos::changes_qos_class;
pub use rate::RateLimit;
pub use reason::{EvictReason, SkipReason};
pub use rules::{Planned, Rules};
pub use settings::UpdaterSettings;
pub use skips::{SkipEvent, Skips};
pub use stop::StopCause;
