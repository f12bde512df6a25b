//! Jobs that fail, and failures that do not count.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::jobs::work;
use super::{UNTIL_TERM, job_is, shell, with};
use crate::{Namespace, wait};

/// Without a second try the first failure is the Job's.
pub async fn a_job_without_retries_fails_with_its_pod(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = json!({"containers": [shell("main", "sleep 2; exit 4")]});
    namespace.create::<Job>(work(json!({"backoffLimit": 0}), pod)).await?;
    job_is(namespace, "work", "Failed").await?;
    let expected = "
        Job work
          failed 1, ready 0, terminating 0
          FailureTarget, Failed=True BackoffLimitExceeded: Job has reached the specified backoff limit
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Warning BackoffLimitExceeded: Job has reached the specified backoff limit
        Pod work-1 of Job work, scheduled
          # The container runs for 2 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Failed
          container main terminated Error 4
          conditions of a failed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}

/// With one retry a second pod is made, some ten seconds after the first failed.
pub async fn a_job_with_one_retry_fails_with_its_second_pod(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = json!({"containers": [shell("main", "sleep 2; exit 4")]});
    namespace.create::<Job>(work(json!({"backoffLimit": 1}), pod)).await?;
    job_is(namespace, "work", "Failed").await?;
    let expected = "
        Job work
          failed 2, ready 0, terminating 0
          FailureTarget, Failed=True BackoffLimitExceeded: Job has reached the specified backoff limit
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal SuccessfulCreate: Created pod: work-2
          job-controller Warning BackoffLimitExceeded: Job has reached the specified backoff limit
        Pod work-1 of Job work, scheduled
          # The container runs for 2 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Failed
          container main terminated Error 4
          conditions of a failed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        Pod work-2 of Job work, scheduled
          # The container runs for 2 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Failed
          container main terminated Error 4
          conditions of a failed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}

/// A Job that takes too long is ended.
pub async fn a_job_fails_at_its_deadline(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = json!({"terminationGracePeriodSeconds": 5, "containers": [shell("main", UNTIL_TERM)]});
    namespace.create::<Job>(work(json!({"activeDeadlineSeconds": 10}), pod)).await?;
    job_is(namespace, "work", "Failed").await?;
    let expected = "
        Job work
          failed 1, ready 0, terminating 0
          FailureTarget, Failed=True DeadlineExceeded: Job was active longer than specified deadline
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal SuccessfulDelete: Deleted pod: work-1
          job-controller Warning DeadlineExceeded: Job was active longer than specified deadline
        Pod work-1 of Job work, scheduled
          Pending, Running, Succeeded
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Normal Killing spec.containers{main}: Stopping container main
          gone
        ";
    story.matches(expected).await
}

/// An exit code can be the end of a Job that had retries left.
pub async fn an_exit_code_fails_the_job(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let rule = json!({
        "action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}
    });
    let spec = json!({"backoffLimit": 6, "podFailurePolicy": {"rules": [rule]}});
    namespace.create::<Job>(work(spec, json!({"containers": [shell("main", "sleep 2; exit 42")]}))).await?;
    job_is(namespace, "work", "Failed").await?;
    let expected = "
        Job work
          failed 1, ready 0, terminating 0
          FailureTarget, Failed=True PodFailurePolicy: Container main for pod NAMESPACE/work-1 failed with exit code 42 matching FailJob rule at index 0
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Warning PodFailurePolicy: Container main for pod NAMESPACE/work-1 failed with exit code 42 matching FailJob rule at index 0
        Pod work-1 of Job work, scheduled
          # The container runs for 2 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Failed
          container main terminated Error 42
          conditions of a failed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}

/// An exit code can be none of the Job's failures.
pub async fn an_exit_code_is_not_counted(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let ignore = json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}});
    let spec = json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [ignore]}});
    let code = json!({"name": "CODE", "valueFrom": {"configMapKeyRef": {"name": "code", "key": "code"}}});
    // A controller combines what it sees in a second: the first pod runs for long enough to be counted as ready.
    let main = with(shell("main", "test $CODE = 0 || sleep 7; sleep 3; exit $CODE"), json!({"env": [code]}));
    namespace.create::<ConfigMap>(json!({"metadata": {"name": "code"}, "data": {"code": "42"}})).await?;
    namespace.create::<Job>(work(spec, json!({"containers": [main]}))).await?;
    let is_active = |job: &Job| job.status.as_ref().is_some_and(|status| status.ready == Some(1));
    wait::for_object(namespace.api::<Job>(), "work", "at work", is_active).await?;
    // The first pod has its environment; the second will have another.
    let fix = Patch::Merge(json!({"data": {"code": "0"}}));
    namespace.api::<ConfigMap>().patch("code", &PatchParams::default(), &fix).await?;
    job_is(namespace, "work", "Complete").await?;
    let expected = "
        Job work
          ready 0, succeeded 1, terminating 0
          SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal SuccessfulCreate: Created pod: work-2
          job-controller Normal Completed: Job completed
        Pod work-1 of Job work, scheduled
          Pending, Running, Failed
          container main terminated Error 42
          conditions of a failed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        Pod work-2 of Job work, scheduled
          # The container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}
