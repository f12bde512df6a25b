//! What the manager knows of the cluster, besides pods: caches that watches keep current, and the views that decisions look at.

pub(crate) mod autoscalers;
pub(crate) mod cluster;
pub(crate) mod pending;
pub(crate) mod revision_view;
pub(crate) mod set_view;
pub(crate) mod watches;
