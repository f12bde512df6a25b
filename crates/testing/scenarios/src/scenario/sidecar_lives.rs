//! The lives of native sidecars beside their main containers.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{UNTIL_TERM, app, is_ready, shell, sidecar, with};
use crate::Namespace;

/// The main container begins when the sidecar's startup probe has succeeded.
pub async fn a_startup_probe_of_a_sidecar_holds_the_main_container_back(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let line = "sleep 4; : > /state/up; trap 'exit 0' TERM; sleep 3600 & wait $!";
    let mounts = json!({"volumeMounts": [{"name": "state", "mountPath": "/state"}]});
    let probe = json!({"exec": {"command": ["/bin/sh", "-c", "test -e /state/up"]}, "periodSeconds": 1, "failureThreshold": 30});
    let gate = with(with(sidecar("sidecar", line), mounts.clone()), json!({"startupProbe": probe}));
    let pod = app(json!({
        "volumes": [{"name": "state", "emptyDir": {}}], "initContainers": [gate],
        "containers": [with(shell("main", "test -e /state/up || exit 1; trap 'exit 0' TERM; sleep 3600 & wait $!"), mounts)]
    }));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    story
        .tells(
            "
            Pod app
              Pending, Running
              init container sidecar running, ready
              container main running, ready
              PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
              default-scheduler Normal Scheduled: Successfully assigned NAMESPACE/app to pillion
              kubelet Normal Pulled, Created, Started spec.initContainers{sidecar}
              kubelet Warning Unhealthy spec.initContainers{sidecar}: Startup probe failed:
              kubelet Normal Pulled, Created, Started spec.containers{main}
            ",
        )
        .await
}

/// A sidecar that ends is started again, first at once and then after a while; the main container does not notice. One that ended well
/// does not say that it waits.
pub async fn a_sidecar_that_ends_is_restarted_alone(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = app(json!({
        "initContainers": [sidecar("sidecar", "sleep 2; exit 0")], "containers": [shell("main", UNTIL_TERM)]
    }));
    namespace.create::<Pod>(pod).await?;
    let life = "
        sidecar waiting PodInitializing
        sidecar running, ready
        sidecar terminated Completed 0
        sidecar running, ready, restarts 1, before terminated Completed 0
        ? sidecar terminated Completed 0, restarts 1, before terminated Completed 0
        sidecar terminated Completed 0, restarts 1
        sidecar running, ready, restarts 2, before terminated Completed 0
        ";
    story.life_begins("sidecar", life).await?;
    story.life_begins("main", "main waiting PodInitializing\nmain running, ready").await
}

/// One that failed says it.
pub async fn a_sidecar_that_fails_is_backed_off(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = app(json!({
        "initContainers": [sidecar("sidecar", "sleep 2; exit 6")], "containers": [shell("main", UNTIL_TERM)]
    }));
    namespace.create::<Pod>(pod).await?;
    let life = "
        sidecar waiting PodInitializing
        sidecar running, ready
        sidecar terminated Error 6
        sidecar running, ready, restarts 1, before terminated Error 6
        ? sidecar terminated Error 6, restarts 1, before terminated Error 6
        ? sidecar terminated Error 6, restarts 1
        sidecar waiting CrashLoopBackOff: back-off 10s restarting failed container=sidecar pod=app_NAMESPACE(UID), restarts 1, before terminated Error 6
        sidecar running, ready, restarts 2, before terminated Error 6
        ";
    story.life_begins("sidecar", life).await
}
