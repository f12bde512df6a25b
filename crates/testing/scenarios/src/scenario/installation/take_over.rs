//! A cluster that OpenKruise has written to is taken over: no pod restarts, and none is written to.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, PostParams};
use pillion_api::sidecarset::crd::{self, Conversion};
use pillion_api::sidecarset::{self, hash, hash_without_image};
use serde_json::{Value, json};

use super::super::{UNTIL_TERM, custom_resources, is_ready, restarts, shell, with};
use super::clear;
use super::commands::{pillion, pillion_prints};
use crate::{Namespace, wait};

const KRUISE: &str = "kruise-system";

/// OpenKruise has stopped. Without `--take-over` its objects stay its own; with it they are served, as they are.
pub async fn a_cluster_of_open_kruise_is_taken_over(namespace: &Namespace) -> anyhow::Result<()> {
    let _mine = namespace.cluster().alone().await;
    clear(namespace).await?;
    leave_what_open_kruise_leaves(namespace).await?;
    let before = pods(namespace).await?;

    let refused = pillion(&["install"]).await.err().context("it was installed beside OpenKruise")?;
    ensure!(format!("{refused:#}").contains("--take-over=kruise"), "{refused:#}");
    pillion(&["install", "--take-over=kruise"]).await?;

    let sets = custom_resources::sidecarsets(namespace.client());
    wait::until("a status that counts both pods as updated", async || {
        let status = sets.get(namespace.name()).await?.data["status"].take();
        Ok((status["matchedPods"] == 2 && status["updatedPods"] == 2 && status["readyPods"] == 2).then_some(()))
    })
    .await?;
    let after = pods(namespace).await?;
    ensure!(after.len() == 2, "there are {} pods", after.len());
    for (before, after) in before.iter().zip(&after) {
        let name = after.name_any();
        ensure!(before.uid() == after.uid(), "{name} is another pod");
        ensure!(["main", "proxy"].iter().all(|container| restarts(after, container) == Some(0)), "{name} restarted");
        let writers: Vec<&str> = after.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
        ensure!(!writers.iter().any(|writer| writer.contains("pillion")), "{name} was written by {writers:?}");
        let why = pillion_prints(&["why", &name, "-n", namespace.name()]).await?;
        ensure!(why.contains(namespace.name()) && why.contains("proxy"), "why {name}: {why}");
    }

    let new = json!({"metadata": {"name": "new", "labels": {"app": "web"}}, "spec": {"containers": [shell("main", UNTIL_TERM)]}});
    let new: Pod = namespace.create(new).await?;
    let containers: Vec<String> =
        new.spec.iter().flat_map(|spec| &spec.containers).map(|one| one.name.clone()).collect();
    ensure!(containers == ["proxy", "main"], "a new pod has {containers:?}");
    pillion(&["uninstall", "--all", "--yes"]).await?;
    clear(namespace).await
}

/// Sorted by name, so that they can be compared.
async fn pods(namespace: &Namespace) -> anyhow::Result<Vec<Pod>> {
    let mut pods = wait::until("two pods that are ready", async || {
        let pods = namespace.api::<Pod>().list(&ListParams::default().labels("app=web")).await?.items;
        Ok((pods.len() == 2 && pods.iter().all(is_ready)).then_some(pods))
    })
    .await?;
    pods.sort_by_key(kube::ResourceExt::name_any);
    Ok(pods)
}

/// The definition, a set with its hashes, pods with its records, a Lease that nobody renews, and a webhook that nobody serves.
async fn leave_what_open_kruise_leaves(namespace: &Namespace) -> anyhow::Result<()> {
    let client = || namespace.client();
    let create = PostParams::default();
    let system: KubeNamespace = serde_json::from_value(json!({"metadata": {"name": KRUISE}}))?;
    Api::all(client()).create(&create, &system).await?;
    let definition = serde_json::from_value(crd::sidecarset(&Conversion::None))?;
    custom_resources::definitions(client()).create(&create, &definition).await?;
    let set = set(namespace)?;
    custom_resources::create(namespace, &set).await?;
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": injected(&set)});
    namespace.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await?;
    let lease: Lease = serde_json::from_value(json!({"metadata": {"name": "kruise-manager"}, "spec": {
        "holderIdentity": "kruise-controller-manager-0", "leaseDurationSeconds": 3, "renewTime": "2025-12-01T00:00:00.000000Z",
    }}))?;
    Api::namespaced(client(), KRUISE).create(&create, &lease).await?;
    let webhooks: MutatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": "kruise-mutating-webhook-configuration"},
        "webhooks": [{
            "name": "msidecarset.kb.io", "failurePolicy": "Ignore", "sideEffects": "None", "timeoutSeconds": 1,
            "clientConfig": {"service": {"namespace": KRUISE, "name": "kruise-webhook-service"}},
            "rules": [{"apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "resources": ["sidecarsets"], "operations": ["CREATE"]}],
            "admissionReviewVersions": ["v1"],
        }],
    }))?;
    Api::all(client()).create(&create, &webhooks).await?;
    Ok(())
}

/// The SidecarSet as OpenKruise stores it: with its defaults and its hashes.
fn set(namespace: &Namespace) -> anyhow::Result<Value> {
    let proxy = with(
        shell("proxy", UNTIL_TERM),
        json!({
            "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "disabled"},
            "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
        }),
    );
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": namespace.name()},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            "selector": {"matchLabels": {"app": "web"}}, "containers": [proxy],
            "injectionStrategy": {}, "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "partition": 0, "maxUnavailable": 1},
        },
    });
    let decoded = sidecarset::decode(set.clone())?;
    set["metadata"]["annotations"] = json!({
        "kruise.io/sidecarset-hash": hash(&decoded),
        "kruise.io/sidecarset-hash-without-image": hash_without_image(&decoded),
    });
    Ok(set)
}

/// The template of a pod as OpenKruise's webhook leaves it.
fn injected(set: &Value) -> Value {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    let record = |key: &str| {
        json!({name: {
            "updateTimestamp": "2025-12-01T00:00:00Z", "hash": set["metadata"]["annotations"][key],
            "sidecarSetName": name, "sidecarList": ["proxy"],
        }})
    };
    let annotations = json!({
        "kruise.io/sidecarset-hash": record("kruise.io/sidecarset-hash").to_string(),
        "kruise.io/sidecarset-hash-without-image": record("kruise.io/sidecarset-hash-without-image").to_string(),
        "kruise.io/sidecarset-injected-list": name,
    });
    let proxy = with(shell("proxy", UNTIL_TERM), json!({"env": [{"name": "IS_INJECTED", "value": "true"}]}));
    json!({"metadata": {"labels": {"app": "web"}, "annotations": annotations}, "spec": {
        "terminationGracePeriodSeconds": 1, "containers": [proxy, shell("main", UNTIL_TERM)],
    }})
}
