//! The state that all parts of a node share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use crate::config::Config;
use crate::pods::Pods;
use crate::runtime::{Exit, Runtime};
use crate::samples::Samples;

/// A node, and what it knows about its pods.
pub(crate) struct Inner<R> {
    pub(crate) config: Config,
    pub(crate) runtime: R,
    pub(crate) samples: Samples,
    pods: Mutex<Pods>,
    /// Exits of containers: read by the task that runs the node or shuts it down.
    pub(crate) exits: tokio::sync::Mutex<mpsc::UnboundedReceiver<Exit>>,
    /// Set when the node is to stop and leave its pods as they are.
    pub(crate) closing: watch::Sender<bool>,
}

impl<R: Runtime> Inner<R> {
    pub(crate) fn new(config: Config, runtime: R) -> Inner<R> {
        let (sender, exits) = mpsc::unbounded_channel();
        runtime.report_exits(sender);
        Inner {
            config,
            runtime,
            samples: Samples::default(),
            pods: Mutex::default(),
            exits: tokio::sync::Mutex::new(exits),
            closing: watch::Sender::new(false),
        }
    }

    pub(crate) fn pods(&self) -> MutexGuard<'_, Pods> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
