//! Every label, annotation, environment variable and condition that Pillion reads or writes.

/// API group of SidecarSet.
pub const GROUP: &str = "apps.kruise.io";
/// The stored version of SidecarSet.
pub const V1BETA1: &str = "apps.kruise.io/v1beta1";
/// The older version of SidecarSet, served and converted.
pub const V1ALPHA1: &str = "apps.kruise.io/v1alpha1";
/// The kind itself.
pub const SIDECARSET_KIND: &str = "SidecarSet";

/// Annotation: on a SidecarSet its hash; on a pod a JSON map from SidecarSet name to what was injected.
pub const HASH: &str = "kruise.io/sidecarset-hash";
/// Annotation: as [`HASH`], with every image left out of the hash.
pub const HASH_WITHOUT_IMAGE: &str = "kruise.io/sidecarset-hash-without-image";
/// Pod annotation: the sorted, comma-joined names of the SidecarSets injected into it.
pub const INJECTED_LIST: &str = "kruise.io/sidecarset-injected-list";
/// Pod annotation: JSON map from SidecarSet name to what its last update in place changed, and from which images.
pub const IN_PLACE_UPDATE_STATE: &str = "kruise.io/sidecarset-inplace-update-state";
/// Pod annotation: JSON map from sidecar name to the container of its hot-upgrade pair that works.
pub const WORKING_HOT_UPGRADE_CONTAINER: &str = "kruise.io/sidecarset-working-hotupgrade-container";
/// Pod annotation: what an update in place has changed, until the kubelet has followed.
pub const IN_PLACE_STATE: &str = "kruise.io/sidecarset-inplace-update-state";
/// Prefix of the pod annotation with the version of one container of a hot-upgrade pair.
pub const HOT_UPGRADE_VERSION_PREFIX: &str = "version.sidecarset.kruise.io/";
/// Prefix of the pod annotation with the version of the other container of the pair.
pub const HOT_UPGRADE_VERSION_ALT_PREFIX: &str = "versionalt.sidecarset.kruise.io/";

/// Pod condition: whether every SidecarSet of the pod can be updated in place.
pub const UPGRADABLE_CONDITION: &str = "SidecarSetUpgradable";
/// Pod annotation of our own: the place in a partition that `policy: Quota` granted this pod.
pub const QUOTA_PLACE: &str = "pillion.dev/quota-place";
/// SidecarSet annotation of our own: the revision whose rollout paused itself and is to go on.
pub const RESUME: &str = "pillion.dev/resume";

/// Label of a ControllerRevision: the SidecarSet that it belongs to.
pub const REVISION_OWNER: &str = "kruise.io/sidecarset-name";
/// Label of a v1alpha1 SidecarSet and of a ControllerRevision: the user's own name for a version.
pub const CUSTOM_VERSION: &str = "apps.kruise.io/sidecarset-custom-version";
/// Label of a ControllerRevision: the hash part of its name.
pub const REVISION_HASH: &str = "controller.kubernetes.io/hash";
/// SidecarSet annotation, exactly `"true"`: this set is the canary of the set named in [`CANARY_BASE`].
pub const CANARY: &str = "apps.kruise.io/sidecarset-canary";
/// SidecarSet annotation: the set that a canary stands in for.
pub const CANARY_BASE: &str = "apps.kruise.io/sidecarset-base";
/// SidecarSet annotation of our own: the v1alpha1 `spec.namespace` that conversion folded into `namespaceSelector`.
pub const V1ALPHA1_NAMESPACE: &str = "pillion.dev/v1alpha1-namespace";
/// Annotation of our own on a v1alpha1 SidecarSet: the label [`CUSTOM_VERSION`] and the `spec.customVersion` of v1beta1,
/// where both cannot be shown.
pub const V1BETA1_CUSTOM_VERSION: &str = "pillion.dev/v1beta1-custom-version";

/// Environment variable with value `true` in every injected container.
pub const IS_INJECTED: &str = "IS_INJECTED";
/// Environment variable of a hot-upgrade container: its version, by fieldRef.
pub const SIDECARSET_VERSION: &str = "SIDECARSET_VERSION";
/// Environment variable of a hot-upgrade container: the version of the other one, by fieldRef.
pub const SIDECARSET_VERSION_ALT: &str = "SIDECARSET_VERSION_ALT";

/// The label that every Namespace carries with its own name.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Namespace where ControllerRevisions of SidecarSets live unless the manager is configured otherwise.
pub const DEFAULT_SYSTEM_NAMESPACE: &str = "kruise-system";
/// ConfigMap in that namespace with the whitelist of annotations that `patchPodMetadata` may touch.
pub const CONFIGURATION_CONFIG_MAP: &str = "kruise-configuration";
/// Its key.
pub const PATCH_POD_METADATA_WHITELIST: &str = "SidecarSet_PatchPodMetadata_WhiteList";

/// Pod annotation of our own: `"false"` keeps every SidecarSet out of this pod.
pub const INJECT: &str = "pillion.dev/inject";

/// Annotation of our own on a service account, `"true"`: SidecarSets may give this account to pods.
pub const INJECTABLE: &str = "pillion.dev/injectable";

/// The in-pod agent.
pub mod agent {
    /// Its account, its Role, and the ConfigMap with the parameters of its policy.
    pub const NAME: &str = "pillion-agent";
    /// The ConfigMap with its configuration, in the namespace of its pods.
    pub const CONFIG: &str = "sidecar-config";
    /// The key of the configuration.
    pub const CONFIG_KEY: &str = "config.yaml";
    /// The ConfigMap with what each pod runs.
    pub const RESULTS: &str = "sidecar-result";
    /// Label of our own: which pods get the agent, and which ConfigMaps are its own (`config`, `parameters`, `result`).
    pub const LABEL: &str = "pillion.dev/agent";
    /// Its value on pods.
    pub const ENABLED: &str = "enabled";
    /// Label of our own on a ConfigMap with a configuration: the manager mirrors it into the namespaces that have agent pods.
    pub const MIRROR: &str = "pillion.dev/mirror";
    /// Annotation of our own on a mirror: the namespace and name of what it mirrors.
    pub const MIRROR_OF: &str = "pillion.dev/mirror-of";
}

/// Pod annotation of our own: the containers, joined by commas, that are sidecars and end when the work is done.
pub const SIDECARS: &str = "pillion.dev/sidecars";
/// Pod annotation of our own: how that is done, `Native` or `Strict`.
pub const SIDECAR_MODE: &str = "pillion.dev/sidecar-mode";
/// Pod annotation of our own, `"true"`: an error of one of these sidecars before the work is done fails the pod.
pub const FAIL_POD_ON_SIDECAR_ERROR: &str = "pillion.dev/fail-pod-on-sidecar-error";
/// Pod annotation of our own: what admission made of the marked sidecars, where the manager has to do something about them later.
pub const SIDECAR_RECORD: &str = "pillion.dev/sidecar-record";
/// Pod annotation of our own: written together with a terminal phase, so that the kubelet looks at the phase.
pub const WORK_DONE: &str = "pillion.dev/work-done";
/// Pod condition of Kruise's `SidecarTerminator`: the pod's phase was set because its work is done.
pub const SIDECAR_TERMINATED: &str = "SidecarTerminated";
/// Environment variable of Kruise's `SidecarTerminator`, `true` in any case: the container ends when the others have.
pub const KRUISE_TERMINATE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
/// The same on a virtual kubelet, with an image that exits at once.
pub const KRUISE_TERMINATE_WITH_IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
/// Environment variable of Kruise's `SidecarTerminator`: how this sidecar ends does not change the phase of the pod.
pub const KRUISE_IGNORE_EXIT_CODE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";

/// Pod annotation of our own: how long the containers of a simulated pod run and how they end.
pub const SIMULATE: &str = "pillion.dev/simulate";

/// Condition of a SidecarSet: whether every pod that should have its sidecars has them.
pub const PODS_INJECTED: &str = "PodsInjected";
/// Condition of a SidecarSet with `failurePolicy: Fail`: whether its pods are refused while the webhook is down.
pub const FAILURE_POLICY_ENFORCED: &str = "FailurePolicyEnforced";
/// The label with the program that an object was installed by.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Pod label of our own, `"true"`: the pod with which `pillion install` checks admission. It is never stored.
pub const INSTALL_CHECK: &str = "pillion.dev/install-check";

/// Annotation of the Secret with the webhooks' authority: when that authority expires.
pub const AUTHORITY_NOT_AFTER: &str = "pillion.dev/authority-not-after";
/// Annotation of that Secret: when the authority that comes next expires.
pub const AUTHORITY_NEXT_NOT_AFTER: &str = "pillion.dev/next-not-after";
/// Annotation of that Secret: since when the authority that comes next is trusted.
pub const AUTHORITY_NEXT_SINCE: &str = "pillion.dev/next-since";

// Vertical Pod Autoscaler.

/// API version of VerticalPodAutoscaler and of its checkpoints.
pub const AUTOSCALING_V1: &str = "autoscaling.k8s.io/v1";
/// API group of VerticalPodAutoscaler.
pub const AUTOSCALING_GROUP: &str = "autoscaling.k8s.io";
/// The kind that sizes a workload.
pub const VPA_KIND: &str = "VerticalPodAutoscaler";
/// The kind that stores histograms.
pub const VPA_CHECKPOINT_KIND: &str = "VerticalPodAutoscalerCheckpoint";
/// Pod annotation: which resources admission changed, and why.
pub const VPA_UPDATES: &str = "vpaUpdates";
/// Pod annotation: the containers that admission saw, joined by `, `. The updater ignores all others.
pub const VPA_OBSERVED_CONTAINERS: &str = "vpaObservedContainers";
/// Pod annotation that upstream's updater writes after a resize in place. Pillion does not write it.
pub const VPA_IN_PLACE_UPDATED: &str = "vpaInPlaceUpdated";
/// Prefix of the pod annotation with the resources that a boosted container had before.
pub const VPA_CPU_STARTUP_BOOST_PREFIX: &str = "vpaCpuStartupBoost/";
/// Prefix of the annotation of a VerticalPodAutoscaler that rounds a container's CPU up to whole cores.
pub const VPA_POST_PROCESSOR_PREFIX: &str = "vpa-post-processor.kubernetes.io/";
/// Suffix of that annotation, after the name of the container.
pub const VPA_INTEGER_CPU_SUFFIX: &str = "_integerCPU";
/// The Lease that shows that admission is alive; the updater does not evict without it.
pub const VPA_ADMISSION_LEASE: &str = "vpa-admission-controller";
