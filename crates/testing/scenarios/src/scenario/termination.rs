//! How pods end when they are deleted.

use anyhow::ensure;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::json;

use super::{IGNORES_TERM, UNTIL_TERM, app, is_ready, pre_stop, shell, sidecar, status_of, with};
use crate::Namespace;

/// The `preStop` hook comes first, then the main container's end, then the sidecar's.
pub async fn a_sidecar_ends_after_the_main_container(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let main = with(shell("main", "trap 'sleep 2; exit 3' TERM; sleep 3600 & wait $!"), pre_stop("sleep 2"));
    let pod = app(json!({
        "terminationGracePeriodSeconds": 20, "initContainers": [sidecar("sidecar", UNTIL_TERM)], "containers": [main]
    }));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    let asked = Timestamp::now();
    namespace.api::<Pod>().delete("app", &DeleteParams::default()).await?;
    let pod = story.end_of("app").await?;
    let ended = |container: &str| -> Option<Timestamp> {
        Some(status_of(&pod, container)?.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
    };
    let (main, sidecar) = (ended("main"), ended("sidecar"));
    ensure!(main.is_some() && main <= sidecar, "the main container ended at {main:?}, the sidecar at {sidecar:?}");
    let took = main.map(|main| main.duration_since(asked).as_secs());
    ensure!(matches!(took, Some(2..=7)), "the main container took {took:?} s to end");
    let expected = "
        Pod app, scheduled
          Pending, Running, Failed
          init container sidecar terminated Completed 0
          container main terminated Error 3
          conditions of a failed pod
          kubelet Normal Pulled, Created, Started spec.initContainers{sidecar}
          kubelet Normal Pulled, Created, Started spec.containers{main}
          # The kubelet reports both at the same time. The sidecar then waits for the end of the main container, as checked above.
          any order
            kubelet Normal Killing spec.containers{main}: Stopping container main
            kubelet Normal Killing spec.initContainers{sidecar}: Stopping container sidecar
          gone
        ";
    story.matches(expected).await
}

/// A container that does not end in time is killed.
pub async fn a_container_that_ignores_the_signal_is_killed(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let main = shell("main", IGNORES_TERM);
    namespace.create::<Pod>(app(json!({"terminationGracePeriodSeconds": 2, "containers": [main]}))).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    namespace.api::<Pod>().delete("app", &DeleteParams::default()).await?;
    story.end_of("app").await?;
    let expected = "
        Pod app, scheduled
          Pending, Running, Failed
          container main terminated Error 137
          conditions of a failed pod
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Normal Killing spec.containers{main}: Stopping container main
          gone
        ";
    story.matches(expected).await
}

/// A pod that is deleted at once leaves nothing behind for long.
pub async fn a_pod_can_be_deleted_at_once(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    namespace
        .create::<Pod>(app(json!({"terminationGracePeriodSeconds": 60, "containers": [shell("main", UNTIL_TERM)]})))
        .await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    namespace.api::<Pod>().delete("app", &DeleteParams::default().grace_period(0)).await?;
    story.end_of("app").await?;
    let expected = "
        Pod app, scheduled
          Pending, Running
          container main running, ready
          PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Normal Killing spec.containers{main}: Stopping container main
          gone
        ";
    story.matches(expected).await
}
