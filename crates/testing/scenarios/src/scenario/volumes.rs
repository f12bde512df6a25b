//! What containers find in their volumes.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{app, phase, shell, with};
use crate::Namespace;

pub(super) fn mounts(mounts: &[(&str, &str)]) -> Value {
    json!({"volumeMounts": mounts.iter().map(|(name, path)| json!({"name": name, "mountPath": path})).collect::<Vec<_>>()})
}

async fn configure(namespace: &Namespace) -> anyhow::Result<()> {
    let settings = json!({"metadata": {"name": "settings"}, "data": {"mode": "fast", "colour": "red"}});
    namespace.create::<ConfigMap>(settings).await?;
    namespace.create::<Secret>(json!({"metadata": {"name": "secret"}, "stringData": {"password": "hunter2"}})).await?;
    Ok(())
}

/// ConfigMaps, Secrets, the pod's own fields, all in one folder, and a folder that containers share.
pub async fn volumes_are_made_of_everything(namespace: &Namespace) -> anyhow::Result<()> {
    configure(namespace).await?;
    let volumes = json!([
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "one", "configMap": {"name": "settings", "items": [{"key": "mode", "path": "deep/mode.txt", "mode": 0o400}]}},
        {"name": "secret", "secret": {"secretName": "secret", "defaultMode": 0o440}},
        {"name": "pod", "downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"}}
        ]}},
        {"name": "all", "projected": {"sources": [
            {"configMap": {"name": "settings", "items": [{"key": "colour", "path": "colour"}]}},
            {"secret": {"name": "secret"}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600, "audience": "me"}}
        ]}},
        {"name": "shared", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    ]);
    let line = "cd /settings; echo *; cat mode colour; echo; cat /one/deep/mode.txt; echo; cat /secret/password; echo; cat /pod/labels; echo; cat /pod/cpu; \
        echo; cd /all; echo *; cat name colour; echo; test -s token && echo token; cat /shared/word; echo ok > /memory/file && cat /memory/file; \
        cat /file; echo; echo x 2> /dev/null > /settings/mode || echo read-only";
    let places = [
        ("settings", "/settings"),
        ("one", "/one"),
        ("secret", "/secret"),
        ("pod", "/pod"),
        ("all", "/all"),
        ("shared", "/shared"),
        ("memory", "/memory"),
    ];
    let mut main = with(with(shell("main", line), mounts(&places)), json!({"resources": {"limits": {"cpu": "300m"}}}));
    if let Some(mounts) = main["volumeMounts"].as_array_mut() {
        mounts.push(json!({"name": "settings", "mountPath": "/file", "subPath": "mode"}));
    }
    let init = with(shell("init", "echo word > /shared/word"), mounts(&[("shared", "/shared")]));
    let mut pod =
        app(json!({"restartPolicy": "Never", "initContainers": [init], "containers": [main], "volumes": volumes}));
    pod["metadata"] = json!({"name": "app", "labels": {"tier": "front", "app": "web"}});
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "done", |pod| phase(pod) == "Succeeded").await?;
    let expected = "colour mode\nfastred\nfast\nhunter2\napp=\"web\"\ntier=\"front\"\n300\n\
        colour name password token\nappred\ntoken\nword\nok\nfast\nread-only\n";
    namespace.log_is("app", "main", expected).await
}

/// A ConfigMap that changes is changed in running pods, after a while.
pub async fn a_volume_follows_its_config_map(namespace: &Namespace) -> anyhow::Result<()> {
    configure(namespace).await?;
    let line =
        "cat /settings/mode; echo; while ! grep -q slow /settings/mode; do sleep 1; done; cat /settings/mode; echo";
    let main = with(shell("main", line), mounts(&[("settings", "/settings")]));
    let volume = json!({"name": "settings", "configMap": {"name": "settings"}});
    namespace.create::<Pod>(app(json!({"restartPolicy": "Never", "containers": [main], "volumes": [volume]}))).await?;
    namespace.log_is("app", "main", "fast\n").await?;
    let change = Patch::Merge(json!({"data": {"mode": "slow"}}));
    namespace.api::<ConfigMap>().patch("settings", &PatchParams::default(), &change).await?;
    // A kubelet looks once a minute, unless something else happens to the pod.
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"touched": "yes"}}}));
    namespace.api::<Pod>().patch("app", &PatchParams::default(), &touch).await?;
    namespace.wait_for_pod("app", "done", |pod| phase(pod) == "Succeeded").await?;
    namespace.log_is("app", "main", "fast\nslow\n").await
}
