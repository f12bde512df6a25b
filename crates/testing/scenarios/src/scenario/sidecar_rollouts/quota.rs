//! `policy: Quota` under many creations at once.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use pillion_cluster::image::SHELL;
use serde_json::{Value, json};

use super::super::managed::managed_by_three;
use super::super::with;
use super::{pin, rolled_out, status_has, template};
use crate::Namespace;

/// However many pods are created at once, and whichever of three replicas answers, never more of them have the pinned revision than the
/// partition says, and at the end exactly so many. `PILLION_QUOTA_RUNS` says how often, and with it there are 300 pods for 90 places.
pub async fn many_pods_at_once_fill_exactly_the_quota(namespace: &Namespace) -> anyhow::Result<()> {
    let runs: Option<usize> = std::env::var("PILLION_QUOTA_RUNS").ok().and_then(|runs| runs.parse().ok());
    let (all, places) = if runs.is_some() { (300, 90) } else { (40, 12) };
    managed_by_three(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({"updateStrategy": {"partition": places}})).await?;
        pin(namespace, "Quota").await?;
        for run in 1..=runs.unwrap_or(1) {
            fill(namespace, all, places).await.with_context(|| format!("in run {run}"))?;
        }
        Ok(())
    })
    .await
}

async fn fill(namespace: &Namespace, all: usize, places: usize) -> anyhow::Result<()> {
    let pods = namespace.api::<Pod>();
    let listed = pods.list(&ListParams::default()).await?;
    let mut pinned: BTreeSet<String> =
        listed.items.iter().filter(|pod| is_pinned(pod)).map(kube::ResourceExt::name_any).collect();
    let version = listed.metadata.resource_version.unwrap_or_default();
    let mut events = pods.watch(&WatchParams::default(), &version).await?.boxed();
    // Dry runs take no places.
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let mut tried = Vec::new();
    for i in 1..=10 {
        tried.push(pods.create(&dry_run, &serde_json::from_value(gated(i))?).await?);
    }
    ensure!(tried.iter().all(is_pinned), "a place was free for each of them");
    // The one that runs has a place as well.
    let created = async {
        let create = |i: usize| {
            let pods = pods.clone();
            async move {
                pods.create(&PostParams::default(), &serde_json::from_value(gated(i))?)
                    .await
                    .map_err(anyhow::Error::from)
            }
        };
        try_join_all((1..all).map(create)).await.map(drop)
    };
    let watched = async {
        let mut seen = 1;
        while seen < all {
            match events.try_next().await?.context("the watch has ended")? {
                WatchEvent::Added(pod) => {
                    seen += 1;
                    if is_pinned(&pod) {
                        pinned.insert(pod.name_any());
                    }
                    ensure!(pinned.len() <= places, "{} pods have the pinned revision", pinned.len());
                }
                WatchEvent::Error(error) => anyhow::bail!("the watch has failed: {error}"),
                _ => {}
            }
        }
        ensure!(pinned.len() == places, "{} of {places} places are filled", pinned.len());
        Ok(())
    };
    futures::future::try_join(created, watched).await?;
    status_has(namespace, json!({"matchedPods": all, "updatedPods": all - places})).await?;
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default().labels("gated=yes"))
        .await?;
    status_has(namespace, json!({"matchedPods": 1, "updatedPods": 0})).await
}

/// What is counted is who was admitted: nothing of it runs.
fn gated(i: usize) -> Value {
    let mut pod = template();
    pod["metadata"]["labels"]["gated"] = json!("yes");
    pod["metadata"]["name"] = json!(format!("gated-{i}"));
    pod["spec"] = with(pod["spec"].clone(), json!({"schedulingGates": [{"name": "scenario/never"}]}));
    pod
}

fn is_pinned(pod: &Pod) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.any(|container| container.name == "proxy" && container.image.as_deref() == Some(SHELL))
}
