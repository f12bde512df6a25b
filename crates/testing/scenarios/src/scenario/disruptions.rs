//! Evictions, within what a budget allows.

use anyhow::{Context as _, bail, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{EvictParams, ListParams, Patch, PatchParams};
use serde_json::json;

use super::deployments::{settles, web};
use super::{UNTIL_TERM, app, is_ready, shell};
use crate::{Namespace, wait};

/// Nobody may go while all are needed; one may when one of two is enough.
pub async fn evictions_keep_to_the_budget(namespace: &Namespace) -> anyhow::Result<()> {
    namespace.create::<Deployment>(web("one", json!({"replicas": 2}))).await?;
    settles(namespace, 2).await?;
    let selector = json!({"matchLabels": {"app": "web"}});
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": selector}});
    namespace.create::<PodDisruptionBudget>(budget).await?;
    let counts = async |allowed: i32, desired: i32| {
        let expected = (allowed, 2, desired, 2);
        let is_counted = |budget: &PodDisruptionBudget| {
            budget.status.as_ref().is_some_and(|status| {
                let healthy = (status.current_healthy, status.desired_healthy, status.expected_pods);
                (status.disruptions_allowed, healthy.0, healthy.1, healthy.2) == expected
                    && status.observed_generation == budget.metadata.generation
            })
        };
        wait::for_object(namespace.api(), "web", "counted", is_counted).await
    };
    counts(0, 2).await?;
    let pods = namespace.api::<Pod>();
    let all = pods.list(&ListParams::default()).await?;
    let name = all.iter().next().map(ResourceExt::name_any).context("there are two pods")?;
    let Err(kube::Error::Api(refused)) = pods.evict(&name, &EvictParams::default()).await else {
        bail!("the eviction was not refused");
    };
    let reported = (refused.code, refused.message.as_str());
    ensure!(
        reported == (429, "Cannot evict pod as it would violate the pod's disruption budget."),
        "answered {reported:?}"
    );

    let relax = Patch::Merge(json!({"spec": {"minAvailable": 1}}));
    namespace.api::<PodDisruptionBudget>().patch("web", &PatchParams::default(), &relax).await?;
    counts(1, 1).await?;
    pods.evict(&name, &EvictParams::default()).await?;
    namespace.is_gone::<Pod>(&name).await?;
    settles(namespace, 2).await?;
    counts(1, 1).await.map(drop)
}

/// Without a budget an eviction is a deletion, and says why.
pub async fn an_evicted_pod_says_why(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = app(json!({"containers": [shell("main", UNTIL_TERM)]}));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    namespace.api::<Pod>().evict("app", &EvictParams::default()).await?;
    story.end_of("app").await?;
    let expected = "
        Pod app, scheduled
          Pending, Running, Succeeded
          container main terminated Completed 0
          DisruptionTarget=True EvictionByEvictionAPI: Eviction API: evicting
          PodReadyToStartContainers=False
          Initialized=True PodCompleted
          Ready, ContainersReady=False PodCompleted
          PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Normal Killing spec.containers{main}: Stopping container main
          gone
        ";
    story.matches(expected).await
}
