//! The paths of the webhooks: what the API server is asked to call, and what is served.

pub(crate) const MUTATE_POD: &str = "/mutate-pod";
pub(crate) const CONFIRM_PLACE: &str = "/confirm-place";
pub(crate) const MUTATE_SIDECARSET: &str = "/mutate-sidecarset";
pub(crate) const VALIDATE_SIDECARSET: &str = "/validate-sidecarset";
pub(crate) const CONVERT: &str = "/convert";
pub(crate) const MUTATE_AUTOSCALER: &str = "/mutate-verticalpodautoscaler";
pub(crate) const VALIDATE_AUTOSCALER: &str = "/validate-verticalpodautoscaler";
pub(crate) const VALIDATE_JOB: &str = "/validate-job";
