//! The kinds of `v1` other than pods.

pub(crate) mod config_map;
pub(crate) mod endpoints;
pub(crate) mod event;
pub(crate) mod limit_range;
pub mod namespace;
pub(crate) mod node;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub(crate) mod pod_template;
pub(crate) mod replication_controller;
pub(crate) mod resource_quota;
pub(crate) mod secret;
pub mod service;
pub(crate) mod service_account;
