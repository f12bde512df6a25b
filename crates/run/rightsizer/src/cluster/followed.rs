//! Which pods an autoscaler follows, and which of their containers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_pods::SizedPod;
use pillion_rightsize::Workload;

/// Autoscalers by the workload that they target.
pub(crate) type Targets = HashMap<Workload, Vec<Arc<VerticalPodAutoscaler>>>;

/// A pod that an autoscaler follows, or the part of it that it follows.
pub(crate) struct Followed {
    pub(crate) pod: Arc<SizedPod>,
    pub(crate) workload: Arc<Workload>,
    /// The SidecarSet whose containers are followed; without one, the containers that no other autoscaler sizes.
    pub(crate) set: Option<String>,
    /// The SidecarSets that have an autoscaler of their own.
    pub(super) sets_apart: Arc<BTreeSet<String>>,
}

impl Followed {
    /// The same of the pod as it is now.
    pub(crate) fn with(&self, pod: Arc<SizedPod>) -> Followed {
        Followed {
            pod,
            workload: Arc::clone(&self.workload),
            set: self.set.clone(),
            sets_apart: Arc::clone(&self.sets_apart),
        }
    }

    /// Whether the same containers are meant.
    pub(crate) fn has_same_parts(&self, other: &Followed) -> bool {
        Arc::ptr_eq(&self.sets_apart, &other.sets_apart) || self.sets_apart == other.sets_apart
    }

    /// Whether a container of the pod is meant.
    pub(crate) fn has(&self, container: &str) -> bool {
        let injects = |set: &str| self.pod.view.injected_by(set).iter().any(|it| it == container);
        match &self.set {
            Some(set) => injects(set),
            None => !self.sets_apart.iter().any(|set| injects(set)),
        }
    }
}
