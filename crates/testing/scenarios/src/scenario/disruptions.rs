//! Evictions, within what a budget allows.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::{EvictParams, ListParams};
use serde_json::json;

use super::deployments::{settles, web};
use super::{UNTIL_TERM, app, is_ready, shell};
use crate::{Namespace, wait};

/// One of two may go; the other must stay until the first has come back.
pub async fn evictions_keep_to_the_budget(namespace: &Namespace) -> anyhow::Result<()> {
    namespace.create::<Deployment>(web("one", json!({"replicas": 2}))).await?;
    settles(namespace, 2).await?;
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    namespace.create::<PodDisruptionBudget>(budget).await?;
    let allows = |count: i32| {
        move |budget: &PodDisruptionBudget| {
            budget.status.as_ref().is_some_and(|status| status.disruptions_allowed == count)
        }
    };
    let budgets = namespace.api::<PodDisruptionBudget>();
    let budget = wait::for_object(budgets.clone(), "web", "allowing one", allows(1)).await?;
    let status = budget.status.unwrap_or_default();
    let counts = (status.current_healthy, status.desired_healthy, status.expected_pods);
    ensure!(counts == (2, 1, 2), "healthy, desired and expected are {counts:?}");

    let pods = namespace.api::<Pod>();
    let names: Vec<String> = pods.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
    pods.evict(&names[0], &EvictParams::default()).await?;
    let refused = pods.evict(&names[1], &EvictParams::default()).await;
    let Err(kube::Error::Api(refused)) = refused else {
        anyhow::bail!("the second eviction was not refused: {refused:?}")
    };
    ensure!(refused.code == 429, "the refusal is {refused:?}");
    ensure!(
        refused.message == "Cannot evict pod as it would violate the pod's disruption budget.",
        "the message is {:?}",
        refused.message
    );
    settles(namespace, 2).await?;
    wait::for_object(budgets, "web", "allowing one again", allows(1)).await?;
    pods.evict(&names[1], &EvictParams::default()).await?;
    namespace.is_gone::<Pod>(&names[1]).await
}

/// Without a budget an eviction is a deletion, and says why.
pub async fn an_evicted_pod_says_why(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let pod = app(json!({"containers": [shell("main", UNTIL_TERM)]}));
    namespace.create::<Pod>(pod).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    namespace.api::<Pod>().evict("app", &EvictParams::default()).await?;
    story.end_of("app").await?;
    story
        .tells(
            "
            Pod app
              Pending, Running, Succeeded
              container main terminated Completed 0
              DisruptionTarget=True EvictionByEvictionAPI: Eviction API: evicting
              PodReadyToStartContainers=False
              Initialized=True PodCompleted
              Ready, ContainersReady=False PodCompleted
              PodScheduled=True
              default-scheduler Normal Scheduled: Successfully assigned NAMESPACE/app to pillion
              kubelet Normal Pulled, Created, Started spec.containers{main}
              kubelet Normal Killing spec.containers{main}: Stopping container main
              gone
            ",
        )
        .await
}
