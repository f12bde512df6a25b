//! Restarts and startup probes of native sidecars.

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{UNTIL_TERM, app, is_ready, shell, sidecar, with};
use crate::{Namespace, Story};

/// The main container begins when the sidecar's startup probe has succeeded.
pub async fn a_startup_probe_of_a_sidecar_holds_the_main_container_back(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    // Up only after the probe has failed once, so that the failure is reported however slow the kubelet is.
    let line = "until test -e /state/probed; do sleep 1; done; : > /state/up; trap 'exit 0' TERM; sleep 3600 & wait $!";
    let mounts = json!({"volumeMounts": [{"name": "state", "mountPath": "/state"}]});
    let check = "test -e /state/up || { : > /state/probed; exit 1; }";
    let probe = json!({
        "exec": {"command": ["/bin/sh", "-c", check]}, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": 30
    });
    let gate = with(with(sidecar("sidecar", line), mounts.clone()), json!({"startupProbe": probe}));
    let pod = app(json!({
        "volumes": [{"name": "state", "emptyDir": {}}], "initContainers": [gate],
        "containers": [with(shell("main", "test -e /state/up || exit 1; trap 'exit 0' TERM; sleep 3600 & wait $!"), mounts)]
    }));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    let expected = "
        Pod app, scheduled
          Pending, Running
          init container sidecar running, ready
          container main running, ready
          PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.initContainers{sidecar}
          kubelet Warning Unhealthy spec.initContainers{sidecar}: Startup probe failed:
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}

/// Creates a pod called `app`, whose sidecar ends twice with this code, each time after two seconds. The third time it stays.
async fn sidecar_ends_twice(namespace: &Namespace, code: i32) -> anyhow::Result<Story> {
    let line = format!(
        "echo >> /state/lives; test $(wc -l < /state/lives) -ge 3 || {{ sleep 2; exit {code}; }}; {UNTIL_TERM}"
    );
    let sidecar = with(sidecar("sidecar", &line), json!({"volumeMounts": [{"name": "state", "mountPath": "/state"}]}));
    let pod = app(json!({
        "initContainers": [sidecar], "containers": [shell("main", UNTIL_TERM)],
        "volumes": [{"name": "state", "emptyDir": {}}]
    }));
    let story = namespace.story().await?;
    namespace.create::<Pod>(pod).await?;
    Ok(story)
}

/// A sidecar that ends is restarted, first at once and then after a back-off. The main container keeps running. A sidecar that ended without an error
/// has no status for its back-off.
pub async fn a_sidecar_that_ends_is_restarted_alone(namespace: &Namespace) -> anyhow::Result<()> {
    let story = sidecar_ends_twice(namespace, 0).await?;
    let expected = "
        sidecar waiting PodInitializing
        # It runs for 2 s: a busy kubelet may not see it running.
        maybe sidecar running, ready
        # The restart follows at once: a kubelet reports only the latest of statuses that follow each other quickly.
        maybe sidecar terminated Completed 0
        # It runs for 2 s.
        maybe sidecar running, ready, restarts 1, before terminated Completed 0
        # The kubelet removes what the first run has left at once.
        maybe sidecar terminated Completed 0, restarts 1, before terminated Completed 0
        sidecar terminated Completed 0, restarts 1
        sidecar running, ready, restarts 2, before terminated Completed 0
        ";
    story.container_begins("sidecar", expected).await?;
    let expected = "
        main waiting PodInitializing
        main running, ready
        ";
    story.container_begins("main", expected).await
}

/// A sidecar that failed has the status `CrashLoopBackOff`.
pub async fn a_sidecar_that_fails_is_backed_off(namespace: &Namespace) -> anyhow::Result<()> {
    let story = sidecar_ends_twice(namespace, 6).await?;
    let expected = "
        sidecar waiting PodInitializing
        # It runs for 2 s: a busy kubelet may not see it running.
        maybe sidecar running, ready
        # The restart follows at once: a kubelet reports only the latest of statuses that follow each other quickly.
        maybe sidecar terminated Error 6
        # It runs for 2 s.
        maybe sidecar running, ready, restarts 1, before terminated Error 6
        # The back-off follows at once.
        maybe sidecar terminated Error 6, restarts 1, before terminated Error 6
        # The back-off follows at once, and meanwhile the kubelet removes what the first run has left.
        maybe sidecar terminated Error 6, restarts 1
        sidecar waiting CrashLoopBackOff: back-off 10s restarting failed container=sidecar pod=app_NAMESPACE(UID), restarts 1, before terminated Error 6
        sidecar running, ready, restarts 2, before terminated Error 6
        ";
    story.container_begins("sidecar", expected).await
}
