//! Injection by the manager, from a SidecarSet to the end of a Job.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use pillion_api::sidecarset::crd::{self, Conversion};
use pillion_cluster::image::SHELL;
use pillion_manager::{Config, Manager, WebhookAddress};
use serde_json::{Value, json};

use super::custom_resources::{self, DEFINITION};
use super::jobs::work;
use super::{A_WHILE, UNTIL_TERM, job_is, shell, with};
use crate::{Namespace, wait};

/// A native sidecar gets into a Job's pod, sized from the app, and does not keep the Job from completing.
pub async fn an_injected_sidecar_lets_its_job_complete(namespace: &Namespace) -> anyhow::Result<()> {
    with_manager(namespace, |config| config, async |namespace| Box::pin(injects(namespace)).await).await
}

/// Runs a scenario with a manager in this process. One at a time: its registration is the cluster's.
pub(super) async fn with_manager(
    namespace: &Namespace,
    adjust: impl FnOnce(Config) -> Config,
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let _mine = DEFINITION.lock().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = WebhookAddress::Url(format!("https://{}", listener.local_addr()?));
    let config = Config::new(namespace.client(), Arc::new(Timestamp::now), address);
    // Pods in the manager's own namespace are not injected.
    let home = format!("{}-manager", namespace.name());
    let manager = Manager::new(adjust(Config { namespace: home.clone(), ..config }));
    let serving = tokio::spawn({
        let manager = manager.clone();
        async move { manager.serve(listener, Duration::ZERO, Duration::ZERO).await }
    });
    let registered = async {
        manager.start().await?;
        manager.register().await
    };
    let outcome = match registered.await {
        Ok(()) => tokio::select! {
            outcome = scenario(namespace) => outcome,
            ended = manager.run() => ended.map_err(Into::into).and_then(|()| anyhow::bail!("the manager has ended")),
        },
        Err(error) => Err(error.into()),
    };
    serving.abort();
    let cleaned = clean_up(namespace, &home).await;
    outcome.and(cleaned)
}

async fn injects(namespace: &Namespace) -> anyhow::Result<()> {
    let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {
        "requests": {"cpu": "max(cpu*50%, 10m)", "memory": "32Mi"}, "limits": {"cpu": "cpu*50%", "memory": "memory*25%"}
    }});
    let proxy = with(shell("proxy", UNTIL_TERM), json!({"restartPolicy": "Always", "resourcesPolicy": policy}));
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": namespace.name()},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            "selector": {"matchLabels": {"mesh": "on"}}, "initContainers": [proxy]
        }
    });
    custom_resources::create(namespace, &set).await?;
    let template = pod_template();
    let pod = json!({"metadata": {"name": "try", "labels": template["metadata"]["labels"]}, "spec": template["spec"]});
    let pod: Pod = serde_json::from_value(pod)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    // The API server learns of a configuration some time after it is created; a dry run leaves nothing behind.
    wait::until("a pod that is injected", async || {
        let created = namespace.api::<Pod>().create(&dry_run, &pod).await?;
        Ok(created.spec.and_then(|spec| spec.init_containers).filter(|containers| !containers.is_empty()))
    })
    .await?;
    let elsewhere = Api::<Pod>::namespaced(namespace.client(), "default").create(&dry_run, &pod).await?;
    let injected = elsewhere.spec.and_then(|spec| spec.init_containers);
    ensure!(injected.is_none(), "a pod in another namespace was injected: {injected:?}");

    let story = namespace.story().await?;
    let mut job = work(json!({"backoffLimit": 0}), json!({}));
    job["spec"]["template"] = template;
    namespace.create::<Job>(job).await?;
    job_is(namespace, "work", "Complete").await?;
    let pods = namespace.api::<Pod>().list(&ListParams::default()).await?.items;
    let proxy = pods.first().and_then(|pod| pod.spec.as_ref()?.init_containers.as_ref()?.first().cloned());
    let resources = serde_json::to_value(proxy.as_ref().and_then(|proxy| proxy.resources.clone()))?;
    let expected = json!({"limits": {"cpu": "100m", "memory": "32Mi"}, "requests": {"cpu": "50m", "memory": "32Mi"}});
    ensure!(resources == expected, "the sidecar's resources are {resources}");
    ensure!(proxy.and_then(|proxy| proxy.image).as_deref() == Some(SHELL), "the sidecar has another image");
    story
        .tells(
            "
            Job work
              ready 0, succeeded 1, terminating 0
              SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
              job-controller Normal SuccessfulCreate: Created pod: work-1
              job-controller Normal Completed: Job completed
            Pod work-1 of Job work
              Pending, Running, Succeeded
              init container proxy terminated Completed 0
              container main terminated Completed 0
              PodReadyToStartContainers=False
              Initialized=True PodCompleted
              Ready, ContainersReady=False PodCompleted
              PodScheduled=True
              default-scheduler Normal Scheduled: Successfully assigned NAMESPACE/work-1 to pillion
              kubelet Normal Pulled, Created, Started spec.initContainers{proxy}
              kubelet Normal Pulled, Created, Started spec.containers{main}
              kubelet Normal Killing spec.initContainers{proxy}: Stopping container proxy
            ",
        )
        .await
}

fn pod_template() -> Value {
    let resources =
        json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}});
    let main = with(shell("main", A_WHILE), json!({"resources": resources}));
    json!({"metadata": {"labels": {"mesh": "on"}}, "spec": {"restartPolicy": "Never", "containers": [main]}})
}

/// What is not in the scenario's namespace would be in the way of others.
pub(super) async fn clean_up(namespace: &Namespace, home: &str) -> anyhow::Result<()> {
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
