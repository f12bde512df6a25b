//! Changing a native sidecar of a running pod.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use pillion_cluster::image::{PAUSE, SHELL};
use serde_json::{Value, json};

use super::{is_running, restarts, status_of};
use crate::Namespace;

/// Both images have this program, so that only the image's name changes.
fn sleeper(name: &str) -> Value {
    json!({"name": name, "image": SHELL, "imagePullPolicy": "Never", "command": ["/bin/sleep", "3600"]})
}

async fn running_pod(namespace: &Namespace) -> anyhow::Result<()> {
    let mut sidecar = sleeper("sidecar");
    sidecar["restartPolicy"] = json!("Always");
    sidecar["resources"] =
        json!({"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}});
    let pod = json!({"metadata": {"name": "app"}, "spec": {
        "terminationGracePeriodSeconds": 1, "initContainers": [sidecar], "containers": [sleeper("main")]
    }});
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "running", |pod| is_running(pod, "sidecar") && is_running(pod, "main")).await?;
    Ok(())
}

/// Requests and limits change through the `resize` subresource, and nothing restarts.
pub async fn a_native_sidecar_is_resized_in_place(namespace: &Namespace) -> anyhow::Result<()> {
    running_pod(namespace).await?;
    let resources = json!({"requests": {"cpu": "80m", "memory": "48Mi"}, "limits": {"cpu": "200m", "memory": "96Mi"}});
    let patch = json!({"spec": {"initContainers": [{"name": "sidecar", "resources": resources}]}});
    namespace.api::<Pod>().patch_resize("app", &PatchParams::default(), &Patch::Strategic(patch)).await?;
    let is_resized = |pod: &Pod| {
        let actual = status_of(pod, "sidecar").and_then(|status| serde_json::to_value(status.resources.as_ref()?).ok());
        actual.is_some_and(|actual| {
            actual["limits"] == resources["limits"] && actual["requests"] == resources["requests"]
        })
    };
    let pod = namespace.wait_for_pod("app", "resized", is_resized).await?;
    ensure!(restarts(&pod, "sidecar") == Some(0) && restarts(&pod, "main") == Some(0), "a container was restarted");
    Ok(())
}

/// A new image restarts the sidecar, and only the sidecar.
pub async fn a_native_sidecar_gets_a_new_image_and_restarts_alone(namespace: &Namespace) -> anyhow::Result<()> {
    running_pod(namespace).await?;
    let patch = json!({"spec": {"initContainers": [{"name": "sidecar", "image": PAUSE}]}});
    namespace.api::<Pod>().patch("app", &PatchParams::default(), &Patch::Strategic(patch)).await?;
    let is_updated = |pod: &Pod| {
        is_running(pod, "sidecar")
            && status_of(pod, "sidecar").is_some_and(|status| status.image == PAUSE && status.restart_count == 1)
    };
    let pod = namespace.wait_for_pod("app", "updated", is_updated).await?;
    ensure!(restarts(&pod, "main") == Some(0), "the main container was restarted");
    Ok(())
}
