//! Injection by the manager, from a SidecarSet to the end of a Job.

use anyhow::ensure;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams};
use pillion_cluster::image::SHELL;
use serde_json::{Value, json};

use super::custom_resources;
use super::jobs::work;
use super::managed::{is_injected, managed};
use super::{A_WHILE, UNTIL_TERM, job_is, shell, with};
use crate::Namespace;

/// A native sidecar gets into a Job's pod, sized from the app, and does not keep the Job from completing.
pub async fn an_injected_sidecar_lets_its_job_complete(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, injects).await
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
    let pod = is_injected(namespace, &template).await?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
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
    let expected = "
        Job work
          ready 0, succeeded 1, terminating 0
          SuccessCriteriaMet, Complete=True CompletionsReached: Reached expected number of succeeded pods
          job-controller Normal SuccessfulCreate: Created pod: work-1
          job-controller Normal Completed: Job completed
        Pod work-1 of Job work, scheduled
          # The container runs for 3 s: a busy kubelet may not see it running.
          Pending, {maybe Running, }Succeeded
          init container proxy terminated Completed 0
          container main terminated Completed 0
          conditions of a completed pod
          kubelet Normal Pulled, Created, Started spec.initContainers{proxy}
          kubelet Normal Pulled, Created, Started spec.containers{main}
          kubelet Normal Killing spec.initContainers{proxy}: Stopping container proxy
        ";
    story.matches(expected).await
}

fn pod_template() -> Value {
    let resources =
        json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "128Mi"}});
    let main = with(shell("main", A_WHILE), json!({"resources": resources}));
    json!({"metadata": {"labels": {"mesh": "on"}}, "spec": {"restartPolicy": "Never", "containers": [main]}})
}
