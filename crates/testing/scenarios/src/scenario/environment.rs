//! What containers find in their environment.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use serde_json::json;

use super::{app, phase, shell, with};
use crate::Namespace;

/// Fields of the pod, resources of the container, ConfigMaps, Secrets, and variables that name each other.
pub async fn the_environment_is_made_of_everything(namespace: &Namespace) -> anyhow::Result<()> {
    namespace
        .create::<ConfigMap>(
            json!({"metadata": {"name": "settings"}, "data": {"mode": "fast", "not-a-name": "x", "COLOUR": "red"}}),
        )
        .await?;
    namespace.create::<Secret>(json!({"metadata": {"name": "secret"}, "stringData": {"password": "hunter2"}})).await?;
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let resource = |name: &str, resource: &str, divisor: &str| json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": resource, "divisor": divisor}}});
    let environment = json!([
        field("POD", "metadata.name"), field("SPACE", "metadata.namespace"), field("LABEL", "metadata.labels['tier']"),
        field("NOTE", "metadata.annotations['note']"), field("ACCOUNT", "spec.serviceAccountName"), field("NODE", "spec.nodeName"),
        resource("CPU", "limits.cpu", "1m"), resource("MEMORY", "requests.memory", "1Mi"), resource("CORES", "limits.cpu", "1"),
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "password"}}},
        {"name": "ABSENT", "valueFrom": {"secretKeyRef": {"name": "nobody", "key": "nothing", "optional": true}}},
        {"name": "BOTH", "value": "$(MODE)-$(POD) $$(MODE) $(UNKNOWN)"},
    ]);
    let line = "echo $POD $SPACE $LABEL $NOTE $ACCOUNT $NODE; echo $CPU $MEMORY $CORES; echo $MODE $PASSWORD ${ABSENT-unset}; \
        echo \"$BOTH\"; echo $FROM_mode $FROM_COLOUR; echo \"$1 $2\"; pwd";
    let main = with(
        shell("main", line),
        json!({
            "command": ["/bin/sh", "-c", line, "sh", "$(MODE)", "$(NOBODY)"], "workingDir": "/tmp", "env": environment,
            "envFrom": [{"prefix": "FROM_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "nobody", "optional": true}}],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "250m", "memory": "64Mi"}}
        }),
    );
    let mut pod = app(json!({"restartPolicy": "Never", "containers": [main]}));
    pod["metadata"] = json!({"name": "app", "labels": {"tier": "front"}, "annotations": {"note": "hello"}});
    namespace.create::<Pod>(pod).await?;
    let pod = namespace.wait_for_pod("app", "done", |pod| phase(pod) == "Succeeded").await?;
    let node = pod.spec.and_then(|spec| spec.node_name).context("a pod that ran has a node")?;
    let expected = format!(
        "app {} front hello default {node}\n250 16 1\nfast hunter2 unset\nfast-app $(MODE) $(UNKNOWN)\nfast red\nfast $(NOBODY)\n/tmp\n",
        namespace.name()
    );
    namespace.log_is("app", "main", &expected).await
}
