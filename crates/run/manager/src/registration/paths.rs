//! The paths of the webhooks: what the API server is asked to call, and what is served.

/// Where pods are injected.
pub(crate) const MUTATE_POD: &str = "/mutate-pod";
/// Where the places of new pods are confirmed.
pub(crate) const CONFIRM_PLACE: &str = "/confirm-place";
/// Where SidecarSets get their defaults and hashes.
pub(crate) const MUTATE_SIDECARSET: &str = "/mutate-sidecarset";
/// Where SidecarSets are checked.
pub(crate) const VALIDATE_SIDECARSET: &str = "/validate-sidecarset";
/// Where SidecarSets are converted between versions.
pub(crate) const CONVERT: &str = "/convert";
/// Where VerticalPodAutoscalers get their defaults.
pub(crate) const MUTATE_AUTOSCALER: &str = "/mutate-verticalpodautoscaler";
/// Where VerticalPodAutoscalers are checked.
pub(crate) const VALIDATE_AUTOSCALER: &str = "/validate-verticalpodautoscaler";
/// Where Jobs and CronJobs whose templates mark sidecars are checked.
pub(crate) const VALIDATE_JOB: &str = "/validate-job";
