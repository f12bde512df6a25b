//! A manager in the process of the test.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse as _;
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use pillion_api::sidecarset::crd;
use pillion_manager::{Config, ControllerName, Manager, WebhookAddress};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::custom_resources;
use crate::{Namespace, wait};

/// Runs a scenario with a manager that has webhooks and updates running pods.
pub(super) async fn managed(
    namespace: &Namespace,
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    managed_with(
        namespace,
        |config| Config { parts: vec![ControllerName::Webhook, ControllerName::Rollout], ..config },
        scenario,
    )
    .await
}

/// The same with three replicas that answer reviews in turn.
pub(super) async fn managed_by_three(
    namespace: &Namespace,
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let adjust = |config| Config { parts: vec![ControllerName::Webhook, ControllerName::Rollout], ..config };
    managed_by(namespace, adjust, &["b", "c"], scenario).await
}

/// The same with another configuration. One at a time: its registration is the cluster's.
pub(super) async fn managed_with(
    namespace: &Namespace,
    adjust: impl Fn(Config) -> Config,
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    managed_by(namespace, adjust, &[], scenario).await
}

async fn managed_by(
    namespace: &Namespace,
    adjust: impl Fn(Config) -> Config,
    others: &[&str],
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let _mine = namespace.cluster().alone().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = WebhookAddress::Url(format!("https://{}", listener.local_addr()?));
    // Pods in the manager's own namespace are not injected.
    let home = home(namespace);
    let config = || Config {
        namespace: home.clone(),
        revisions_namespace: home.clone(),
        ..Config::new(namespace.client(), Arc::new(Timestamp::now), address.clone())
    };
    let manager = Manager::new(adjust(config()));
    // The first one has installed the definition.
    let other = |name: &&str| {
        let config = Config { identity: Some((*name).to_owned()), installs_definition: false, ..config() };
        Manager::new(adjust(config))
    };
    let others: Vec<Manager> = others.iter().map(other).collect();
    let serving = tokio::spawn({
        let (manager, webhooks) = (manager.clone(), in_turn(&manager, &others));
        async move { manager.serve_as(webhooks, listener, Duration::ZERO, Duration::ZERO).await }
    });
    let registered = async {
        manager.start().await?;
        for other in &others {
            other.start().await?;
        }
        manager.register().await
    };
    let outcome = match registered.await {
        // What loses is dropped: nothing is registered again after it was removed.
        Ok(()) => tokio::select! {
            outcome = Box::pin(scenario(namespace)) => outcome,
            ended = try_join_all([&manager].into_iter().chain(&others).map(Manager::run)) =>
                ended.map_err(Into::into).and_then(|_| anyhow::bail!("the manager has ended")),
        },
        Err(error) => Err(error.into()),
    };
    serving.abort();
    let cleaned = clean_up(namespace, &home).await;
    outcome.and(cleaned)
}

/// The webhooks of several replicas as a Service would have them: each request goes to the next one.
fn in_turn(first: &Manager, others: &[Manager]) -> Router {
    let webhooks: Arc<[Router]> = [first].into_iter().chain(others).map(Manager::webhooks).collect();
    let turn = Arc::new(AtomicUsize::new(0));
    Router::new().fallback(move |request: axum::extract::Request| {
        let next = turn.fetch_add(1, Ordering::Relaxed) % webhooks.len();
        let webhook = webhooks.get(next).cloned().unwrap_or_default();
        async move { webhook.oneshot(request).await.into_response() }
    })
}

/// Runs a scenario with a manager that has the webhooks alone, and gives the scenario what it needs to start others.
pub(super) async fn with_webhooks(
    namespace: &Namespace,
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    managed_with(namespace, |config| Config { parts: vec![ControllerName::Webhook], ..config }, scenario).await
}

/// A manager without webhooks that works until it is dropped, as a process that is killed: nothing is given back.
pub(super) struct Replica(tokio::task::JoinHandle<()>);

impl Replica {
    /// Starts one of several that update running pods. `client` is what its requests go through.
    pub(super) fn start(namespace: &Namespace, identity: &str, client: Client) -> Replica {
        Replica::of(namespace, client, |config| Config {
            identity: Some(identity.to_owned()),
            parts: vec![ControllerName::Rollout],
            ..config
        })
    }

    /// Starts one that is configured in another way.
    pub(super) fn of(namespace: &Namespace, client: Client, adjust: impl FnOnce(Config) -> Config) -> Replica {
        let home = home(namespace);
        let nowhere = WebhookAddress::Url("https://127.0.0.1:1".to_owned());
        let config = Config::new(client, Arc::new(Timestamp::now), nowhere);
        // The one with the webhooks has installed it.
        let config =
            Config { namespace: home.clone(), revisions_namespace: home, installs_definition: false, ..config };
        let manager = Manager::new(adjust(config));
        let running = async move {
            manager.start().await?;
            manager.run().await
        };
        Replica(tokio::spawn(async move {
            if let Err(error) = running.await {
                eprintln!("a replica has ended: {error}");
            }
        }))
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The namespace of the manager, and of the revisions.
pub(super) fn home(namespace: &Namespace) -> String {
    format!("{}-manager", namespace.name())
}

/// Waits until pods like this are injected: the API server learns of a configuration some time after it is created. A dry run leaves
/// nothing behind. Returns the pod.
pub(super) async fn is_injected(namespace: &Namespace, template: &Value) -> anyhow::Result<Pod> {
    let pod = json!({"metadata": {"name": "try", "labels": template["metadata"]["labels"]}, "spec": template["spec"]});
    let pod: Pod = serde_json::from_value(pod)?;
    let count = |pod: &Pod| {
        let spec = pod.spec.as_ref();
        spec.map_or(0, |spec| spec.containers.len() + spec.init_containers.as_ref().map_or(0, Vec::len))
    };
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("a pod that is injected", async || {
        let created = namespace.api::<Pod>().create(&dry_run, &pod).await?;
        Ok((count(&created) > count(&pod)).then_some(()))
    })
    .await?;
    Ok(pod)
}

/// What is not in the scenario's namespace would be in the way of others.
async fn clean_up(namespace: &Namespace, home: &str) -> anyhow::Result<()> {
    let client = || namespace.client();
    let delete = DeleteParams::default();
    Api::<MutatingWebhookConfiguration>::all(client()).delete("pillion", &delete).await?;
    Api::<ValidatingWebhookConfiguration>::all(client()).delete("pillion", &delete).await?;
    let apply = PatchParams::apply("pillion").force();
    custom_resources::definitions(client())
        .patch(custom_resources::NAME, &apply, &Patch::Apply(crd::sidecarset()))
        .await?;
    custom_resources::delete(namespace).await?;
    Api::<KubeNamespace>::all(client()).delete(home, &delete).await?;
    Ok(())
}
