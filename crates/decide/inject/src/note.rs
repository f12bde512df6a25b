//! What was decided and why, for people; and why a pod is refused.

use std::fmt;

use serde::Serialize;

/// Whether a note is only said when asked, or shown to whoever creates the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Severity {
    /// Said by `pillion why`.
    Info,
    /// Also an admission warning.
    Warning,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// How loud.
    pub severity: Severity,
    /// The SidecarSet that it is about.
    pub sidecar_set: String,
    /// The container that it is about, if one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// One word for programs, as in a condition: `Injected`, `Sized`.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Note {
    /// A note about a set.
    pub fn info(set: &str, reason: &'static str, message: impl Into<String>) -> Note {
        Note { severity: Severity::Info, sidecar_set: set.to_owned(), container: None, reason, message: message.into() }
    }

    /// A warning about a set.
    pub fn warning(set: &str, reason: &'static str, message: impl Into<String>) -> Note {
        Note { severity: Severity::Warning, ..Note::info(set, reason, message) }
    }

    /// The same, about one container.
    #[must_use]
    pub fn about(self, container: &str) -> Note {
        Note { container: Some(container.to_owned()), ..self }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SidecarSet {:?}", self.sidecar_set)?;
        if let Some(container) = &self.container {
            write!(f, ", container {container:?}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Why a pod is refused. Only the facts of the pod can lead here: whatever can be known without it was refused when
/// the SidecarSet was admitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The pinned revision cannot be had.
    #[error("SidecarSet {set:?}: {reason}")]
    Revision {
        /// The set.
        set: String,
        /// What is missing, and how to mend it.
        reason: String,
    },
    /// An annotation cannot be merged.
    #[error("SidecarSet {set:?}: patchPodMetadata cannot merge annotation {key:?} of the pod: {reason}")]
    Metadata {
        /// The set.
        set: String,
        /// The annotation.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// A record of an earlier injection cannot be read.
    #[error(
        "pod {pod:?}: annotation {key:?} is not a record of injected SidecarSets: {reason}; remove the annotation or mend it"
    )]
    Record {
        /// Namespace and name of the pod.
        pod: String,
        /// The annotation.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// No container has a name that the policy is about.
    #[error(
        "SidecarSet {set:?}, container {container:?}: no containers match the regex pattern {regex:?} of resourcesPolicy \
         (the pod's own containers: {candidates}); its expression {expression:?} has nothing to compute from"
    )]
    NoTarget {
        /// The set.
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
        /// The set.
        set: String,
        /// The sidecar.
        container: String,
        /// `limits` or `requests`.
        list: &'static str,
        /// `cpu` or `memory`.
        resource: &'static str,
        /// The expression.
        expression: String,
        /// What it gives.
        value: String,
        /// What it was given.
        variable: String,
    },
}
