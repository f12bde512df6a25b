//! What was decided and why.

use std::fmt;

use serde::Serialize;

/// Who sees a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Severity {
    /// Shown by `pillion why`.
    Info,
    /// Also returned as an admission warning to whoever creates the pod.
    Warning,
}

/// What a note is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind")]
pub enum Subject {
    SidecarSet {
        name: String,
    },
    VerticalPodAutoscaler {
        namespace: String,
        name: String,
    },
    /// The pod itself.
    Pod,
}

impl Subject {
    pub fn sidecar_set(name: &str) -> Subject {
        Subject::SidecarSet { name: name.to_owned() }
    }

    /// The name of the SidecarSet, if the subject is one.
    pub fn as_sidecar_set(&self) -> Option<&str> {
        match self {
            Subject::SidecarSet { name } => Some(name),
            Subject::VerticalPodAutoscaler { .. } | Subject::Pod => None,
        }
    }

    /// The subject's name, without its kind.
    pub fn name(&self) -> &str {
        match self {
            Subject::SidecarSet { name } | Subject::VerticalPodAutoscaler { name, .. } => name,
            Subject::Pod => "pod",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::SidecarSet { name } => write!(f, "SidecarSet {name:?}"),
            Subject::VerticalPodAutoscaler { namespace, name } => {
                write!(f, "VerticalPodAutoscaler \"{namespace}/{name}\"")
            }
            Subject::Pod => f.write_str("Pod"),
        }
    }
}

/// The kind of decision, in one word for programs, as in a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Reason {
    /// The containers of a SidecarSet are injected.
    Injected,
    /// Which revision of a SidecarSet the pod gets.
    Revision,
    /// A resource value was computed by a `resourcesPolicy`.
    Sized,
    /// A container gets what a VerticalPodAutoscaler recommends.
    Rightsized,
    /// Resources are set for the pod as a whole, so that none of its containers is sized.
    PodResources,
    /// A computed request was above its limit.
    RequestLowered,
    /// A sidecar takes the place of one of the pod's own containers, which has the same name.
    ContainerReplaced,
    /// A sidecar mounts a volume that the pod already has under that name.
    VolumeKept,
    /// A variable named in `transferEnv` does not exist.
    EnvNotFound,
    /// Running pods cannot get the latest revision of a SidecarSet in place.
    NotUpgradablePods,
    /// How a marked sidecar ends when the work is done.
    SidecarMode,
    /// A mark has no effect.
    MarkIgnored,
    /// A probe of a marked sidecar was changed, or holds the work back.
    ProbeChanged,
    /// A field of the pod itself is set, or left as it is.
    PodField,
    /// A rollout paused itself because updated pods fail.
    RolloutPaused,
    /// More revisions are kept than the limit says.
    HistoryLimit,
    /// The revision that a SidecarSet pins for new pods does not exist.
    PinnedRevisionMissing,
    /// An annotation of `patchPodMetadata` could not be written on a running pod.
    MetadataNotPatched,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// Who sees it.
    pub severity: Severity,
    /// What it is about.
    pub subject: Subject,
    /// The container that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The kind of decision.
    pub reason: Reason,
    /// A sentence for people.
    pub message: String,
}

impl Note {
    /// A note that `pillion why` shows.
    pub fn info(subject: Subject, reason: Reason, message: impl Into<String>) -> Note {
        Note { severity: Severity::Info, subject, container: None, reason, message: message.into() }
    }

    /// A note that is also an admission warning.
    pub fn warning(subject: Subject, reason: Reason, message: impl Into<String>) -> Note {
        Note { severity: Severity::Warning, ..Note::info(subject, reason, message) }
    }

    /// The same note, about one container.
    #[must_use]
    pub fn about(self, container: &str) -> Note {
        Note { container: Some(container.to_owned()), ..self }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        if let Some(container) = &self.container {
            write!(f, ", container {container:?}")?;
        }
        write!(f, ": {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_note_names_its_subject_for_people_and_for_programs() {
        let subject = Subject::VerticalPodAutoscaler { namespace: "shop".into(), name: "web".into() };
        let note = Note::info(subject, Reason::Sized, "cpu is 1").about("app");
        assert_eq!(note.to_string(), r#"VerticalPodAutoscaler "shop/web", container "app": cpu is 1"#);
        let expected = json!({
            "severity": "Info", "subject": {"kind": "VerticalPodAutoscaler", "namespace": "shop", "name": "web"},
            "container": "app", "reason": "Sized", "message": "cpu is 1",
        });
        assert_eq!(serde_json::to_value(note).unwrap(), expected);
        let pod = Note::warning(Subject::Pod, Reason::Injected, "x");
        assert_eq!(serde_json::to_value(pod).unwrap()["subject"], json!({"kind": "Pod"}));
    }
}
