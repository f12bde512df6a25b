//! A CronJob as its controller sees it. The Job template stays the JSON that came.

use std::borrow::Cow;

use k8s_openapi::api::batch::v1::CronJobStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A CronJob with the fields that its controller decides by. What is sent to the server is metadata and status alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CronJobView {
    pub(crate) metadata: ObjectMeta,
    #[serde(skip_serializing)]
    pub(crate) spec: CronJobSpec,
    pub(crate) status: CronJobStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CronJobSpec {
    pub(crate) schedule: String,
    pub(crate) time_zone: Option<String>,
    pub(crate) starting_deadline_seconds: Option<i64>,
    pub(crate) concurrency_policy: Option<String>,
    pub(crate) suspend: Option<bool>,
    pub(crate) job_template: Value,
    pub(crate) successful_jobs_history_limit: Option<i32>,
    pub(crate) failed_jobs_history_limit: Option<i32>,
}

/// The same resource as `CronJob`.
impl kube::Resource for CronJobView {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "CronJob".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "batch".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "cronjobs".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
