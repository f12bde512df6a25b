//! What is kept of a pod with an in-pod agent.

use pillion_api::names::agent::LABEL;
use pillion_assist::REMOVED;
use pillion_partial::{Keep, Partial};
use pillion_rollout::PodView;
use serde_json::Value;

const POD: Keep = Keep::Fields(&[
    ("metadata", Keep::Without("managedFields")),
    ("spec", Keep::Fields(&[("containers", CONTAINER), ("initContainers", CONTAINER)])),
    ("status", Keep::Fields(&[("conditions", CONDITION)])),
]);

const CONTAINER: Keep = Keep::Fields(&[("name", Keep::All), ("ports", Keep::All), ("restartPolicy", Keep::All)]);
const CONDITION: Keep = Keep::Fields(&[("type", Keep::All), ("status", Keep::All), ("reason", Keep::All)]);

#[derive(Debug)]
pub struct AgentPod(Value);

impl AgentPod {
    /// Reads a pod. Returns `None` for a pod without the label of agents.
    pub(crate) fn read(text: &str, pod: &PodView) -> Option<AgentPod> {
        pod.label(LABEL)?;
        Some(AgentPod(Partial(POD).parse(text.as_bytes()).ok()?))
    }

    /// The pod as JSON, with what is read of it.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Whether the pod has a label, an annotation, or a condition that its agent reports. Such a condition has a reason. A condition cannot be
    /// removed, so one that the agent has given up counts as gone.
    pub fn has(&self, field: &str, key: &str) -> bool {
        if field != "conditions" {
            return !self.0["metadata"][field][key].is_null();
        }
        let conditions = self.0["status"]["conditions"].as_array().into_iter().flatten();
        let mut reasons =
            conditions.filter(|condition| condition["type"] == key).filter_map(|it| it["reason"].as_str());
        reasons.any(|reason| !reason.is_empty() && reason != REMOVED)
    }

    /// Whether nothing that the manager reads differs. The times of heartbeats do not count.
    pub fn is_same(&self, other: &AgentPod) -> bool {
        let metadata = ["labels", "annotations", "deletionTimestamp"];
        metadata.into_iter().all(|field| self.0["metadata"][field] == other.0["metadata"][field])
            && self.0["status"] == other.0["status"]
            && self.0["spec"] == other.0["spec"]
    }
}
