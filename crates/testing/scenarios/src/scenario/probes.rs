//! Probes: what they stop, and what they hold back.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{UNTIL_TERM, app, is_ready, phase, restarts, shell, with};
use crate::Namespace;

/// A probe that succeeds while a file is there.
fn while_there(file: &str) -> Value {
    json!({
        "exec": {"command": ["/bin/sh", "-c", format!("test -e {file}")]}, "periodSeconds": 1, "failureThreshold": 2, "timeoutSeconds": 5
    })
}

/// A container that is not alive is killed and started again.
pub async fn a_container_that_is_not_alive_is_restarted(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    // The first life loses its file after a while, the second keeps it.
    let line = ": > /state/alive; test -e /state/lived || { : > /state/lived; sleep 3; rm /state/alive; }; \
        trap 'exit 0' TERM; sleep 3600 & wait $!";
    let main = with(
        shell("main", line),
        json!({"livenessProbe": with(while_there("/state/alive"), json!({"initialDelaySeconds": 1})), "volumeMounts": [{"name": "state", "mountPath": "/state"}]}),
    );
    let pod = app(json!({"containers": [main], "volumes": [{"name": "state", "emptyDir": {}}]}));
    namespace.create::<Pod>(pod).await?;
    let is_back = |pod: &Pod| restarts(pod, "main") == Some(1) && is_ready(pod);
    namespace.wait_for_pod("app", "restarted", is_back).await?;
    let expected = "
        Pod app, scheduled
          Pending, Running
          container main running, ready, restarts 1, before terminated Completed 0
          PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.containers{main} ×2
          kubelet Warning Unhealthy spec.containers{main}: Liveness probe failed:
          kubelet Normal Killing spec.containers{main}: Container main failed liveness probe, will be restarted
        ";
    story.matches(expected).await
}

/// Readiness comes and goes, and nothing restarts.
pub async fn readiness_comes_and_goes(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let line = "sleep 3; : > /state/ready; sleep 4; rm /state/ready; trap 'exit 0' TERM; sleep 3600 & wait $!";
    let main = with(
        shell("main", line),
        json!({"readinessProbe": while_there("/state/ready"), "volumeMounts": [{"name": "state", "mountPath": "/state"}]}),
    );
    let pod = app(json!({"containers": [main], "volumes": [{"name": "state", "emptyDir": {}}]}));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    namespace.wait_for_pod("app", "not ready", |pod| !is_ready(pod)).await?;
    let expected = "
        Pod app, scheduled
          Pending, Running
          container main running, not ready
          PodReadyToStartContainers, Initialized=True
          Ready, ContainersReady=False ContainersNotReady: containers with unready status: [main]
          PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Warning Unhealthy spec.containers{main}: Readiness probe failed:
        ";
    story.matches(expected).await
}

/// A container whose `postStart` hook fails is killed.
pub async fn a_container_whose_post_start_fails_is_killed(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let hook = json!({"lifecycle": {"postStart": {"exec": {"command": ["/bin/sh", "-c", "sleep 1; exit 9"]}}}});
    let pod = app(json!({"restartPolicy": "Never", "containers": [with(shell("main", UNTIL_TERM), hook)]}));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "at its end", |pod| matches!(phase(pod), "Succeeded" | "Failed")).await?;
    let expected = "
        Pod app, scheduled
          Pending, Succeeded
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Warning FailedPostStartHook spec.containers{main}: PostStartHook failed
          kubelet Normal Killing spec.containers{main}: FailedPostStartHook
        ";
    story.matches(expected).await
}
