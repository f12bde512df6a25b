//! Why a pod is refused.

/// Why a pod is refused. Only the facts of the pod can lead here: whatever can be known without it was refused when
/// the SidecarSet was admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The pinned revision cannot be had.
    #[error("SidecarSet {set:?}: {reason}")]
    Revision {
        set: String,
        /// What is missing, and how to fix it.
        reason: String,
    },
    /// An annotation cannot be merged.
    #[error("SidecarSet {set:?}: patchPodMetadata cannot merge annotation {key:?} of the pod: {reason}")]
    Metadata {
        set: String,
        /// The annotation.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// A record of an earlier injection cannot be read.
    #[error(
        "pod {pod:?}: annotation {key:?} is not a record of injected SidecarSets: {reason}; remove the annotation or correct it"
    )]
    Record {
        /// Namespace and name of the pod.
        pod: String,
        /// The annotation.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// The pod cannot get the service account that a set requires.
    #[error("SidecarSet {set:?} requires the service account {account:?}: {reason}")]
    ServiceAccount {
        set: String,
        account: String,
        /// What is in the way.
        reason: String,
    },
    /// The pod cannot share its process namespace, as a set requires.
    #[error("SidecarSet {set:?} requires shareProcessNamespace: {reason}")]
    ProcessNamespace {
        set: String,
        /// What is in the way.
        reason: String,
    },
    /// The marks of sidecars cannot be honoured.
    #[error("{path}: {reason}")]
    Mark {
        /// The field of the pod.
        path: String,
        /// What is wrong, and how to fix it.
        reason: String,
    },
    /// No container has a name that the policy is about.
    #[error(
        "SidecarSet {set:?}, container {container:?}: no containers match the regex pattern {regex:?} of resourcesPolicy \
         (the pod's own containers: {candidates}); its expression {expression:?} has nothing to compute from"
    )]
    NoTarget {
        set: String,
        /// The sidecar.
        container: String,
        /// The pattern.
        regex: String,
        /// The names that there are.
        candidates: String,
        /// The first expression of the policy.
        expression: String,
    },
    /// An expression gives less than nothing.
    #[error(
        "SidecarSet {set:?}, container {container:?}: calculation result is negative: {list}.{resource} = {expression} is {value} \
         for {resource} = {variable}"
    )]
    Negative {
        set: String,
        /// The sidecar.
        container: String,
        /// `limits` or `requests`.
        list: &'static str,
        /// `cpu` or `memory`.
        resource: &'static str,
        expression: String,
        /// What it gives.
        value: String,
        /// What it was given.
        variable: String,
    },
}
