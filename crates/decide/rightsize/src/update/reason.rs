//! Why a pod is evicted, or left alone.

use std::fmt;

const NOT_SERVED: &str = "this cluster cannot resize pods in place (Kubernetes 1.33 and later can)";

/// Why a pod is left alone for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// There is no recommendation for it.
    NoRecommendation,
    /// Its boost is not over.
    Boosted,
    /// Resources are set for the pod as a whole.
    PodResources,
    /// It has no controller that would replace it.
    NoController,
    /// How many replicas it should have is not known, or none.
    ReplicasUnknown,
    /// Its group has too few pods.
    TooFewReplicas,
    /// It is within its bounds, and the kubelet did not say when it started.
    NoStartTime,
    /// It is within its bounds, and too young.
    ShortLived,
    /// It is within its bounds, and the change would be too small.
    SmallChange,
    /// It was OOM killed soon after its start, but would get the same again.
    NothingChanges,
    /// The eviction requirements of the autoscaler do not hold.
    EvictionRequirements,
    /// Too many pods of its group are disrupted.
    Budget,
    /// It has not started yet.
    Pending,
    /// A resize is under way.
    Resizing,
    /// The node cannot do the resize, and the recommendation is not lower than then.
    InfeasibleBefore,
    /// A resize cannot change its quality-of-service class, and the mode does not evict.
    QosClass,
    /// The feature gate of its mode is off.
    GateOff,
    /// The cluster cannot resize pods in place, and the mode does not evict.
    NotServed,
    /// Only an eviction would help, and admission is not called for pods of its namespace.
    NotAdmitted,
}

impl SkipReason {
    /// Whether it stays so until somebody does something about it: worth an event, where the mode resizes in place.
    pub fn is_lasting(self) -> bool {
        match self {
            SkipReason::PodResources
            | SkipReason::InfeasibleBefore
            | SkipReason::QosClass
            | SkipReason::GateOff
            | SkipReason::NotServed
            | SkipReason::NotAdmitted => true,
            SkipReason::NoRecommendation
            | SkipReason::Boosted
            | SkipReason::NoController
            | SkipReason::ReplicasUnknown
            | SkipReason::TooFewReplicas
            | SkipReason::NoStartTime
            | SkipReason::ShortLived
            | SkipReason::SmallChange
            | SkipReason::NothingChanges
            | SkipReason::EvictionRequirements
            | SkipReason::Budget
            | SkipReason::Pending
            | SkipReason::Resizing => false,
        }
    }

    /// Whether it is the same for every pod of the autoscaler.
    pub fn concerns_all_pods(self) -> bool {
        matches!(self, SkipReason::GateOff | SkipReason::NotServed)
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SkipReason::NoRecommendation => "there is no recommendation for its containers",
            SkipReason::Boosted => "its start-up boost is not over",
            SkipReason::PodResources => "resources are set for the pod as a whole (spec.resources)",
            SkipReason::NoController => "it has no controller that would replace it",
            SkipReason::ReplicasUnknown => "its controller does not say how many replicas it wants",
            SkipReason::TooFewReplicas => "its controller has fewer pods than minReplicas",
            SkipReason::NoStartTime => "its requests are within the recommended range, and it has no start time",
            SkipReason::ShortLived => "its requests are within the recommended range, and it started not long ago",
            SkipReason::SmallChange => "its requests are within the recommended range, and the change is small",
            SkipReason::NothingChanges => "it was OOM killed, but would get the same resources again",
            SkipReason::EvictionRequirements => "the evictionRequirements do not hold",
            SkipReason::Budget => "too many pods of its controller are disrupted",
            SkipReason::Pending => "it has not started yet",
            SkipReason::Resizing => "a resize is under way",
            SkipReason::InfeasibleBefore => {
                "the node cannot do the resize, and the recommendation did not become lower"
            }
            SkipReason::QosClass => "the resize would change its QoS class",
            SkipReason::GateOff => "the feature gate InPlace is off",
            SkipReason::NotServed => NOT_SERVED,
            SkipReason::NotAdmitted => {
                "only an eviction would help, but admission is not called for pods of its namespace: it would come back as it is"
            }
        })
    }
}

/// Why a pod is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictReason {
    /// The update mode does not resize in place.
    Mode,
    /// The node can never do the resize.
    Infeasible,
    /// The node put the resize off for too long.
    DeferredTooLong,
    /// The resize takes too long.
    InProgressTooLong,
    /// The resize failed.
    ResizeFailed,
    /// A resize cannot change the quality-of-service class.
    QosClass,
    /// The cluster cannot resize pods in place.
    NotServed,
}

impl fmt::Display for EvictReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EvictReason::Mode => "the update mode recreates pods",
            EvictReason::Infeasible => "the resize is infeasible on its node",
            EvictReason::DeferredTooLong => "the resize was deferred for too long",
            EvictReason::InProgressTooLong => "the resize has been in progress for too long",
            EvictReason::ResizeFailed => "the resize failed",
            EvictReason::QosClass => "the resize would change its QoS class",
            EvictReason::NotServed => NOT_SERVED,
        })
    }
}
