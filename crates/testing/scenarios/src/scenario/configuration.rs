//! Pods whose configuration is not there yet.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::{UNTIL_TERM, app, is_ready, shell, waiting_reason, with};
use crate::Namespace;

/// A container waits for a ConfigMap that its environment is made of, and begins when it is there.
pub async fn a_container_waits_for_its_config_map(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let from = json!({"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}});
    let main = with(shell("main", UNTIL_TERM), json!({"env": [from]}));
    namespace.create::<Pod>(app(json!({"containers": [main]}))).await?;
    let is_refused = |pod: &Pod| waiting_reason(pod, "main") == Some("CreateContainerConfigError");
    namespace.wait_for_pod("app", "refused", is_refused).await?;
    let expected = r#"
        Pod app, scheduled
          Pending
          container main waiting CreateContainerConfigError: configmap "settings" not found
          PodReadyToStartContainers, Initialized=True
          Ready, ContainersReady=False ContainersNotReady: containers with unready status: [main]
          PodScheduled=True
          kubelet Normal Pulled spec.containers{main}: Container image "SHELL" already present on machine and can be accessed by the pod
          kubelet Warning Failed spec.containers{main}: Error: configmap "settings" not found
        "#;
    story.matches(expected).await?;
    namespace.create::<ConfigMap>(json!({"metadata": {"name": "settings"}, "data": {"other": "fast"}})).await?;
    namespace.has_event("app", "Failed", "Error: couldn't find key mode in ConfigMap").await?;
    let fix = Patch::Merge(json!({"data": {"mode": "fast"}}));
    namespace.api::<ConfigMap>().patch("settings", &PatchParams::default(), &fix).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await.map(drop)
}

/// A pod waits for a ConfigMap that one of its volumes is made of.
pub async fn a_pod_waits_for_its_volume(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let main = with(
        shell("main", "cat /settings/mode; echo; trap 'exit 0' TERM; sleep 3600 & wait $!"),
        json!({"volumeMounts": [{"name": "settings", "mountPath": "/settings"}]}),
    );
    let volume = json!({"name": "settings", "configMap": {"name": "settings"}});
    namespace.create::<Pod>(app(json!({"containers": [main], "volumes": [volume]}))).await?;
    namespace
        .has_event(
            "app",
            "FailedMount",
            "MountVolume.SetUp failed for volume \"settings\" : configmap \"settings\" not found",
        )
        .await?;
    let expected = r#"
        Pod app, scheduled
          Pending
          container main waiting ContainerCreating
          PodReadyToStartContainers=False
          Initialized=True
          Ready, ContainersReady=False ContainersNotReady: containers with unready status: [main]
          PodScheduled=True
          kubelet Warning FailedMount: MountVolume.SetUp failed for volume "settings" : configmap "settings" not found
        "#;
    story.matches(expected).await?;
    namespace.create::<ConfigMap>(json!({"metadata": {"name": "settings"}, "data": {"mode": "fast"}})).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    namespace.log_is("app", "main", "fast\n").await
}
