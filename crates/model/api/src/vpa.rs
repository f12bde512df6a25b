//! VerticalPodAutoscaler (`autoscaling.k8s.io/v1`), with every field of the upstream API.
//!
//! Enumerations keep a value that they do not know, so that a wrong value is a validation error with a path, and never an
//! object that cannot be read. A field whose feature gate is off is read all the same; [`validate`] decides whether it may be
//! written.
//!
//! ```
//! use pillion_api::vpa::{self, UpdateMode};
//! let autoscaler = vpa::decode(serde_json::json!({
//!     "apiVersion": "autoscaling.k8s.io/v1",
//!     "kind": "VerticalPodAutoscaler",
//!     "metadata": {"name": "web", "namespace": "shop"},
//!     "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
//! }))?;
//! assert_eq!(autoscaler.update_mode(), &UpdateMode::Recreate);
//! # Ok::<(), vpa::DecodeError>(())
//! ```

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod checkpoint;
mod container_policy;
pub mod crd;
mod decode;
mod defaults;
mod gates;
mod resource_list;
mod startup_boost;
mod status;
mod validation;

pub use checkpoint::{
    CHECKPOINT_VERSION, HistogramCheckpoint, VerticalPodAutoscalerCheckpoint, VerticalPodAutoscalerCheckpointSpec,
    VerticalPodAutoscalerCheckpointStatus, checkpoint_name,
};
pub use container_policy::{
    ALL_CONTAINERS, ContainerControlledValues, ContainerResourcePolicy, ContainerScalingMode, PodResourcePolicy,
};
pub use decode::{DecodeError, decode, decode_checkpoint};
pub use defaults::apply_defaults;
pub use gates::Gates;
pub use resource_list::ResourceList;
pub use startup_boost::{GenericStartupBoost, StartupBoost, StartupBoostType};
pub use status::{
    Condition, ConditionType, RecommendedContainerResources, RecommendedPodResources, VerticalPodAutoscalerStatus,
};
pub use validation::{Validation, validate};

/// Sizes the containers of the pods of one workload from their usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VerticalPodAutoscaler {
    /// `autoscaling.k8s.io/v1`.
    pub api_version: String,
    /// `VerticalPodAutoscaler`.
    pub kind: String,
    /// Name, namespace, labels, annotations.
    pub metadata: ObjectMeta,
    /// What to size, and how.
    pub spec: VerticalPodAutoscalerSpec,
    /// What the recommender has computed.
    #[serde(skip_serializing_if = "VerticalPodAutoscalerStatus::is_empty")]
    pub status: VerticalPodAutoscalerStatus,
}

impl VerticalPodAutoscaler {
    /// The name, or "" while it has none.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The namespace, or "" while it has none.
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// When changes reach the pods: `Recreate` unless another mode is set.
    pub fn update_mode(&self) -> &UpdateMode {
        let policy = self.spec.update_policy.as_ref();
        match policy.and_then(|policy| policy.update_mode.as_ref()) {
            Some(UpdateMode::Unknown(mode)) if mode.is_empty() => &UpdateMode::Recreate,
            Some(mode) => mode,
            None => &UpdateMode::Recreate,
        }
    }

    /// The policy of a container: its own, else the last one for all containers.
    pub fn container_policy(&self, container: &str) -> Option<&ContainerResourcePolicy> {
        self.spec.resource_policy.as_ref()?.of(container)
    }

    /// The start-up boost of a container's CPU: from its own policy if that has a `startupBoost` at all, else from the spec.
    pub fn cpu_boost(&self, container: &str) -> Option<&GenericStartupBoost> {
        let own = self.container_policy(container).and_then(|policy| policy.startup_boost.as_ref());
        own.or(self.spec.startup_boost.as_ref())?.cpu.as_ref()
    }

    /// Whether any container may be boosted.
    pub fn has_cpu_boost(&self) -> bool {
        let of_containers = self.spec.resource_policy.iter().flat_map(|policy| &policy.container_policies);
        let mut boosts =
            of_containers.filter_map(|policy| policy.startup_boost.as_ref()).chain(&self.spec.startup_boost);
        boosts.any(|boost| boost.cpu.is_some())
    }

    /// Whether the recommender of this name is responsible for the object.
    pub fn is_for_recommender(&self, name: &str) -> bool {
        match self.spec.recommenders.as_slice() {
            [] => name == DEFAULT_RECOMMENDER,
            recommenders => recommenders.iter().any(|recommender| recommender.name == name),
        }
    }
}

/// The recommender of objects that name none.
pub const DEFAULT_RECOMMENDER: &str = "default";

/// What to size, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VerticalPodAutoscalerSpec {
    /// The controller whose pods are sized: Deployment, StatefulSet, DaemonSet, ReplicaSet, `ReplicationController`, Job,
    /// CronJob, or any resource with a scale subresource that has a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<CrossVersionObjectReference>,
    /// When recommendations reach the pods. Default: `updateMode: Recreate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_policy: Option<PodUpdatePolicy>,
    /// Bounds for the recommendations, and the containers that are left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_policy: Option<PodResourcePolicy>,
    /// The recommender that is responsible; at most one. Empty means the one named `default`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recommenders: Vec<RecommenderSelector>,
    /// More CPU while a pod starts. Needs the feature gate `CPUStartupBoost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_boost: Option<StartupBoost>,
}

/// A reference to another object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CrossVersionObjectReference {
    /// API version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
}

/// A recommender by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RecommenderSelector {
    /// Name of the recommender.
    pub name: String,
}

/// When recommendations reach the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PodUpdatePolicy {
    /// When and how pods are changed. Default Recreate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_mode: Option<UpdateMode>,
    /// How many replicas must be alive before any of them is evicted. Overrides the updater's `--min-replicas`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Conditions that must all hold before a pod is evicted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub eviction_requirements: Vec<EvictionRequirement>,
    /// A container that is OOM killed within this many seconds of its start makes its pod eligible for an update. Overrides
    /// the updater's `--evict-after-oom-threshold`. Needs the feature gate `PerVPAConfig`.
    #[serde(rename = "evictAfterOOMSeconds", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub evict_after_oom_seconds: Option<i32>,
}

/// When and how pods are changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum UpdateMode {
    /// Never; the recommendation is only shown.
    Off,
    /// When a pod is created.
    Initial,
    /// When a pod is created, and by evicting pods.
    Recreate,
    /// When a pod is created, and in place; by eviction where that fails or takes too long.
    InPlaceOrRecreate,
    /// When a pod is created, and in place only. Needs the feature gate `InPlace`.
    InPlace,
    /// The same as `Recreate`. Deprecated.
    Auto,
    /// A value that this version does not know; validation rejects it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

impl UpdateMode {
    /// The modes that validation lists; the deprecated `Auto` is not among them.
    pub const SUPPORTED: [&str; 5] = ["InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate"];

    /// The name in manifests.
    pub fn as_str(&self) -> &str {
        match self {
            UpdateMode::Off => "Off",
            UpdateMode::Initial => "Initial",
            UpdateMode::Recreate => "Recreate",
            UpdateMode::InPlaceOrRecreate => "InPlaceOrRecreate",
            UpdateMode::InPlace => "InPlace",
            UpdateMode::Auto => "Auto",
            UpdateMode::Unknown(name) => name,
        }
    }

    /// Whether running pods are changed.
    pub fn updates_running_pods(&self) -> bool {
        matches!(self, UpdateMode::Recreate | UpdateMode::Auto | UpdateMode::InPlaceOrRecreate | UpdateMode::InPlace)
    }

    /// Whether running pods are resized in place.
    pub fn is_in_place(&self) -> bool {
        matches!(self, UpdateMode::InPlaceOrRecreate | UpdateMode::InPlace)
    }
}

/// A condition for evicting a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct EvictionRequirement {
    /// The resources that it is about; one that meets the requirement is enough.
    pub resources: Vec<String>,
    /// How the target must compare with the request.
    pub change_requirement: EvictionChangeRequirement,
}

/// How the target must compare with the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum EvictionChangeRequirement {
    /// The pod grows.
    TargetHigherThanRequests,
    /// The pod shrinks.
    TargetLowerThanRequests,
    /// A value that this version does not know; validation rejects it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

impl Default for EvictionChangeRequirement {
    fn default() -> Self {
        EvictionChangeRequirement::Unknown(String::new())
    }
}
