//! A SidecarSet and its pods, played through rollouts.

mod conditions;
mod fleet;
mod history;
mod hot;
mod kruise;
mod places;
mod properties;
mod recovery;
mod scale;
