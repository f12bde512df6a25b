//! What the kubelet does when somebody else says that a pod has ended.
//!
//! Facts that ending sidecars from outside rests on: a status patch stops the containers only if it changes the pod's
//! metadata as well, since the kubelet looks at nothing else that comes from the API server.

use anyhow::{Context as _, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{UNTIL_TERM, is_running, phase, shell, status_of};
use crate::Namespace;
use crate::wait;

/// A kubelet lists its containers every second, and times in a status have whole seconds.
const LAST_LOOK: SignedDuration = SignedDuration::from_secs(4);

/// A pod whose main container has done its work, and whose sidecar goes on.
async fn pod_with_a_leftover_sidecar(namespace: &Namespace) -> anyhow::Result<()> {
    let pod = json!({"metadata": {"name": "app"}, "spec": {
        "restartPolicy": "OnFailure", "terminationGracePeriodSeconds": 5,
        "containers": [shell("main", "exit 0"), shell("sidecar", UNTIL_TERM)]
    }});
    namespace.create::<Pod>(pod).await?;
    let is_left_over = |pod: &Pod| is_running(pod, "sidecar") && exit_code(pod, "main") == Some(0);
    namespace.wait_for_pod("app", "left with its sidecar", is_left_over).await?;
    // The kubelet looks at the pod again for a moment after a container has ended, and would act on a phase that it finds then.
    wait::until("the kubelet's last look after the end of main", async || {
        let pod: Pod = namespace.api().get("app").await?;
        let ended = finished_at(&pod, "main").context("main has ended")?;
        Ok((Timestamp::now().duration_since(ended.0) > LAST_LOOK).then_some(()))
    })
    .await
}

fn finished_at(pod: &Pod, container: &str) -> Option<Time> {
    status_of(pod, container)?.state.as_ref()?.terminated.as_ref()?.finished_at.clone()
}

fn exit_code(pod: &Pod, container: &str) -> Option<i32> {
    Some(status_of(pod, container)?.state.as_ref()?.terminated.as_ref()?.exit_code)
}

async fn patch_status(namespace: &Namespace, patch: Value) -> anyhow::Result<Pod> {
    Ok(namespace.api::<Pod>().patch_status("app", &PatchParams::default(), &Patch::Merge(patch)).await?)
}

/// With an annotation in the same patch the sidecar is stopped, and the phase stays.
pub async fn a_terminal_phase_with_an_annotation_stops_the_sidecar(namespace: &Namespace) -> anyhow::Result<()> {
    pod_with_a_leftover_sidecar(namespace).await?;
    let patch = json!({"metadata": {"annotations": {"scenario": "ended"}}, "status": {"phase": "Succeeded"}});
    patch_status(namespace, patch).await?;
    let pod = namespace.wait_for_pod("app", "stopped", |pod| exit_code(pod, "sidecar").is_some()).await?;
    ensure!(phase(&pod) == "Succeeded", "the phase is {}", phase(&pod));
    Ok(())
}

/// Without it nothing is stopped, and the kubelet takes the phase back.
pub async fn a_terminal_phase_alone_is_taken_back(namespace: &Namespace) -> anyhow::Result<()> {
    pod_with_a_leftover_sidecar(namespace).await?;
    let patched = patch_status(namespace, json!({"status": {"phase": "Succeeded"}})).await?;
    ensure!(phase(&patched) == "Succeeded", "the patch was not taken");
    let pod = namespace.wait_for_pod("app", "running again", |pod| phase(pod) == "Running").await?;
    ensure!(is_running(&pod, "sidecar"), "the sidecar was stopped");
    ensure!(status_of(&pod, "sidecar").is_some_and(|status| status.restart_count == 0), "the sidecar was restarted");
    Ok(())
}
