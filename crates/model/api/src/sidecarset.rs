//! SidecarSet, in its stored form (v1beta1).
//!
//! Kruise's fields are here with Kruise's names; fields of our own say so. Enumerations keep a value that they do not
//! know, so that a wrong value is an error of validation with a path, and never an object that cannot be read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_regexp::Regexp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::of_kubernetes::OfKubernetes;

pub mod conversion_review;
pub mod convert;
pub mod crd;
mod decode;
mod defaults;
mod enumerations;
mod field_ref;
mod go_json;
mod hash;
mod name_set;
mod packed;
pub mod revision;
mod shape;
mod sidecar_container;
mod status;
mod stored;
mod unknown_fields;
pub mod validation;
mod version;

pub use decode::decode;
pub use defaults::{apply_defaults, prepare};
pub use field_ref::{FieldRefError, MetadataKey};
pub use hash::{hash, hash_without_image};
pub use name_set::NameSet;
pub use packed::Packed;
pub use status::SidecarSetStatus;
pub use stored::decode_stored;
pub use unknown_fields::{UnknownField, unknown_fields};
pub use validation::{validate, validate_update};
pub use version::DecodeError;

/// Defines sidecars, and the pods that get them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SidecarSet {
    /// `apps.kruise.io/v1beta1`.
    pub api_version: String,
    /// `SidecarSet`.
    pub kind: String,
    /// Name, labels, annotations; SidecarSets are cluster scoped.
    pub metadata: ObjectMeta,
    /// What to inject, where, and how to update it.
    pub spec: SidecarSetSpec,
    /// What the controller has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SidecarSetStatus>,
}

impl SidecarSet {
    /// The name, or "" while it has none.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The set's hash: what the webhook wrote, else computed. Pods with the same hash are up to date.
    pub fn current_hash(&self) -> std::borrow::Cow<'_, str> {
        self.annotation(crate::names::HASH).map_or_else(|| hash(self).into(), Into::into)
    }

    /// As [`SidecarSet::current_hash`], without images. Pods with another one cannot be updated in place.
    pub fn current_hash_without_image(&self) -> std::borrow::Cow<'_, str> {
        let written = self.annotation(crate::names::HASH_WITHOUT_IMAGE);
        written.map_or_else(|| hash_without_image(self).into(), Into::into)
    }

    /// The containers that run beside the app: native sidecars, then sidecars.
    pub fn sidecars(&self) -> impl Iterator<Item = &SidecarContainer> {
        let native = self.spec.init_containers.iter().filter(|container| container.is_native_sidecar());
        native.chain(&self.spec.containers)
    }

    /// The value of an annotation of the set.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The set that this one is the canary of, if it is a canary.
    pub fn canary_base(&self) -> Option<&str> {
        let is_canary = self.annotation(crate::names::CANARY) == Some("true");
        self.annotation(crate::names::CANARY_BASE).filter(|base| is_canary && !base.is_empty())
    }
}

/// What to inject, where, and how to update it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SidecarSetSpec {
    /// Labels of the pods that get the sidecars. Required, and may not be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OfKubernetes<LabelSelector>>")]
    pub selector: Option<LabelSelector>,
    /// Labels of the namespaces whose pods are considered; absent means all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OfKubernetes<LabelSelector>>")]
    pub namespace_selector: Option<LabelSelector>,
    /// Init containers to inject when a pod is created. One with `restartPolicy: Always` is a native sidecar.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<SidecarContainer>,
    /// Sidecars to inject beside the app's containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<SidecarContainer>,
    /// Volumes that the sidecars mount. One that no sidecar mounts is not injected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<OfKubernetes<k8s_openapi::api::core::v1::Volume>>")]
    pub volumes: Vec<Map<String, Value>>,
    /// How running pods are updated.
    #[serde(skip_serializing_if = "UpdateStrategy::is_empty")]
    pub update_strategy: UpdateStrategy,
    /// How new pods are injected.
    #[serde(skip_serializing_if = "InjectionStrategy::is_empty")]
    pub injection_strategy: InjectionStrategy,
    /// The short form of `injectionStrategy.revision` that the proposal "SidecarSet Inject Historical Version" writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inject_strategy: Option<InjectStrategy>,
    /// Secrets for pulling the sidecars' images, added to the pod. The secrets must exist in the pod's namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// How many old revisions to keep. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// Annotations to write on the pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patch_pod_metadata: Vec<PatchPodMetadata>,
    /// A name of the user's own for this version, recorded on its ControllerRevision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_version: Option<String>,
    /// Whether injected pods share one process namespace. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_process_namespace: Option<bool>,
    /// The service account that the sidecars need. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccount>,
}

impl SidecarSetSpec {
    /// The revision that new pods should get, from `injectionStrategy.revision` or its short form `injectStrategy`.
    ///
    /// In the short form `controllerRevision` is for every pod, and `revision` for as many as the partition keeps.
    pub fn pinned_revision(&self) -> Option<InjectRevision> {
        if let Some(revision) = &self.injection_strategy.revision {
            return Some(revision.clone());
        }
        let short = self.inject_strategy.as_ref()?;
        let (name, policy) = match (&short.controller_revision, &short.revision) {
            (Some(name), _) => (name, InjectRevisionPolicy::Always),
            (None, Some(name)) => (name, InjectRevisionPolicy::Quota),
            (None, None) => return None,
        };
        let policy = Some(short.policy.clone().unwrap_or(policy));
        Some(InjectRevision { revision_name: Some(name.clone()), policy, ..InjectRevision::default() })
    }

    /// How many revisions to keep. The latest one is always kept.
    pub fn history_limit(&self) -> usize {
        let limit = self.revision_history_limit.and_then(|limit| usize::try_from(limit).ok());
        limit.unwrap_or(DEFAULT_HISTORY_LIMIT).max(1)
    }
}

/// How many revisions are kept unless the set says otherwise.
const DEFAULT_HISTORY_LIMIT: usize = 10;

/// A container to inject: the fields of a Kubernetes container, and how it is injected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SidecarContainer {
    /// Before or after the app's containers in the list. Default: sidecars before, init containers after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_inject_policy: Option<PodInjectPolicy>,
    /// Whether an update restarts the container or hands over to a second one.
    #[serde(skip_serializing_if = "UpgradeStrategy::is_empty")]
    pub upgrade_strategy: UpgradeStrategy,
    /// Whether the app containers' volume mounts are shared with this container. Default disabled.
    #[serde(skip_serializing_if = "ShareVolumePolicy::is_empty")]
    pub share_volume_policy: ShareVolumePolicy,
    /// Whether the app containers' raw block devices are shared with this container. Default disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_volume_device_policy: Option<ShareVolumePolicy>,
    /// Environment variables to copy from app containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transfer_env: Vec<TransferEnv>,
    /// Computes `resources` from those of the app's containers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources_policy: Option<ResourcesPolicy>,
    /// Ends this container when the pod's real work is done (KEP-0008). A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<bool>,
    /// How `sidecar: true` is realised. Default Native. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sidecar_mode: Option<SidecarMode>,
    /// Whether an error of this sidecar fails the pod. Default false. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_pod_on_sidecar_error: Option<bool>,
    /// The Kubernetes container, as it was written.
    #[serde(flatten)]
    #[schemars(with = "OfKubernetes<k8s_openapi::api::core::v1::Container>")]
    pub container: Map<String, Value>,
}

impl SidecarContainer {
    /// The container's name, or "" while it has none.
    pub fn name(&self) -> &str {
        self.container.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// The container's image, or "" while it has none.
    pub fn image(&self) -> &str {
        self.container.get("image").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether this init container keeps running beside the app: `restartPolicy: Always`.
    pub fn is_native_sidecar(&self) -> bool {
        self.container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
    }

    /// Whether updates hand over from one container of a pair to the other.
    pub fn is_hot_upgrade(&self) -> bool {
        self.upgrade_strategy.upgrade_type == Some(UpgradeType::HotUpgrade)
    }
}

/// Where in the list a container goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PodInjectPolicy {
    /// In front of the app's containers.
    BeforeAppContainer,
    /// Behind the app's containers.
    AfterAppContainer,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// How a container is updated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeStrategy {
    /// `ColdUpgrade` (default) restarts the container; `HotUpgrade` hands over to a second one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_type: Option<UpgradeType>,
    /// Image of the idle container of a hot-upgrade pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_upgrade_empty_image: Option<String>,
}

impl UpgradeStrategy {
    fn is_empty(&self) -> bool {
        *self == UpgradeStrategy::default()
    }
}

/// Cold or hot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeType {
    /// The container restarts with the new image.
    ColdUpgrade,
    /// A second container takes over without a gap.
    HotUpgrade,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// Whether something of the app's is shared with a sidecar.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ShareVolumePolicy {
    /// `enabled` or `disabled`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub policy: Option<SharePolicy>,
}

impl ShareVolumePolicy {
    fn is_empty(&self) -> bool {
        self.policy.is_none()
    }

    /// Whether sharing is switched on.
    pub fn is_enabled(&self) -> bool {
        self.policy == Some(SharePolicy::Enabled)
    }
}

/// Shared or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SharePolicy {
    /// Shared.
    Enabled,
    /// Not shared.
    Disabled,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// Environment variables to copy from one app container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TransferEnv {
    /// The app container to copy from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_container_name: Option<String>,
    /// Where to read the app container's name; wins over `sourceContainerName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_container_name_from: Option<SourceContainerNameFrom>,
    /// One variable to copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_name: Option<String>,
    /// More variables to copy.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_names: Vec<String>,
}

impl TransferEnv {
    /// The variables to copy.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.env_name.iter().chain(&self.env_names).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// Where the name of a container is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceContainerNameFrom {
    /// `metadata.labels['key']` or `metadata.annotations['key']` of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<FieldRef>,
}

/// A field of the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FieldRef {
    /// Version of the schema that `fieldPath` is written in. Default `v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `metadata.labels['key']` or `metadata.annotations['key']`.
    pub field_path: String,
}

/// Computes a sidecar's resources from those of the app's containers.
///
/// The proposal writes `targetContainerMode` and `resourceExpr`, Kruise `targetContainersMode` and `resourcesExpr`.
/// Exactly one spelling of each is wanted; it is stored as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcesPolicy {
    /// How the target containers' resources become one number: `sum` or `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_containers_mode: Option<TargetContainersMode>,
    /// The proposal's spelling of `targetContainersMode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_container_mode: Option<TargetContainersMode>,
    /// Which containers count, by name; not anchored. Default `.*`. Containers of SidecarSets never count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_containers_name_regex: Option<String>,
    /// The expressions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources_expr: Option<ResourcesExpr>,
    /// The proposal's spelling of `resourcesExpr`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_expr: Option<ResourcesExpr>,
}

impl ResourcesPolicy {
    /// The mode, whichever way it was spelt.
    pub fn mode(&self) -> Option<&TargetContainersMode> {
        self.target_containers_mode.as_ref().or(self.target_container_mode.as_ref())
    }

    /// The expressions, whichever way they were spelt.
    pub fn expressions(&self) -> Option<&ResourcesExpr> {
        self.resources_expr.as_ref().or(self.resource_expr.as_ref())
    }

    /// The regex for target containers' names.
    pub fn regex(&self) -> &str {
        self.target_containers_name_regex.as_deref().unwrap_or(".*")
    }

    /// The regex, compiled as Go would.
    ///
    /// # Errors
    /// It is malformed, or too large to be one for names.
    pub fn compile_regex(&self) -> Result<Regexp, pillion_regexp::Error> {
        Regexp::with_size_limit(self.regex(), 1 << 20)
    }
}

/// How several containers' resources become one number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TargetContainersMode {
    /// Added up.
    Sum,
    /// The largest.
    Max,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// Expressions for limits and requests; at least one of them is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcesExpr {
    /// Limits; the variable is the targets' limit, and unlimited when one of them has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceExpressions>,
    /// Requests; the variable is the targets' request, and a target without one counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ResourceExpressions>,
}

/// An expression for each resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceExpressions {
    /// `max(cpu*50%, 50m)`: `+ - * /`, `max`, `min`, parentheses and the variable `cpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// `max(memory*50%, 100Mi)`: `+ - * /`, `max`, `min`, parentheses and the variable `memory`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    /// Whatever else was written; validation refuses it, since only cpu and memory can be computed.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: Map<String, Value>,
}

/// How `sidecar: true` is realised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SidecarMode {
    /// As a native sidecar, last in `initContainers`.
    Native,
    /// By the exit-code wrapper, or by writing the pod's terminal phase.
    Strict,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// How running pods are updated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    /// `RollingUpdate` (default) or `NotUpdate`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub strategy: Option<UpdateStrategyType>,
    /// Stops updating; new pods are still injected.
    #[serde(skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Updates only these pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OfKubernetes<LabelSelector>>")]
    pub selector: Option<LabelSelector>,
    /// How many pods, or what percentage of them, stay on the old revision. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OfKubernetes<IntOrString>>")]
    pub partition: Option<IntOrString>,
    /// How many pods, or what percentage of them, may be unavailable while updating. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<OfKubernetes<IntOrString>>")]
    pub max_unavailable: Option<IntOrString>,
    /// Which pods are updated first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_strategy: Option<PriorityStrategy>,
    /// Labels whose pods are spread over the rollout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scatter_strategy: Vec<ScatterTerm>,
    /// Seconds without progress after which the rollout says that it is stuck. Default 600. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_deadline_seconds: Option<i32>,
    /// Whether a failing rollout stops by itself. Default true. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_on_failure: Option<bool>,
}

impl UpdateStrategy {
    fn is_empty(&self) -> bool {
        *self == UpdateStrategy::default()
    }

    /// After how many seconds without progress a rollout is stuck. A number that validation refuses counts as the default.
    pub fn progress_deadline(&self) -> i32 {
        self.progress_deadline_seconds.filter(|seconds| *seconds > 0).unwrap_or(600)
    }

    /// Whether running pods are updated at all. As in Kruise, every type but `NotUpdate` means so.
    pub fn updates_running_pods(&self) -> bool {
        self.strategy != Some(UpdateStrategyType::NotUpdate)
    }
}

/// Rolling or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateStrategyType {
    /// Pods are updated in place, some at a time.
    RollingUpdate,
    /// Running pods are left alone.
    NotUpdate,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// Which pods are updated first: by order or by weight, not both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PriorityStrategy {
    /// By the first of these labels that a pod has, then by the number at the end of its value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order_priority: Vec<OrderPriorityTerm>,
    /// By the sum of the weights of the terms that match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weight_priority: Vec<WeightPriorityTerm>,
}

/// One label of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct OrderPriorityTerm {
    /// The label's key.
    pub ordered_key: String,
}

/// One term of a weighted order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightPriorityTerm {
    /// From 0 to 100.
    pub weight: i32,
    /// The pods that get the weight.
    #[schemars(with = "OfKubernetes<LabelSelector>")]
    pub match_selector: LabelSelector,
}

/// Pods with this label are spread over the rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ScatterTerm {
    /// The label's key.
    pub key: String,
    /// Its value; `*` stands for each value that a pod has.
    pub value: String,
}

/// How new pods are injected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InjectionStrategy {
    /// Stops injecting into new pods; running pods are still updated.
    #[serde(skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Injects an older revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<InjectRevision>,
    /// Whether pods may start without these sidecars while the webhook is down. Default Ignore. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// What to do with pods that should have the sidecars and have not. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

impl InjectionStrategy {
    fn is_empty(&self) -> bool {
        *self == InjectionStrategy::default()
    }
}

/// Which older revision, and for which pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InjectRevision {
    /// The version that the user named with `spec.customVersion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_version: Option<String>,
    /// The ControllerRevision's name; wins over `customVersion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_name: Option<String>,
    /// `Always` (default), `Partial` (by chance, as `updateStrategy.partition` says) or `Quota` (exactly as many pods as the partition keeps).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<InjectRevisionPolicy>,
    /// What new pods get if the revision does not exist. Default Refuse. A field of Pillion's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_missing: Option<OnMissing>,
}

/// What new pods get if the revision that a SidecarSet pins does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnMissing {
    /// They are refused.
    Refuse,
    /// They get the latest revision.
    Latest,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// For which pods a pinned revision is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InjectRevisionPolicy {
    /// For every new pod.
    Always,
    /// For a new pod with the probability that the partition gives.
    Partial,
    /// For new pods while fewer than the partition have it. A value of Pillion's own.
    Quota,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// What happens to new pods while the webhook is down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailurePolicy {
    /// They start without the sidecars, and are found afterwards.
    Ignore,
    /// They are refused.
    Fail,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// What to do with pods that should have the sidecars and have not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Repair {
    /// `Report` (default) or `Evict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<RepairPolicy>,
    /// How many pods a minute may be evicted, one after the other. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_minute: Option<i32>,
    /// Whether pods that are older than the set count, too. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_older: Option<bool>,
}

/// Only say it, or also evict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RepairPolicy {
    /// Status, event and metric.
    Report,
    /// Also evict the pod, within PodDisruptionBudgets, if a controller makes a new one.
    Evict,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// The short form of `injectionStrategy.revision`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InjectStrategy {
    /// Every new pod gets this ControllerRevision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_revision: Option<String>,
    /// New pods get this ControllerRevision while fewer than the partition have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// `Partial` makes `revision` a matter of chance; `Always` and `Quota` as in `injectionStrategy.revision`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<InjectRevisionPolicy>,
}

/// A reference to an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalObjectReference {
    /// The object's name.
    pub name: String,
}

/// Annotations to write on a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PatchPodMetadata {
    /// The annotations.
    #[serde(skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub annotations: std::collections::BTreeMap<String, String>,
    /// `Retain` (default), `Overwrite` or `MergePatchJson`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_policy: Option<PatchPolicy>,
}

/// What happens to an annotation that the pod already has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PatchPolicy {
    /// It is kept.
    Retain,
    /// It is replaced.
    Overwrite,
    /// Both are JSON, and are merged (RFC 7396).
    MergePatchJson,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

/// The service account that the sidecars need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceAccount {
    /// Its name, in the pod's namespace.
    pub name: String,
    /// `IfDefault` (default): only for pods that run as `default`; other pods keep their account, with a warning. `Required`: a pod that cannot
    /// get it, or whose process namespace cannot be shared as the set says, is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ServiceAccountPolicy>,
}

/// For which pods the service account is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceAccountPolicy {
    /// Pods that run as `default`.
    IfDefault,
    /// Every pod; one that runs as another is refused.
    Required,
    /// A value that this version does not know; validation refuses it.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown(String),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
