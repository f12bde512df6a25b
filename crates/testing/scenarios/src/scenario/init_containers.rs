//! Init containers: in order, and what happens when one fails.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{A_WHILE, UNTIL_TERM, app, is_running, phase, shell, with};
use crate::Namespace;

/// Each begins when the one before has ended, the main container after all.
pub async fn init_containers_run_in_order(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let mounts = json!({"volumeMounts": [{"name": "log", "mountPath": "/log"}]});
    let container = |name: &str, line: &str| with(shell(name, line), mounts.clone());
    let pod = app(json!({
        "restartPolicy": "Never", "volumes": [{"name": "log", "emptyDir": {}}],
        "initContainers": [container("first", "sleep 2; echo first >> /log/order"), container("second", "echo second >> /log/order")],
        "containers": [container("main", "echo main >> /log/order; cat /log/order; sleep 3")]
    }));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "done", |pod| phase(pod) == "Succeeded").await?;
    namespace.log_is("app", "main", "first\nsecond\nmain\n").await?;
    let expected = "
        Pod app, scheduled
          # The main container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          init container first terminated Completed 0
          init container second terminated Completed 0
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.initContainers{first}
          kubelet Normal Pulled, Created, Started spec.initContainers{second}
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}

/// Under `Never` the pod has failed, and what follows never begins.
pub async fn a_failed_init_container_fails_the_pod(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = app(json!({
        "restartPolicy": "Never",
        "initContainers": [shell("first", "sleep 2; exit 5"), shell("second", "true")], "containers": [shell("main", A_WHILE)]
    }));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "failed", |pod| phase(pod) == "Failed").await?;
    let expected = "
        Pod app, scheduled
          Pending, Failed
          init container first terminated Error 5
          init container second waiting PodInitializing
          container main waiting PodInitializing
          PodReadyToStartContainers=False
          Initialized=False ContainersNotInitialized: containers with incomplete status: [first second]
          Ready, ContainersReady=False PodFailed
          PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.initContainers{first}
        ";
    story.matches(expected).await
}

/// Otherwise it is tried again.
pub async fn a_failed_init_container_is_tried_again(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let line = "sleep 2; test -e /state/tried && exit 0; : > /state/tried; exit 5";
    let init = with(shell("init", line), json!({"volumeMounts": [{"name": "state", "mountPath": "/state"}]}));
    let pod = app(json!({
        "volumes": [{"name": "state", "emptyDir": {}}], "initContainers": [init], "containers": [shell("main", UNTIL_TERM)]
    }));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "running", |pod| is_running(pod, "main")).await?;
    let expected = "
        Pod app, scheduled
          Pending, Running
          init container init terminated Completed 0, restarts 1
          container main running, ready
          PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.initContainers{init} ×2
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}
