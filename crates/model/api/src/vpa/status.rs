//! What the recommender writes: recommendations and conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::of_kubernetes::OfKubernetes;

use super::ResourceList;

/// What the recommender has computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VerticalPodAutoscalerStatus {
    /// The recommendation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<RecommendedPodResources>,
    /// Conditions, sorted by type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The generation that was observed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

impl VerticalPodAutoscalerStatus {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == VerticalPodAutoscalerStatus::default()
    }

    /// The recommendation of a container.
    pub fn recommended(&self, container: &str) -> Option<&RecommendedContainerResources> {
        self.recommendation.as_ref()?.of(container)
    }
}

/// Recommendations by container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RecommendedPodResources {
    /// One for each container that is sized, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_recommendations: Vec<RecommendedContainerResources>,
}

impl RecommendedPodResources {
    /// The recommendation of a container.
    pub fn of(&self, container: &str) -> Option<&RecommendedContainerResources> {
        self.container_recommendations.iter().find(|recommended| recommended.container_name == container)
    }
}

/// The recommendation of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RecommendedContainerResources {
    /// Name of the container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container_name: String,
    /// What the container should request.
    pub target: ResourceList,
    /// With less than this, performance and availability are likely to suffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_bound: Option<ResourceList>,
    /// What exceeds this is likely wasted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_bound: Option<ResourceList>,
    /// The target before the resource policy was applied. Shown, and not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncapped_target: Option<ResourceList>,
}

/// The state of an autoscaler in one respect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    pub condition_type: ConditionType,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When `status` changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OfKubernetes<Time>>")]
    pub last_transition_time: Option<Time>,
    /// One word for programs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The generation that the condition is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// What a condition is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ConditionType {
    /// The configuration is deprecated.
    ConfigDeprecated,
    /// The configuration cannot be served, and there will be no recommendation.
    ConfigUnsupported,
    /// No pods are evicted, because evicted pods came back unchanged or did not come back.
    EvictionsStopped,
    /// History is being loaded.
    FetchingHistory,
    /// There are too few samples for some container.
    LowConfidence,
    /// No pods match.
    NoPodsMatched,
    /// Bounds of the resource policy are ignored, because they cannot be used.
    PolicyIgnored,
    /// There is a recommendation.
    RecommendationProvided,
    /// A type that this version does not know.
    #[serde(untagged)]
    Unknown(String),
}

/// The schema does not list the types: another recommender may write its own.
impl JsonSchema for ConditionType {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConditionType".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string"})
    }
}
