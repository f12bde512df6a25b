//! The controllers. Each takes what the caches know, has a plan made, and writes what is planned.

pub(crate) mod agents;
pub(crate) mod condition;
pub(crate) mod enforced;
pub(crate) mod follow;
pub(crate) mod lifecycle;
pub(crate) mod pace;
mod reference;
pub(crate) mod registered;
pub(crate) mod registering;
pub(crate) mod repair;
pub(crate) mod rightsizing;
pub(crate) mod rollout;
pub(crate) mod standing_by;
