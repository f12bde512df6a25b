//! What the updater reconciles.

use std::fmt;
use std::sync::Arc;

use pillion_informer::NamespacedName;
use pillion_rightsize::Workload;

/// What is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Whether the status of an autoscaler says that evictions are stopped.
    Status(NamespacedName),
    /// The pods of a workload.
    Pods(PodsKey),
}

/// The pods of a workload in a namespace: a SidecarSet is injected into pods of many, and budgets and LimitRanges are those of each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodsKey {
    pub(super) workload: Arc<Workload>,
    pub(super) namespace: Arc<str>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Status(name) => write!(f, "VerticalPodAutoscaler {name}"),
            Key::Pods(key) => key.fmt(f),
        }
    }
}

impl fmt::Display for PodsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload { namespace, kind, name } = &*self.workload;
        write!(f, "pods of {kind} {namespace}/{name}")?;
        if **namespace != *self.namespace {
            write!(f, " in namespace {}", self.namespace)?;
        }
        Ok(())
    }
}
