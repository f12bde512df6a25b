//! A manager in the process of the test.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use pillion_api::sidecarset::crd::{self, Conversion};
use pillion_manager::{Config, Manager, Part, WebhookAddress};
use serde_json::{Value, json};

use super::custom_resources::{self, DEFINITION};
use crate::{Namespace, wait};

/// Runs a scenario with a manager that has webhooks and updates running pods.
pub(super) async fn managed(
    namespace: &Namespace,
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let _mine = DEFINITION.lock().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = WebhookAddress::Url(format!("https://{}", listener.local_addr()?));
    // Pods in the manager's own namespace are not injected.
    let home = home(namespace);
    let manager = Manager::new(Config {
        namespace: home.clone(),
        revisions_namespace: home.clone(),
        parts: vec![Part::Webhook, Part::Rollout],
        ..Config::new(namespace.client(), Arc::new(Timestamp::now), address)
    });
    let serving = tokio::spawn({
        let manager = manager.clone();
        async move { manager.serve(listener, Duration::ZERO, Duration::ZERO).await }
    });
    let registered = async {
        manager.start().await?;
        manager.register().await
    };
    let outcome = match registered.await {
        Ok(()) => {
            let running = tokio::spawn(async move { manager.run().await });
            let outcome = Box::pin(scenario(namespace)).await;
            running.abort();
            // Nothing is registered again after it was removed.
            let _ = running.await;
            outcome
        }
        Err(error) => Err(error.into()),
    };
    serving.abort();
    let cleaned = clean_up(namespace, &home).await;
    outcome.and(cleaned)
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
        .patch(custom_resources::NAME, &apply, &Patch::Apply(crd::sidecarset(&Conversion::None)))
        .await?;
    custom_resources::delete(namespace).await?;
    Api::<KubeNamespace>::all(client()).delete(home, &delete).await?;
    Ok(())
}
