//! What containers contribute to the quality-of-service class of their pod.

use crate::amount::RESOURCES;
use crate::amounts::SpecResources;

/// What some containers contribute to the class: Kubernetes looks at all of a pod's containers, init containers with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QosShare {
    /// Whether any of them requests anything, or has a limit.
    pub(crate) is_any_set: bool,
    /// Whether each of them has limits of CPU and memory that equal its requests.
    pub(crate) are_all_guaranteed: bool,
}

impl Default for QosShare {
    /// That of no container.
    fn default() -> QosShare {
        QosShare { is_any_set: false, are_all_guaranteed: true }
    }
}

impl QosShare {
    /// The same with one more container.
    pub(crate) fn with(mut self, container: SpecResources) -> QosShare {
        let (requests, limits) = (container.requests.unwrap_or_default(), container.limits.unwrap_or_default());
        for resource in RESOURCES {
            let request = requests.get(resource).filter(|amount| !amount.is_zero());
            let limit = limits.get(resource).filter(|amount| !amount.is_zero());
            self.is_any_set |= request.is_some() || limit.is_some();
            // A request that is not set is the limit.
            self.are_all_guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
        self
    }
}
