//! What goes with an object that is deleted, and what stays.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::deployments::{settles, web};
use crate::{Namespace, wait};

async fn running_deployment(namespace: &Namespace) -> anyhow::Result<()> {
    namespace.create::<Deployment>(web("one", json!({"replicas": 1}))).await?;
    settles(namespace, 1).await
}

async fn nothing_is_left(namespace: &Namespace) -> anyhow::Result<()> {
    namespace.is_gone::<Deployment>("web").await?;
    wait::until("the end of all it owned", async || {
        let sets = namespace.api::<ReplicaSet>().list(&ListParams::default()).await?.items.len();
        let pods = namespace.api::<Pod>().list(&ListParams::default()).await?.items.len();
        Ok((sets + pods == 0).then_some(()))
    })
    .await
}

/// In the background: the owner first.
pub async fn what_a_deployment_owns_goes_after_it(namespace: &Namespace) -> anyhow::Result<()> {
    running_deployment(namespace).await?;
    let deleted = namespace.api::<Deployment>().delete("web", &DeleteParams::background()).await?;
    ensure!(deleted.is_right(), "it is still there: {deleted:?}");
    nothing_is_left(namespace).await
}

/// In the foreground: the owner last.
pub async fn what_a_deployment_owns_goes_before_it(namespace: &Namespace) -> anyhow::Result<()> {
    running_deployment(namespace).await?;
    namespace.api::<Deployment>().delete("web", &DeleteParams::foreground()).await?;
    let finalizers = namespace.api::<Deployment>().get("web").await?.finalizers().to_vec();
    ensure!(finalizers == ["foregroundDeletion"], "it waits for {finalizers:?}");
    namespace.is_gone::<Deployment>("web").await?;
    let pods = namespace.api::<Pod>().list(&ListParams::default()).await?.items.len();
    ensure!(pods == 0, "{pods} pods are left, the Deployment is not");
    nothing_is_left(namespace).await
}

/// Orphans stay, without an owner.
pub async fn what_a_deployment_owned_can_stay(namespace: &Namespace) -> anyhow::Result<()> {
    running_deployment(namespace).await?;
    namespace.api::<Deployment>().delete("web", &DeleteParams::orphan()).await?;
    namespace.is_gone::<Deployment>("web").await?;
    let sets = namespace.api::<ReplicaSet>().list(&ListParams::default()).await?.items;
    let owners: Vec<usize> = sets.iter().map(|set| set.owner_references().len()).collect();
    ensure!(owners == [0], "the ReplicaSets have so many owners: {owners:?}");
    let pods = namespace.api::<Pod>().list(&ListParams::default()).await?.items;
    ensure!(pods.iter().all(|pod| pod.owner_references().len() == 1) && pods.len() == 1, "the pods are {pods:?}");
    // Another Deployment with the same selector takes the ReplicaSet over, with its pods.
    namespace.create::<Deployment>(web("one", json!({"replicas": 1}))).await?;
    settles(namespace, 1).await?;
    let adopted = namespace.api::<ReplicaSet>().list(&ListParams::default()).await?.items;
    ensure!(adopted.len() == 1 && adopted[0].uid() == sets[0].uid(), "a second ReplicaSet was made");
    Ok(())
}

/// A pod that nobody owns any more is made again by whoever wants it.
pub async fn a_deleted_pod_is_replaced(namespace: &Namespace) -> anyhow::Result<()> {
    running_deployment(namespace).await?;
    let pods = namespace.api::<Pod>();
    let first = pods.list(&ListParams::default()).await?.items.first().map(ResourceExt::name_any).unwrap_or_default();
    pods.delete(&first, &DeleteParams::default()).await?;
    namespace.is_gone::<Pod>(&first).await?;
    settles(namespace, 1).await?;
    let others = pods.list(&ListParams::default()).await?.items.len();
    ensure!(others == 1, "there are {others} pods");
    Ok(())
}
