//! What the controller reports about a SidecarSet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::of_kubernetes::OfKubernetes;

/// What the controller has seen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SidecarSetStatus {
    /// The generation that these numbers are about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pods that the set matches.
    pub matched_pods: i32,
    /// Matched pods that have the latest revision.
    pub updated_pods: i32,
    /// Matched pods that are ready.
    pub ready_pods: i32,
    /// Matched pods that have the latest revision and are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_ready_pods: Option<i32>,
    /// Name of the latest ControllerRevision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<String>,
    /// How often a revision's name collided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Pods that should have the sidecars and do not: they were created while nobody injected them. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed_pods: Option<i32>,
    /// Matched pods that must be recreated to get the latest revision: it changes more than images. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_upgradable_pods: Option<i32>,
    /// The revision whose rollout paused itself because updated pods failed. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_revision: Option<String>,
    /// When the rollout last made progress. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OfKubernetes<Time>>")]
    pub last_progress_time: Option<Time>,
    /// `Progressing`, `Available`, `Blocked`, `PinnedRevisionFound`, `PodsInjected` and `FailurePolicyEnforced`. A field of Pillion's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<OfKubernetes<Condition>>")]
    pub conditions: Vec<Condition>,
}

impl SidecarSetStatus {
    /// The condition of this type.
    pub fn condition(&self, condition_type: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == condition_type)
    }
}
