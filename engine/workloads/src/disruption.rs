//! PodDisruptionBudgets: how many pods may be evicted now.

mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::{Selector, SelectorExt as _};
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use pillion_events::Recorder;
use pillion_informer::{Cache, Change, Controller, NamespacedName, controller_of};

use self::plan::Scale;
use crate::context::Context;
use crate::error::Error;
use crate::pod::PodView;
use crate::write;

/// Keeps the status of all budgets, until dropped.
pub(crate) async fn run(context: Context) {
    let budgets: Cache<PodDisruptionBudget> = Cache::new();
    let watch = budgets.clone().run(Api::all(context.client.clone()), watcher::Config::default());
    let known = budgets.clone();
    let triggers = context.pods.changes().flat_map(move |change| stream::iter(concerned(&known, &change)));
    let recorder = context.recorder("controllermanager");
    let written = budgets.clone();
    let reconcile = move |budget| reconcile(context.clone(), written.clone(), recorder.clone(), budget);
    tokio::join!(watch, Controller::new(&budgets).reconcile_on(triggers).run(reconcile));
}

/// The budgets that a change of a pod concerns.
fn concerned(budgets: &Cache<PodDisruptionBudget>, change: &Change<PodView>) -> Vec<NamespacedName> {
    let (old, new) = (change.old.as_deref(), change.new.as_deref());
    let counts = |pod: &PodView| (pod.is_ready(), pod.metadata.deletion_timestamp.is_some(), pod.labels().clone());
    if old.map(counts) == new.map(counts) {
        return Vec::new();
    }
    let Some(pod) = new.or(old) else { return Vec::new() };
    let namespace = pod.namespace().unwrap_or_default();
    let concerns = |budget: &Arc<PodDisruptionBudget>| {
        let selects = selects(budget);
        [old, new].into_iter().flatten().any(&selects)
    };
    let all = budgets.in_namespace(&namespace).into_iter().filter(concerns);
    all.map(|budget| NamespacedName::of(budget.as_ref())).collect()
}

/// Whether the budget is for a pod. An empty selector is for all, an absent one for none.
fn selects(budget: &PodDisruptionBudget) -> impl Fn(&PodView) -> bool + use<> {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    move |pod| selector.as_ref().is_some_and(|selector| selector.matches(pod.labels()))
}

async fn reconcile(
    context: Context,
    budgets: Cache<PodDisruptionBudget>,
    recorder: Recorder,
    budget: Arc<PodDisruptionBudget>,
) -> Result<Option<Duration>, Error> {
    let selects = selects(&budget);
    let mut pods = context.pods.in_namespace(&budget.namespace().unwrap_or_default());
    pods.retain(|pod| selects(pod));
    let about = write::reference(budget.as_ref());
    if pods.is_empty() {
        recorder.normal(&about, "NoPods", "No matching pods found");
    }
    let plan = plan::plan(&budget, &pods, &scales(&context, &pods), context.clock.now());
    for (reason, message) in &plan.warnings {
        recorder.warning(&about, reason, message.as_str());
    }
    if budget.status.as_ref() != Some(&plan.status) {
        let changed = PodDisruptionBudget { status: Some(plan.status), ..PodDisruptionBudget::clone(&budget) };
        budgets.written(write::replace_status(&context.client, &changed).await?);
    }
    Ok(plan.wake)
}

/// How many pods the controllers of these pods want, by the uid in the pods' owner references.
fn scales(context: &Context, pods: &[Arc<PodView>]) -> BTreeMap<String, Scale> {
    let mut scales = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller_of(pod.as_ref()) else { continue };
        let namespace = pod.namespace().unwrap_or_default();
        let scale = |uid: &Option<String>, replicas: Option<i32>| {
            (uid.as_deref() == Some(&owner.uid))
                .then(|| Scale { of: owner.uid.clone(), replicas: replicas.unwrap_or(1) })
        };
        let found = match owner.kind.as_str() {
            "ReplicaSet" => context.replica_sets.get(&namespace, &owner.name).and_then(|set| {
                let deployment = controller_of(set.as_ref()).filter(|owner| owner.kind == "Deployment");
                let deployment = deployment.and_then(|owner| context.deployments.get(&namespace, &owner.name));
                match deployment {
                    Some(deployment) => Some(Scale {
                        of: deployment.uid().unwrap_or_default(),
                        replicas: deployment.spec.replicas.unwrap_or(1),
                    }),
                    None => scale(&set.metadata.uid, set.spec.replicas),
                }
            }),
            "StatefulSet" => {
                let set = context.stateful_sets.get(&namespace, &owner.name);
                set.and_then(|set| scale(&set.metadata.uid, set.spec.replicas))
            }
            _ => None,
        };
        if let Some(found) = found {
            scales.insert(owner.uid.clone(), found);
        }
    }
    scales
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::test_cluster::{TestCluster, settle};

    #[tokio::test(start_paused = true)]
    async fn a_budget_follows_the_pods_that_it_is_for() {
        let cluster = TestCluster::start().await;
        let labels = json!({"matchLabels": {"app": "web"}});
        let container = json!({"name": "main", "image": "main"});
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}});
        let spec = json!({"replicas": 3, "selector": labels, "template": template});
        cluster
            .create(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec}))
            .await;
        let spec = json!({"maxUnavailable": 1, "selector": labels});
        cluster.create(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec})).await;
        settle(1).await;
        let status = async || {
            let status = cluster.get("policy/v1 PodDisruptionBudget", "web").await["status"].clone();
            ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
                .map(|field| status[field].as_i64().unwrap())
        };
        assert_eq!(status().await, [3, 2, 0, 0]);
        for pod in cluster.pods().await {
            cluster
                .report(&pod, json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}))
                .await;
        }
        settle(1).await;
        assert_eq!(status().await, [3, 2, 3, 1]);
        let budget = cluster.get("policy/v1 PodDisruptionBudget", "web").await;
        let condition = &budget["status"]["conditions"][0];
        assert_eq!(
            (&condition["type"], &condition["status"], &condition["reason"]),
            (&json!("DisruptionAllowed"), &json!("True"), &json!("SufficientPods"))
        );
    }
}
