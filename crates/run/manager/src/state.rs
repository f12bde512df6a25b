//! What the manager and its webhooks share.

use std::sync::Arc;

use tokio::sync::watch;

use crate::certificate::Pair;
use crate::cluster::View;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::pending::Pending;
use crate::watches::Watches;

/// The state of a running manager.
pub(crate) struct Inner {
    pub(crate) config: Config,
    /// The cluster as the watches know it.
    pub(crate) views: watch::Sender<Arc<View>>,
    /// What the watches do not know yet.
    pub(crate) pending: Pending,
    pub(crate) metrics: Metrics,
    /// The certificate to serve, once there is one.
    pub(crate) served: watch::Sender<Option<Arc<Pair>>>,
    /// Keep the views current; they stop when this is dropped.
    pub(crate) watches: Watches,
}
