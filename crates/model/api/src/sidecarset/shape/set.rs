//! The SidecarSet around its containers and volumes.

use super::super::{
    FailurePolicy, InjectRevisionPolicy, OnMissing, PatchPolicy, PodInjectPolicy, RepairPolicy, ServiceAccountPolicy,
    SharePolicy, SidecarMode, TargetContainersMode, UpdateStrategyType, UpgradeType,
};
use super::Kind::{Bool, Int32, Int64, IntOrString, List, Name, Object, String, Time};
use super::container::{CONTAINER, FIELD_REF};
use super::meta::{LABEL_SELECTOR, OBJECT_META};
use super::volume::{LOCAL_OBJECT_REFERENCE, VOLUME};
use super::{STRING_MAP, STRINGS, Shape, always, if_set, later, or_null, unless_empty};

/// A SidecarSet of the older version.
pub(in super::super) static V1ALPHA1: Shape = Shape::over(&OBJECT, &[always("spec", Object(&V1ALPHA1_SPEC))]);
/// A SidecarSet of the stored version.
pub(in super::super) static V1BETA1: Shape = Shape::over(&OBJECT, &[always("spec", Object(&V1BETA1_SPEC))]);

static OBJECT: Shape = Shape::new(&[
    unless_empty("kind", String),
    unless_empty("apiVersion", String),
    always("metadata", Object(&OBJECT_META)),
    always("status", Object(&STATUS)),
]);

static V1ALPHA1_SPEC: Shape = Shape::over(&SPEC, &[unless_empty("namespace", String)]);

pub(super) static V1BETA1_SPEC: Shape = Shape::over(&SPEC, &[unless_empty("customVersion", String)]);

/// What both versions have.
pub(in super::super) static SPEC: Shape = Shape::new(&[
    if_set("selector", Object(&LABEL_SELECTOR)),
    if_set("namespaceSelector", Object(&LABEL_SELECTOR)),
    unless_empty("initContainers", List(&Object(&SIDECAR_CONTAINER))),
    unless_empty("containers", List(&Object(&SIDECAR_CONTAINER))),
    unless_empty("volumes", List(&Object(&VOLUME))),
    always("updateStrategy", Object(&UPDATE_STRATEGY)),
    always("injectionStrategy", Object(&INJECTION_STRATEGY)),
    unless_empty("imagePullSecrets", List(&Object(&LOCAL_OBJECT_REFERENCE))),
    if_set("revisionHistoryLimit", Int32),
    unless_empty("patchPodMetadata", List(&Object(&PATCH_POD_METADATA))),
    later("injectStrategy", Object(&INJECT_STRATEGY)),
    later("shareProcessNamespace", Bool),
    later("serviceAccount", Object(&SERVICE_ACCOUNT)),
]);

pub(in super::super) static SIDECAR_CONTAINER: Shape = Shape::over(
    &CONTAINER,
    &[
        unless_empty("podInjectPolicy", Name(PodInjectPolicy::NAMES)),
        always("upgradeStrategy", Object(&UPGRADE_STRATEGY)),
        always("shareVolumePolicy", Object(&SHARE_VOLUME_POLICY)),
        if_set("shareVolumeDevicePolicy", Object(&SHARE_VOLUME_POLICY)),
        unless_empty("transferEnv", List(&Object(&TRANSFER_ENV))),
        if_set("resourcesPolicy", Object(&RESOURCES_POLICY)),
        later("sidecar", Bool),
        later("sidecarMode", Name(SidecarMode::NAMES)),
        later("failPodOnSidecarError", Bool),
    ],
);

static UPGRADE_STRATEGY: Shape =
    Shape::new(&[unless_empty("upgradeType", Name(UpgradeType::NAMES)), unless_empty("hotUpgradeEmptyImage", String)]);

static SHARE_VOLUME_POLICY: Shape = Shape::new(&[unless_empty("type", Name(SharePolicy::NAMES))]);

static TRANSFER_ENV: Shape = Shape::new(&[
    unless_empty("sourceContainerName", String),
    if_set("sourceContainerNameFrom", Object(&SOURCE_CONTAINER_NAME_FROM)),
    unless_empty("envName", String),
    unless_empty("envNames", STRINGS),
]);

static SOURCE_CONTAINER_NAME_FROM: Shape = Shape::new(&[if_set("fieldRef", Object(&FIELD_REF))]);

static RESOURCES_POLICY: Shape = Shape::new(&[
    always("targetContainersMode", Name(TargetContainersMode::NAMES)),
    unless_empty("targetContainersNameRegex", String),
    always("resourcesExpr", Object(&RESOURCES_EXPR)),
    later("targetContainerMode", Name(TargetContainersMode::NAMES)),
    later("resourceExpr", Object(&RESOURCES_EXPR)),
]);

static RESOURCES_EXPR: Shape =
    Shape::new(&[if_set("limits", Object(&EXPRESSIONS)), if_set("requests", Object(&EXPRESSIONS))]);

static EXPRESSIONS: Shape = Shape::new(&[unless_empty("cpu", String), unless_empty("memory", String)]);

static UPDATE_STRATEGY: Shape = Shape::new(&[
    unless_empty("type", Name(UpdateStrategyType::NAMES)),
    unless_empty("paused", Bool),
    if_set("selector", Object(&LABEL_SELECTOR)),
    if_set("partition", IntOrString),
    if_set("maxUnavailable", IntOrString),
    if_set("priorityStrategy", Object(&PRIORITY_STRATEGY)),
    unless_empty("scatterStrategy", List(&Object(&SCATTER_TERM))),
    later("progressDeadlineSeconds", Int32),
    later("pauseOnFailure", Bool),
]);

static PRIORITY_STRATEGY: Shape = Shape::new(&[
    unless_empty("orderPriority", List(&Object(&ORDER_PRIORITY_TERM))),
    unless_empty("weightPriority", List(&Object(&WEIGHT_PRIORITY_TERM))),
]);

static ORDER_PRIORITY_TERM: Shape = Shape::new(&[always("orderedKey", String)]);

static WEIGHT_PRIORITY_TERM: Shape =
    Shape::new(&[always("weight", Int32), always("matchSelector", Object(&LABEL_SELECTOR))]);

static SCATTER_TERM: Shape = Shape::new(&[always("key", String), always("value", String)]);

static INJECTION_STRATEGY: Shape = Shape::new(&[
    unless_empty("paused", Bool),
    if_set("revision", Object(&INJECT_REVISION)),
    later("failurePolicy", Name(FailurePolicy::NAMES)),
    later("repair", Object(&REPAIR)),
]);

static INJECT_REVISION: Shape = Shape::new(&[
    if_set("customVersion", String),
    if_set("revisionName", String),
    unless_empty("policy", Name(InjectRevisionPolicy::NAMES)),
    later("onMissing", Name(OnMissing::NAMES)),
]);

static REPAIR: Shape = Shape::new(&[
    unless_empty("policy", Name(RepairPolicy::NAMES)),
    if_set("maxPerMinute", Int32),
    if_set("includeOlder", Bool),
]);

static INJECT_STRATEGY: Shape = Shape::new(&[
    if_set("controllerRevision", String),
    if_set("revision", String),
    unless_empty("policy", Name(InjectRevisionPolicy::NAMES)),
]);

static PATCH_POD_METADATA: Shape =
    Shape::new(&[unless_empty("annotations", STRING_MAP), unless_empty("patchPolicy", Name(PatchPolicy::NAMES))]);

static SERVICE_ACCOUNT: Shape =
    Shape::new(&[always("name", String), unless_empty("policy", Name(ServiceAccountPolicy::NAMES))]);

pub(super) static STATUS: Shape = Shape::new(&[
    unless_empty("observedGeneration", Int64),
    always("matchedPods", Int32),
    always("updatedPods", Int32),
    always("readyPods", Int32),
    unless_empty("updatedReadyPods", Int32),
    unless_empty("latestRevision", String),
    if_set("collisionCount", Int32),
    later("missedPods", Int32),
    later("notUpgradablePods", Int32),
    later("pausedRevision", String),
    later("lastProgressTime", Time),
    later("conditions", List(&Object(&CONDITION))),
]);

/// `metav1.Condition`.
static CONDITION: Shape = Shape::new(&[
    always("type", String),
    always("status", String),
    unless_empty("observedGeneration", Int64),
    or_null("lastTransitionTime", Time),
    always("reason", String),
    always("message", String),
]);
