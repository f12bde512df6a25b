//! The kinds of `v1` other than pods.

pub(crate) mod config_map;
pub(crate) mod event;
pub(crate) mod limit_range;
pub mod namespace;
pub(crate) mod node;
pub(crate) mod persistent_volume_claim;
pub(crate) mod secret;
pub mod service;
pub(crate) mod service_account;
