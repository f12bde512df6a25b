//! A SidecarSet and its pods, played through rollouts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot set its stage stops there"
)]

mod conditions;
mod fleet;
mod forecast;
mod history;
mod hot;
mod kruise;
mod places;
mod properties;
mod recovery;
mod scale;
mod trouble;
mod unreadable;
