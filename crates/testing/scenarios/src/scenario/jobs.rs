//! Jobs that come to their end, and their sidecars.

use k8s_openapi::api::batch::v1::Job;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{A_WHILE, IGNORES_TERM, UNTIL_TERM, job_is, shell, sidecar, with};
use crate::{Namespace, wait};

/// A Job called `work`, whose pods have this spec.
pub(super) fn work(spec: Value, pod: Value) -> Value {
    let template = json!({"template": {"spec": with(json!({"restartPolicy": "Never"}), pod)}});
    json!({"metadata": {"name": "work"}, "spec": with(template, spec)})
}

/// One pod, one success.
pub async fn a_job_completes(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    namespace.create::<Job>(work(json!({}), json!({"containers": [shell("main", A_WHILE)]}))).await?;
    job_is(namespace, "work", "Complete").await?;
    let expected = "
        Job work
          ready 0, succeeded 1, terminating 0
          SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal Completed: Job completed
        Pod work-1 of Job work, scheduled
          # The container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}

/// A native sidecar does not keep a Job from completing: it is stopped when the work is done.
pub async fn a_job_with_a_native_sidecar_completes(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = json!({"initContainers": [sidecar("sidecar", UNTIL_TERM)], "containers": [shell("main", A_WHILE)]});
    namespace.create::<Job>(work(json!({"backoffLimit": 0}), pod)).await?;
    job_is(namespace, "work", "Complete").await?;
    let expected = "
        Job work
          ready 0, succeeded 1, terminating 0
          SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal Completed: Job completed
        Pod work-1 of Job work, scheduled
          # The container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          init container sidecar terminated Completed 0
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.initContainers{sidecar}
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Normal Killing spec.initContainers{sidecar}: Stopping container sidecar
        ";
    story.matches(expected).await
}

/// A native sidecar that does not want to end is killed after the grace period, and the Job completes all the same.
pub async fn a_job_completes_though_its_sidecar_has_to_be_killed(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let stubborn = sidecar("sidecar", IGNORES_TERM);
    let pod = json!({
        "terminationGracePeriodSeconds": 2, "initContainers": [stubborn], "containers": [shell("main", A_WHILE)]
    });
    namespace.create::<Job>(work(json!({"backoffLimit": 0}), pod)).await?;
    job_is(namespace, "work", "Complete").await?;
    let expected = "
        Job work
          ready 0, succeeded 1, terminating 0
          SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal Completed: Job completed
        Pod work-1 of Job work, scheduled
          # The container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          init container sidecar terminated Error 137
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.initContainers{sidecar}
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Normal Killing spec.initContainers{sidecar}: Stopping container sidecar
        ";
    story.matches(expected).await
}

/// Under `OnFailure` the same pod tries again.
pub async fn a_job_succeeds_at_the_second_try(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let line = "sleep 2; test -e /state/tried && exit 0; : > /state/tried; exit 3";
    let main = with(shell("main", line), json!({"volumeMounts": [{"name": "state", "mountPath": "/state"}]}));
    let pod =
        json!({"restartPolicy": "OnFailure", "containers": [main], "volumes": [{"name": "state", "emptyDir": {}}]});
    namespace.create::<Job>(work(json!({}), pod)).await?;
    job_is(namespace, "work", "Complete").await?;
    let expected = "
        Job work
          ready 0, succeeded 1, terminating 0
          SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal Completed: Job completed
        Pod work-1 of Job work, scheduled
          Pending, Running, Succeeded
          container main terminated Completed 0, restarts 1
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.containers{main} ×2
        ";
    story.matches(expected).await
}

/// Each index has a pod of its own, which knows it.
pub async fn an_indexed_job_completes_every_index(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let main = shell("main", "sleep 3; test $HOSTNAME = work-$JOB_COMPLETION_INDEX");
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0});
    namespace.create::<Job>(work(spec, json!({"containers": [main]}))).await?;
    job_is(namespace, "work", "Complete").await?;
    let expected = "
        Job work
          completedIndexes 0,1, ready 0, succeeded 2, terminating 0
          SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
          # The controller creates them at the same time.
          any order
            job-controller Normal SuccessfulCreate: Created pod: work-0-1
            job-controller Normal SuccessfulCreate: Created pod: work-1-1
          job-controller Normal Completed: Job completed
        Pod work-0-1 of Job work, scheduled
          # The container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        Pod work-1-1 of Job work, scheduled
          # The container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}

/// A Job that has ended goes, with its pods, when its time has come.
pub async fn a_job_goes_some_time_after_it_has_finished(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let spec = json!({"ttlSecondsAfterFinished": 2});
    namespace.create::<Job>(work(spec, json!({"containers": [shell("main", A_WHILE)]}))).await?;
    job_is(namespace, "work", "Complete").await?;
    wait::until("the Job's end", async || Ok(namespace.api::<Job>().get_opt("work").await?.is_none().then_some(())))
        .await?;
    let expected = "
        Job work
          ready 0, succeeded 1, terminating 0
          SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal Completed: Job completed
          gone
        Pod work-1 of Job work, scheduled
          # The container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
          gone
        ";
    story.matches(expected).await
}

/// A suspended Job has no pods, and begins when it is resumed.
pub async fn a_suspended_job_begins_when_it_is_resumed(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let spec = json!({"suspend": true});
    namespace.create::<Job>(work(spec, json!({"containers": [shell("main", A_WHILE)]}))).await?;
    job_is(namespace, "work", "Suspended").await?;
    let expected = "
        Job work
          ready 0, terminating 0
          Suspended=True JobSuspended: Job suspended
          job-controller Normal Suspended: Job suspended
        ";
    story.matches(expected).await?;
    let resume = Patch::Merge(json!({"spec": {"suspend": false}}));
    namespace.api::<Job>().patch("work", &PatchParams::default(), &resume).await?;
    job_is(namespace, "work", "Complete").await?;
    let expected = "
        Job work
          ready 0, succeeded 1, terminating 0
          Suspended=False JobResumed: Job resumed
          SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
          job-controller Normal Suspended: Job suspended
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal Resumed: Job resumed
          job-controller Normal Completed: Job completed
        Pod work-1 of Job work, scheduled
          # The container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}

/// A Job that is suspended while it runs loses its pod.
pub async fn a_job_that_is_suspended_loses_its_pod(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = json!({"terminationGracePeriodSeconds": 5, "containers": [shell("main", UNTIL_TERM)]});
    namespace.create::<Job>(work(json!({}), pod)).await?;
    let is_active = |job: &Job| job.status.as_ref().is_some_and(|status| status.ready == Some(1));
    wait::for_object(namespace.api::<Job>(), "work", "at work", is_active).await?;
    let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
    namespace.api::<Job>().patch("work", &PatchParams::default(), &suspend).await?;
    job_is(namespace, "work", "Suspended").await?;
    let expected = "
        Job work
          ready 0, terminating 0
          Suspended=True JobSuspended: Job suspended
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal SuccessfulDelete: Deleted pod: work-1
          job-controller Normal Suspended: Job suspended
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
