//! Jobs and their sidecars.

use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::json;

use super::{UNTIL_TERM, phase, shell};
use crate::{Namespace, wait};

/// A native sidecar does not keep a Job from completing.
pub async fn a_job_with_a_native_sidecar_completes(namespace: &Namespace) -> anyhow::Result<()> {
    let mut sidecar = shell("sidecar", UNTIL_TERM);
    sidecar["restartPolicy"] = json!("Always");
    let job = json!({
        "metadata": {"name": "work"},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never", "initContainers": [sidecar], "containers": [shell("main", "echo done")]
        }}}
    });
    namespace.create::<Job>(job).await?;
    let is_complete = |job: &Job| {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "Complete" && condition.status == "True")
    };
    wait::for_object(namespace.api::<Job>(), "work", "complete", is_complete).await?;
    let pods = namespace.api::<Pod>().list(&ListParams::default().labels("job-name=work")).await?;
    let phases: Vec<&str> = pods.iter().map(phase).collect();
    ensure!(phases == ["Succeeded"], "the phases of the Job's pods are {phases:?}");
    Ok(())
}
