//! What was injected into one pod, for the steps that come after.

use std::sync::Arc;

use pillion_note::ContainerKey;

use crate::policy::Policy;

/// What was injected into one pod.
#[derive(Debug, Default)]
pub struct Injected {
    pub(crate) sidecars: Vec<Sidecar>,
}

/// One injected container.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) key: ContainerKey,
    /// The SidecarSet that it comes from.
    pub(crate) set: String,
    /// How it is sized, if it is.
    pub(crate) policy: Option<Arc<Policy>>,
}
