//! Rollouts of SidecarSets: running pods are updated in place, and new pods get the revision that the rollout says.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use pillion_cluster::image::{PAUSE, SHELL};
use serde_json::{Value, json};

use super::custom_resources::{self, sidecarsets};
use super::managed::{home, is_injected, managed};
use super::{is_ready, restarts, with};
use crate::{Namespace, wait};

/// Both images have this program, so that only the image's name changes.
fn sleeper(name: &str) -> Value {
    json!({"name": name, "image": SHELL, "imagePullPolicy": "Never", "command": ["/bin/sleep", "3600"]})
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"mesh": "on"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [sleeper("main")]},
    })
}

/// Pods with the first image of a set whose spec has `more`.
async fn rolled_out(namespace: &Namespace, pods: i32, more: Value) -> anyhow::Result<()> {
    let spec = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
        "selector": {"matchLabels": {"mesh": "on"}}, "containers": [sleeper("proxy")],
    });
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": namespace.name()},
        "spec": with(spec, more),
    });
    custom_resources::create(namespace, &set).await?;
    is_injected(namespace, &template()).await?;
    deploy(namespace, "web", pods).await?;
    status_has(namespace, json!({"matchedPods": pods, "updatedReadyPods": pods})).await
}

async fn deploy(namespace: &Namespace, name: &str, pods: i32) -> anyhow::Result<()> {
    let mut template = template();
    template["metadata"]["labels"]["of"] = json!(name);
    let spec = json!({"replicas": pods, "selector": {"matchLabels": {"of": name}}, "template": template});
    namespace.create::<Deployment>(json!({"metadata": {"name": name}, "spec": spec})).await?;
    Ok(())
}

/// Waits until the status of the set has these fields, and is about the set as it is.
async fn status_has(namespace: &Namespace, fields: Value) -> anyhow::Result<()> {
    wait::until(&format!("a status with {fields}"), async || {
        let set = sidecarsets(namespace.client()).get(namespace.name()).await?;
        let status = &set.data["status"];
        let is_current = status["observedGeneration"].as_i64() == set.metadata.generation;
        let has = fields.as_object().is_some_and(|fields| fields.iter().all(|(key, value)| status[key] == *value));
        Ok((is_current && has).then_some(()))
    })
    .await
}

/// Changes the set with a merge patch. A webhook that has just been registered may not be reachable yet.
async fn change(namespace: &Namespace, spec: Value) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    sidecarsets(namespace.client()).patch(namespace.name(), &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn set_image(namespace: &Namespace, image: &str) -> anyhow::Result<()> {
    change(namespace, json!({"containers": [with(sleeper("proxy"), json!({"image": image}))]})).await
}

async fn pods(namespace: &Namespace) -> anyhow::Result<Vec<Pod>> {
    let mut pods = namespace.api::<Pod>().list(&ListParams::default()).await?.items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(pods)
}

async fn with_image(namespace: &Namespace, image: &str) -> anyhow::Result<usize> {
    let has = |pod: &&Pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.into_iter().any(|it| it.name == "proxy" && it.image.as_deref() == Some(image))
    };
    Ok(pods(namespace).await?.iter().filter(has).count())
}

/// Every sidecar gets the new image in place; no pod is recreated, and no app is restarted.
pub async fn a_new_image_restarts_the_sidecars_and_nothing_else(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 3, json!({"updateStrategy": {"maxUnavailable": 2}})).await?;
        let uids = |pods: &[Pod]| pods.iter().map(|pod| pod.metadata.uid.clone()).collect::<Vec<_>>();
        let before = uids(&pods(namespace).await?);
        set_image(namespace, PAUSE).await?;
        status_has(namespace, json!({"updatedPods": 3, "updatedReadyPods": 3})).await?;
        let after = pods(namespace).await?;
        ensure!(uids(&after) == before, "a pod was recreated");
        for pod in &after {
            let counts = (restarts(pod, "proxy"), restarts(pod, "main"));
            ensure!(is_ready(pod) && counts == (Some(1), Some(0)), "restarts are {counts:?}");
        }
        Ok(())
    })
    .await
}

/// A partition keeps as many pods on the old revision as it says, until it is lowered.
pub async fn a_partition_keeps_pods_on_the_old_revision(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 3, json!({"updateStrategy": {"partition": 2, "maxUnavailable": 3}})).await?;
        set_image(namespace, PAUSE).await?;
        status_has(namespace, json!({"updatedPods": 1, "updatedReadyPods": 1})).await?;
        let old = with_image(namespace, SHELL).await?;
        ensure!(old == 2, "{old} pods have the old image");
        change(namespace, json!({"updateStrategy": {"partition": 0}})).await?;
        status_has(namespace, json!({"updatedPods": 3, "updatedReadyPods": 3})).await
    })
    .await
}

/// While a revision is pinned with `Always`, every new pod begins with it.
pub async fn new_pods_get_the_pinned_revision(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({"updateStrategy": {"partition": "100%"}})).await?;
        pin(namespace, "Always").await?;
        deploy(namespace, "new", 2).await?;
        status_has(namespace, json!({"matchedPods": 3, "updatedPods": 0, "readyPods": 3})).await?;
        let old = with_image(namespace, SHELL).await?;
        ensure!(old == 3, "{old} of 3 pods have the pinned image");
        Ok(())
    })
    .await
}

/// With `Quota` exactly as many pods have the pinned revision as the partition keeps.
pub async fn new_pods_get_the_pinned_revision_by_quota(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({"updateStrategy": {"partition": 3}})).await?;
        pin(namespace, "Quota").await?;
        deploy(namespace, "new", 5).await?;
        status_has(namespace, json!({"matchedPods": 6, "updatedPods": 3, "readyPods": 6})).await?;
        let counts = (with_image(namespace, SHELL).await?, with_image(namespace, PAUSE).await?);
        ensure!(counts == (3, 3), "{counts:?} pods have the pinned and the latest image");
        Ok(())
    })
    .await
}

/// Pins the revision that there is, changes the image, and waits until both is in force.
async fn pin(namespace: &Namespace, policy: &str) -> anyhow::Result<()> {
    let revisions: Api<ControllerRevision> = Api::namespaced(namespace.client(), &home(namespace));
    let first = revisions.list(&ListParams::default()).await?.items.into_iter().next();
    let revision = json!({"revisionName": first.and_then(|first| first.metadata.name), "policy": policy});
    let containers = json!([with(sleeper("proxy"), json!({"image": PAUSE}))]);
    change(namespace, json!({"containers": containers, "injectionStrategy": {"revision": revision}})).await?;
    status_has(namespace, json!({"matchedPods": 1, "updatedPods": 0})).await
}
