//! Containers that end, or never begin.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{app, phase, shell, status_of, waiting_reason, with};
use crate::Namespace;

/// The first restart is at once, the second after ten seconds, and until then the container waits.
pub async fn a_container_that_crashes_is_backed_off(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let line = "sleep 2; echo >> /state/lives; test $(wc -l < /state/lives) -ge 3 || exit 7; trap 'exit 0' TERM; sleep 3600 & wait $!";
    let main = with(shell("main", line), json!({"volumeMounts": [{"name": "state", "mountPath": "/state"}]}));
    namespace.create::<Pod>(app(json!({"containers": [main], "volumes": [{"name": "state", "emptyDir": {}}]}))).await?;
    let expected = "
        main waiting ContainerCreating
        # It runs for 2 s: a busy kubelet may not see it running.
        maybe main running, ready
        # The restart follows at once: a kubelet reports only the latest of statuses that follow each other quickly.
        maybe main terminated Error 7
        # It runs for 2 s.
        maybe main running, ready, restarts 1, before terminated Error 7
        # The back-off follows at once.
        maybe main terminated Error 7, restarts 1, before terminated Error 7
        # The back-off follows at once, and meanwhile the kubelet removes what the first run has left.
        maybe main terminated Error 7, restarts 1
        main waiting CrashLoopBackOff: back-off 10s restarting failed container=main pod=app_NAMESPACE(UID), restarts 1, before terminated Error 7
        main running, ready, restarts 2, before terminated Error 7
        ";
    story.container_begins("main", expected).await?;
    let expected = "
        Pod app, scheduled
          Pending, Running
          container main running, ready, restarts 2, before terminated Error 7
          PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.containers{main} ×3
          kubelet Warning BackOff spec.containers{main}: Back-off restarting failed container main in pod app_NAMESPACE(UID)
        ";
    story.matches(expected).await
}

/// A program that is not there. What the runtime says is its own, the reasons are Kubernetes'.
pub async fn a_program_that_is_not_there_cannot_start(namespace: &Namespace) -> anyhow::Result<()> {
    let mut main = shell("main", "");
    main["command"] = json!(["/no/such/program"]);
    namespace.create::<Pod>(app(json!({"restartPolicy": "Never", "containers": [main]}))).await?;
    let pod = namespace.wait_for_pod("app", "failed", |pod| phase(pod) == "Failed").await?;
    let end = status_of(&pod, "main").and_then(|status| status.state.as_ref()?.terminated.clone());
    let end = end.map(|end| (end.reason.unwrap_or_default(), end.exit_code));
    ensure!(end == Some(("StartError".to_owned(), 128)), "the container's end is {end:?}");
    namespace.has_event("app", "Failed", "Error: failed to ").await
}

/// The same where it is tried again.
pub async fn a_program_that_is_not_there_is_tried_again(namespace: &Namespace) -> anyhow::Result<()> {
    let mut main = shell("main", "");
    main["command"] = json!(["/no/such/program"]);
    namespace.create::<Pod>(app(json!({"containers": [main]}))).await?;
    let is_refused = |pod: &Pod| waiting_reason(pod, "main") == Some("RunContainerError");
    namespace.wait_for_pod("app", "refused", is_refused).await?;
    let is_waiting = |pod: &Pod| waiting_reason(pod, "main") == Some("CrashLoopBackOff");
    let pod = namespace.wait_for_pod("app", "in back-off", is_waiting).await?;
    let last = status_of(&pod, "main").and_then(|status| status.last_state.as_ref()?.terminated.clone());
    let last = last.map(|end| (end.reason.unwrap_or_default(), end.exit_code));
    ensure!(last == Some(("StartError".to_owned(), 128)), "the last state is {last:?}");
    ensure!(phase(&pod) == "Running", "the phase is {}", phase(&pod));
    Ok(())
}

/// What a container leaves in its message file is in its status.
pub async fn a_container_leaves_a_message(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let file = shell("file", "sleep 2; echo it was me > /dev/termination-log; exit 1");
    let log = with(
        shell("log", "sleep 2; echo last words; exit 1"),
        json!({"terminationMessagePolicy": "FallbackToLogsOnError"}),
    );
    namespace.create::<Pod>(app(json!({"restartPolicy": "Never", "containers": [file, log]}))).await?;
    namespace.wait_for_pod("app", "failed", |pod| phase(pod) == "Failed").await?;
    let expected = "
        Pod app, scheduled
          # The containers run for 2 s: a busy kubelet may not see them running.
          Pending, {maybe Running, }Failed
          container file terminated Error 1: it was me
          container log terminated Error 1: last words
          conditions of a failed pod
          kubelet Normal Pulled, Created, Started spec.containers{file}
          kubelet Normal Pulled, Created, Started spec.containers{log}
        ";
    story.matches_for(&["Pod"], expected).await
}

/// A pod that may only run so long.
pub async fn a_pod_fails_at_its_deadline(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = app(json!({"activeDeadlineSeconds": 8, "containers": [shell("main", super::UNTIL_TERM)]}));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "failed", |pod| phase(pod) == "Failed").await?;
    let expected = "
        Pod app, scheduled
          Pending, Running, Failed; DeadlineExceeded; Pod was active on the node longer than the specified deadline
          container main terminated Completed 0
          conditions of a failed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Normal DeadlineExceeded: Pod was active on the node longer than the specified deadline
          kubelet Normal Killing spec.containers{main}: Stopping container main
        ";
    story.matches(expected).await
}
