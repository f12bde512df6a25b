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

/// How far it is, and which containers cannot start.
async fn state(client: &Client, namespace: &str, deployments: &[Deployment]) -> Result<String, Error> {
    let replicas = |live: &Deployment| live.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let is_there =
        |live: &Deployment| live.status.as_ref().and_then(|status| status.available_replicas).unwrap_or_default();
    let wanted: i32 = deployments.iter().map(replicas).sum();
    let available: i32 = deployments.iter().map(is_there).sum();
    let mut state = format!("{available} of {wanted} replicas of the manager are available");
    for pod in pods(client, namespace).await? {
        let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let waiting = statuses.filter_map(|status| status.state.as_ref()?.waiting.as_ref());
        for waiting in waiting.filter(|waiting| waiting.reason.as_deref() != Some("ContainerCreating")) {
            let (reason, message) = (waiting.reason.as_deref(), waiting.message.as_deref());
            let words: Vec<&str> = [reason, message].into_iter().flatten().collect();
            state = format!("{state}; pod {}: {}", pod.name_any(), words.join(": "));
        }
    }
    Ok(state)
}

/// The pods of the manager.
pub(crate) async fn pods(client: &Client, namespace: &str) -> Result<Vec<Pod>, Error> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let listed = pods.list(&ListParams::default().labels(PODS)).await;
    Ok(listed.map_err(Error::api(format!("list the pods of the manager in namespace {namespace}")))?.items)
}
