//! Why a pod is evicted, or left alone.

use std::fmt;

use super::stop::StopCause;

const NOT_SERVED: &str = "this cluster cannot resize pods in place (Kubernetes 1.33 and later can)";

/// Why a pod is left alone for now.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// It has what its successor would have.
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
    /// The first evicted pod of its group has no successor that is Ready.
    AwaitsSuccessor,
    /// Evictions for the autoscaler are stopped.
    Stopped(StopCause),
    /// The API server would refuse its successor; this is what it would say.
    Refused(String),
    /// A PodDisruptionBudget forbids its eviction; this is which one, or what the API server says.
    DisruptionBudget(String),
    /// The rate limit left no time for it.
    RateLimit,
}

impl SkipReason {
    /// Whether this lasts until a person acts: then it is worth an event about the pod, where the mode resizes in place.
    pub fn is_lasting(&self) -> bool {
        matches!(
            self,
            SkipReason::PodResources
                | SkipReason::InfeasibleBefore
                | SkipReason::QosClass
                | SkipReason::GateOff
                | SkipReason::NotServed
                | SkipReason::NotAdmitted
        )
    }

    /// Whether a pod that should be updated is held back: worth an event about the autoscaler. A pod that needs no update, or whose update is
    /// under way, is not held back.
    pub fn holds_back(&self) -> bool {
        !matches!(
            self,
            SkipReason::NoRecommendation
                | SkipReason::Boosted
                | SkipReason::NoStartTime
                | SkipReason::ShortLived
                | SkipReason::SmallChange
                | SkipReason::NothingChanges
                | SkipReason::Budget
                | SkipReason::Pending
                | SkipReason::AwaitsSuccessor
                | SkipReason::Resizing
        )
    }

    /// Whether it is the same for every pod of the autoscaler.
    pub fn concerns_all_pods(&self) -> bool {
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
            SkipReason::TooFewReplicas => "its controller has fewer pods than minReplicas (2 unless the autoscaler or --min-replicas says otherwise)",
            SkipReason::NoStartTime => "its requests are within the recommended range, and it has no start time",
            SkipReason::ShortLived => "its requests are within the recommended range, and it started not long ago",
            SkipReason::SmallChange => "its requests are within the recommended range, and the change is small",
            SkipReason::NothingChanges => "it has what it would get",
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
            SkipReason::AwaitsSuccessor => "another pod of its controller was evicted first, and its successor is not Ready yet",
            SkipReason::Stopped(cause) => return write!(f, "evictions are stopped: {cause}"),
            SkipReason::Refused(answer) => return write!(f, "the API server would refuse its successor: {answer}"),
            SkipReason::DisruptionBudget(budget) => {
                return write!(f, "a PodDisruptionBudget forbids its eviction: {budget}");
            }
            SkipReason::RateLimit => "the rate limit (--eviction-rate-limit, --resize-rate-limit) left no time for it in this pass",
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
