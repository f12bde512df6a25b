//! Waiting for the manager's replicas.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use tokio::time::Instant;

use crate::error::Error;
use crate::manifests::{PODS, manifests};
use crate::objects::{Place, Say, TICK};
use crate::options::Options;

/// Returns when every replica of every Deployment runs the current template and is available.
pub(crate) async fn wait(
    client: &Client,
    options: &Options,
    deadline: Instant,
    timeout: Duration,
    say: Say<'_>,
) -> Result<(), Error> {
    let all: Api<Deployment> = Api::namespaced(client.clone(), &options.namespace);
    let wanted: Vec<String> = manifests(options)
        .iter()
        .map(Place::of)
        .filter(|place| place.is("Deployment"))
        .map(|place| place.name)
        .collect();
    let mut said = String::new();
    loop {
        let mut deployments = Vec::new();
        for name in &wanted {
            deployments.push(all.get(name).await.map_err(Error::api(format!("read Deployment {name:?}")))?);
        }
        let state = state(client, &options.namespace, &deployments).await?;
        if state != said {
            say(&state);
            said = state;
        }
        if deployments.iter().all(is_available) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let (seconds, namespace) = (timeout.as_secs(), options.namespace.clone());
            return Err(Error::NotAvailable { seconds, state: said, namespace });
        }
        tokio::time::sleep(TICK).await;
    }
}

/// Whether every replica runs the current template and is available, as `kubectl rollout status` decides it.
pub fn is_available(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    status.observed_generation >= deployment.metadata.generation
        && status.updated_replicas.unwrap_or_default() >= wanted
        && status.replicas.unwrap_or_default() == status.updated_replicas.unwrap_or_default()
        && status.available_replicas.unwrap_or_default() >= wanted
}

/// How far it is, and what keeps pods from running.
async fn state(client: &Client, namespace: &str, deployments: &[Deployment]) -> Result<String, Error> {
    let replicas = |live: &Deployment| live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let is_there =
        |live: &Deployment| live.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default();
    let wanted: i32 = deployments.iter().map(replicas).sum();
    let available: i32 = deployments.iter().map(is_there).sum();
    let mut state = vec![format!("{available} of {wanted} replicas of the manager are available")];
    state.extend(deployments.iter().filter_map(without_pods));
    for pod in pods(client, namespace).await? {
        state.extend(obstacles(&pod).map(|why| format!("pod {}: {why}", pod.name_any())));
    }
    Ok(state.join("; "))
}

/// Why the pods of a Deployment cannot be created.
fn without_pods(deployment: &Deployment) -> Option<String> {
    let mut conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failure = conditions.find(|it| it.type_ == "ReplicaFailure" && it.status == "True")?;
    let why = words(failure.reason.as_deref(), failure.message.as_deref());
    Some(format!("Deployment {}: {why}", deployment.name_any()))
}

/// Why a pod does not run: the scheduler finds no node for it, or containers cannot start.
fn obstacles(pod: &Pod) -> impl Iterator<Item = String> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let unscheduled = conditions.filter(|it| it.type_ == "PodScheduled" && it.status == "False");
    let unscheduled = unscheduled.map(|it| words(it.reason.as_deref(), it.message.as_deref()));
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let waiting = statuses.filter_map(|status| status.state.as_ref()?.waiting.as_ref());
    let waiting = waiting.filter(|waiting| waiting.reason.as_deref() != Some("ContainerCreating"));
    unscheduled.chain(waiting.map(|waiting| words(waiting.reason.as_deref(), waiting.message.as_deref())))
}

fn words(reason: Option<&str>, message: Option<&str>) -> String {
    [reason, message].into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// The pods of the manager.
pub(crate) async fn pods(client: &Client, namespace: &str) -> Result<Vec<Pod>, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let listed = pods.list(&ListParams::default().labels(PODS)).await;
    Ok(listed.map_err(Error::api(format!("list the pods of the manager in namespace {namespace}")))?.items)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn obstacles_of(status: Value) -> Vec<String> {
        obstacles(&serde_json::from_value(json!({"status": status})).unwrap()).collect()
    }

    #[test]
    fn the_scheduler_and_the_kubelet_are_quoted() {
        let scheduled = |status: &str, reason: &str, message: &str| json!({"conditions": [{"type": "PodScheduled", "status": status, "reason": reason, "message": message}]});
        let taint = "0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: db}.";
        let found = obstacles_of(scheduled("False", "Unschedulable", taint));
        assert_eq!(found, [format!("Unschedulable: {taint}")]);
        assert_eq!(obstacles_of(scheduled("True", "", "")), [""; 0]);
        let waiting = |waiting: Value| {
            let status = json!({"name": "a", "image": "a", "imageID": "", "ready": false, "restartCount": 0, "state": {"waiting": waiting}});
            obstacles_of(json!({"containerStatuses": [status]}))
        };
        assert_eq!(waiting(json!({"reason": "ContainerCreating"})), [""; 0]);
        assert_eq!(waiting(json!({"reason": "ErrImagePull", "message": "not found"})), ["ErrImagePull: not found"]);
    }

    #[test]
    fn a_quota_that_forbids_the_pods_is_quoted() {
        let condition =
            json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"});
        let live = json!({"metadata": {"name": "pillion-manager"}, "status": {"conditions": [condition]}});
        let found = without_pods(&serde_json::from_value(live).unwrap());
        assert_eq!(found.as_deref(), Some("Deployment pillion-manager: FailedCreate: exceeded quota"));
    }
}
