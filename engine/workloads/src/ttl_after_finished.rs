//! Finished Jobs that want to be forgotten after a while.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, Preconditions, PropagationPolicy};
use pillion_informer::Controller;

use crate::context::Context;
use crate::error::Error;
use crate::job_view::JobView;

/// Deletes them, until dropped.
pub(crate) async fn run(context: Context) {
    let jobs = context.jobs.clone();
    let reconcile = move |job| reconcile(context.clone(), job);
    Controller::new(&jobs).run(reconcile).await;
}

/// How long the Job stays. `None` if it stays for good, or is not over.
fn plan(job: &JobView, now: Timestamp) -> Option<Duration> {
    let seconds = job.spec.ttl_seconds_after_finished.filter(|_| job.metadata.deletion_timestamp.is_none())?;
    let finished = job.finished()?.last_transition_time.as_ref()?.0;
    let rest = SignedDuration::from_secs(i64::from(seconds)) - now.duration_since(finished);
    Some(rest.try_into().unwrap_or(Duration::ZERO))
}

async fn reconcile(context: Context, job: Arc<JobView>) -> Result<Option<Duration>, Error> {
    match plan(&job, context.clock.now()) {
        Some(Duration::ZERO) => {}
        rest => return Ok(rest),
    }
    let jobs: Api<JobView> = Api::namespaced(context.client.clone(), job.namespace());
    let preconditions = Preconditions { uid: job.metadata.uid.clone(), resource_version: None };
    let how = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        preconditions: Some(preconditions),
        ..DeleteParams::default()
    };
    match jobs.delete(job.name(), &how).await.map_err(Error::from) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::test_cluster::{TestCluster, settle};

    fn job(ttl: Option<i32>, ended: Option<&str>) -> JobView {
        let conditions: Vec<Value> = ended
            .iter()
            .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}))
            .collect();
        serde_json::from_value(json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": conditions}}))
            .unwrap()
    }

    #[test]
    fn only_finished_jobs_with_a_limit_go() {
        let now = "2026-01-01T00:00:10Z".parse().unwrap();
        for (ttl, ended, rest) in [
            (None, Some("Complete"), None),
            (Some(5), None, None),
            (Some(5), Some("Complete"), Some(0)),
            (Some(15), Some("Failed"), Some(5)),
            (Some(0), Some("Failed"), Some(0)),
        ] {
            assert_eq!(plan(&job(ttl, ended), now), rest.map(Duration::from_secs), "{ttl:?} {ended:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_finished_job_goes_with_its_pods() {
        let cluster = TestCluster::start().await;
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "main"}]});
        let spec = json!({"ttlSecondsAfterFinished": 30, "template": {"spec": pod}});
        cluster
            .create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "brief"}, "spec": spec}))
            .await;
        settle(1).await;
        cluster.finish(&cluster.pods().await[0], 0).await;
        settle(28).await;
        assert_ne!(cluster.get("batch/v1 Job", "brief").await, Value::Null);
        settle(4).await;
        assert_eq!(cluster.get("batch/v1 Job", "brief").await, Value::Null);
        assert!(cluster.pods().await.is_empty());
    }
}
