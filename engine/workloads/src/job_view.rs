//! A Job as its controllers see it. The pod template stays the JSON that came: fields that this program does not know reach the pods.

use std::borrow::Cow;

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus, PodFailurePolicy, SuccessPolicy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kinds::Selecting;

/// A Job with the fields that a controller decides by. What is sent to the server is metadata and status alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct JobView {
    pub(crate) metadata: ObjectMeta,
    #[serde(skip_serializing)]
    pub(crate) spec: JobSpec,
    pub(crate) status: JobStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct JobSpec {
    pub(crate) parallelism: Option<i32>,
    pub(crate) completions: Option<i32>,
    pub(crate) completion_mode: Option<String>,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) backoff_limit: Option<i32>,
    pub(crate) backoff_limit_per_index: Option<i32>,
    pub(crate) max_failed_indexes: Option<i32>,
    pub(crate) pod_failure_policy: Option<PodFailurePolicy>,
    pub(crate) success_policy: Option<SuccessPolicy>,
    pub(crate) pod_replacement_policy: Option<String>,
    pub(crate) suspend: Option<bool>,
    pub(crate) managed_by: Option<String>,
    pub(crate) ttl_seconds_after_finished: Option<i32>,
    pub(crate) selector: LabelSelector,
    pub(crate) template: Value,
}

impl JobView {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn conditions(&self) -> &[JobCondition] {
        self.status.conditions.as_deref().unwrap_or_default()
    }

    /// The condition that says so, if one does.
    pub(crate) fn condition(&self, kind: &str) -> Option<&JobCondition> {
        self.conditions().iter().find(|condition| condition.type_ == kind && condition.status == "True")
    }

    /// How it ended, if it has.
    pub(crate) fn finished(&self) -> Option<&JobCondition> {
        self.conditions()
            .iter()
            .find(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True")
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Whether this program's controller is to look after it.
    pub(crate) fn is_ours(&self) -> bool {
        self.spec.managed_by.as_deref().is_none_or(|by| by == "kubernetes.io/job-controller")
    }

    /// Whether a pod that is going still has its place until it has failed.
    pub(crate) fn replaces_only_failed_pods(&self) -> bool {
        self.spec.pod_replacement_policy.as_deref() == Some("Failed") || self.spec.pod_failure_policy.is_some()
    }
}

impl Selecting for JobView {
    fn selector(&self) -> &LabelSelector {
        &self.spec.selector
    }
}

/// The same resource as `Job`.
impl kube::Resource for JobView {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Job".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "batch".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "jobs".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
