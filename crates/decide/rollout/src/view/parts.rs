//! The parts of a pod that a rollout reads, as they are written.

use serde::Deserialize;

use super::lenient::{List, Object, Scalar, TextMap};

/// The parts of a pod that a rollout reads, borrowed from its JSON. What has the wrong type counts as absent.
///
/// ```
/// use pillion_rollout::{PodParts, Texts};
///
/// let parts: PodParts = serde_json::from_str(r#"{"metadata": {"name": "web-0"}, "spec": {"nodeName": 5}}"#)?;
/// let view = parts.view(&mut Texts::default());
/// assert_eq!((&*view.name, view.is_assigned), ("web-0", false));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodParts<'a> {
    #[serde(borrow)]
    pub(super) metadata: Object<Metadata<'a>>,
    #[serde(borrow)]
    pub(super) spec: Object<Spec<'a>>,
    #[serde(borrow)]
    pub(super) status: Object<Status<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    name: Scalar<'a>,
    generate_name: Scalar<'a>,
    namespace: Scalar<'a>,
    uid: Scalar<'a>,
    resource_version: Scalar<'a>,
    pub(super) generation: Scalar<'a>,
    pub(super) creation_timestamp: Scalar<'a>,
    pub(super) deletion_timestamp: Scalar<'a>,
    pub(super) labels: TextMap<'a>,
    annotations: TextMap<'a>,
    owner_references: List<Owner<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Owner<'a> {
    #[serde(borrow)]
    pub(super) kind: Scalar<'a>,
    pub(super) name: Scalar<'a>,
    uid: Scalar<'a>,
    controller: Scalar<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec<'a> {
    #[serde(borrow)]
    pub(super) node_name: Scalar<'a>,
    pub(super) containers: List<Container<'a>>,
    pub(super) init_containers: List<Container<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container<'a> {
    #[serde(borrow)]
    pub(super) name: Scalar<'a>,
    pub(super) image: Scalar<'a>,
    restart_policy: Scalar<'a>,
}

impl Container<'_> {
    pub(super) fn is_native_sidecar(&self) -> bool {
        self.restart_policy.text() == "Always"
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status<'a> {
    #[serde(borrow)]
    pub(super) phase: Scalar<'a>,
    pub(super) observed_generation: Scalar<'a>,
    conditions: List<Condition<'a>>,
    pub(super) container_statuses: List<ContainerStatus<'a>>,
    pub(super) init_container_statuses: List<ContainerStatus<'a>>,
}

impl<'a> Status<'a> {
    pub(super) fn condition(&self, condition_type: &str) -> Option<&Condition<'a>> {
        self.conditions.iter().find(|condition| condition.r#type.text() == condition_type)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition<'a> {
    #[serde(borrow)]
    r#type: Scalar<'a>,
    pub(super) status: Scalar<'a>,
    pub(super) message: Scalar<'a>,
    pub(super) last_transition_time: Scalar<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus<'a> {
    #[serde(borrow)]
    pub(super) name: Scalar<'a>,
    pub(super) image: Scalar<'a>,
    #[serde(rename = "imageID")]
    pub(super) image_id: Scalar<'a>,
    pub(super) restart_count: Scalar<'a>,
    pub(super) ready: Scalar<'a>,
    pub(super) state: Object<State<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct State<'a> {
    #[serde(borrow)]
    pub(super) waiting: Object<Waiting<'a>>,
    pub(super) terminated: Object<Terminated<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Terminated<'a> {
    pub(super) exit_code: Scalar<'a>,
    #[serde(borrow)]
    pub(super) started_at: Scalar<'a>,
    pub(super) finished_at: Scalar<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Waiting<'a> {
    #[serde(borrow)]
    pub(super) reason: Scalar<'a>,
    pub(super) message: Scalar<'a>,
}

impl<'a> PodParts<'a> {
    /// `metadata.name`, or `metadata.generateName` while it has none, or "".
    pub fn name(&self) -> &str {
        let names = [&self.metadata.name, &self.metadata.generate_name];
        names.into_iter().map(Scalar::text).find(|name| !name.is_empty()).unwrap_or_default()
    }

    /// `metadata.namespace`, or `default`.
    pub fn namespace(&self) -> &str {
        Some(self.metadata.namespace.text()).filter(|name| !name.is_empty()).unwrap_or("default")
    }

    /// `metadata.uid`, or "".
    pub fn uid(&self) -> &str {
        self.metadata.uid.text()
    }

    /// `metadata.resourceVersion`, or "".
    pub fn resource_version(&self) -> &str {
        self.metadata.resource_version.text()
    }

    /// The UID of the controller that owns the pod.
    pub fn controller_uid(&self) -> Option<&str> {
        Some(self.controller()?.uid.text())
    }

    pub(super) fn controller(&self) -> Option<&Owner<'a>> {
        self.metadata.owner_references.iter().find(|owner| owner.controller.is_true())
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.get(key)
    }
}
