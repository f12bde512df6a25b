//! VerticalPodAutoscalers over native sidecars: the recommendation is given, and the updater and admission carry it out.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use pillion_api::vpa::DEFAULT_RECOMMENDER;
use pillion_gates::Gates;
use pillion_manager::{Config, ControllerName};
use pillion_quantity::Quantity;
use pillion_rightsizer::{UsageSource, autoscalers};
use serde_json::{Value, json};

use super::installation::commands::{kubectl, pillion_prints};
use super::managed::managed_with;
use super::{UNTIL_TERM, hungry, is_running, restarts, shell, sidecar, with};
use crate::{Namespace, wait};

const NATIVE: &str = "NativeSidecar=true";

/// The updater resizes a native sidecar in place: nothing restarts.
pub async fn a_native_sidecar_follows_its_recommendation(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, NATIVE, async |namespace| {
        let pod = deploy(namespace).await?;
        recommend(namespace, &pod, &["app", "mesh", "setup"], "30m", "InPlaceOrRecreate").await?;
        let name = pod.metadata.name.clone().context("a pod has a name")?;
        let resized = namespace
            .wait_for_pod(&name, "resized", |pod| {
                actual(pod, "mesh").as_deref() == Some("30m") && actual(pod, "app").as_deref() == Some("30m")
            })
            .await?;
        ensure!(restarts(&resized, "mesh") == Some(0) && restarts(&resized, "app") == Some(0), "something restarted");
        ensure!(request(&resized, "setup").as_deref() == Some("10m"), "a plain init container was resized");
        ensure!(resized.metadata.uid == pod.metadata.uid, "it is another pod");
        Ok(())
    })
    .await
}

/// Where the mode does not resize, the pod is evicted, and admission gives its successor what is recommended.
pub async fn a_pod_is_evicted_where_in_place_is_off(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, NATIVE, async |namespace| {
        let before = deploy(namespace).await?;
        recommend(namespace, &before, &["app", "mesh", "setup"], "30m", "Recreate").await?;
        let after = successor(namespace, &before).await?;
        ensure!(request(&after, "mesh").as_deref() == Some("30m"), "the native sidecar was not sized");
        ensure!(request(&after, "setup").as_deref() == Some("10m"), "a plain init container was sized");
        let annotations = after.metadata.annotations.unwrap_or_default();
        ensure!(annotations.get("vpaObservedContainers").map(String::as_str) == Some("app, mesh"), "{annotations:?}");
        Ok(())
    })
    .await
}

/// Without the gate the app follows, and its native sidecar is left alone.
pub async fn without_the_gate_a_native_sidecar_is_left_alone(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, "", async |namespace| {
        let before = deploy(namespace).await?;
        recommend(namespace, &before, &["app", "mesh"], "30m", "Recreate").await?;
        let after = successor(namespace, &before).await?;
        ensure!(request(&after, "app").as_deref() == Some("30m"), "the app was not sized");
        ensure!(request(&after, "mesh").as_deref() == Some("10m"), "the native sidecar was sized");
        let annotations = after.metadata.annotations.unwrap_or_default();
        ensure!(annotations.get("vpaObservedContainers").map(String::as_str) == Some("app"), "{annotations:?}");
        Ok(())
    })
    .await
}

/// After the gate was switched off the app still follows, and its native sidecar keeps what it was given.
pub async fn a_native_sidecar_keeps_its_last_values_without_the_gate(namespace: &Namespace) -> anyhow::Result<()> {
    let containers = ["app", "mesh"];
    let has = |cpu: &'static str| move |pod: &Pod| actual(pod, "app").as_deref() == Some(cpu);
    managed(namespace, NATIVE, async |namespace| {
        let pod = deploy(namespace).await?;
        recommend(namespace, &pod, &containers, "30m", "InPlaceOrRecreate").await?;
        let name = pod.metadata.name.context("a pod has a name")?;
        let is_resized = |pod: &Pod| has("30m")(pod) && actual(pod, "mesh").as_deref() == Some("30m");
        namespace.wait_for_pod(&name, "resized", is_resized).await.map(drop)
    })
    .await?;
    managed(namespace, "", async |namespace| {
        let pod = running(namespace, |_| true).await?;
        recommend(namespace, &pod, &containers, "40m", "InPlaceOrRecreate").await?;
        let name = pod.metadata.name.context("a pod has a name")?;
        let resized = namespace.wait_for_pod(&name, "resized", has("40m")).await?;
        ensure!(request(&resized, "mesh").as_deref() == Some("30m"), "the native sidecar was touched");
        ensure!(restarts(&resized, "mesh") == Some(0), "the native sidecar restarted");
        Ok(())
    })
    .await
}

/// A native sidecar needs more memory than it may have, and is OOM killed: the recommender learns from that, and it gets more.
pub async fn an_oom_killed_native_sidecar_gets_more_memory(namespace: &Namespace) -> anyhow::Result<()> {
    gets_more_memory(namespace, json!({})).await
}

/// The same of one that is killed before the app may start: the pod is still pending.
pub async fn a_native_sidecar_that_is_oom_killed_while_it_starts_gets_more_memory(
    namespace: &Namespace,
) -> anyhow::Result<()> {
    let probe = json!({"exec": {"command": ["/bin/true"]}, "initialDelaySeconds": 3, "periodSeconds": 1});
    gets_more_memory(namespace, json!({"startupProbe": probe})).await
}

async fn gets_more_memory(namespace: &Namespace, fields: Value) -> anyhow::Result<()> {
    let gates = Gates::default().with(&NATIVE.parse()?);
    let adjust = |mut config: Config| {
        config.rightsizing.recommender_interval = Duration::from_secs(2);
        config.rightsizing.updater_interval = Duration::from_secs(2);
        Config {
            gates,
            parts: vec![ControllerName::Webhook, ControllerName::Recommender, ControllerName::Updater],
            ..config
        }
    };
    managed_with(namespace, adjust, async |namespace| {
        let small = json!({"cpu": "10m", "memory": "32Mi"});
        let resources = json!({"resources": {"requests": small, "limits": {"memory": "32Mi"}}});
        let mesh = with(with(sidecar("mesh", &hungry()), resources), fields);
        let app = with(shell("app", UNTIL_TERM), json!({"resources": {"requests": small}}));
        create(namespace, json!([mesh]), json!([app])).await?;
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let spec = json!({"targetRef": target, "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1}});
        create_autoscaler(namespace, spec).await?;
        wait::until("a sidecar that runs with more memory", async || {
            let pods = namespace.api::<Pod>().list(&ListParams::default().labels("app=web")).await?.items;
            let has_more = |pod: &Pod| {
                let limit =
                    || super::status_of(pod, "mesh")?.resources.as_ref()?.limits.as_ref()?.get("memory").cloned();
                let limit = limit().and_then(|limit| limit.0.parse::<Quantity>().ok());
                limit.is_some_and(|limit| limit.value() > 100 << 20) && is_running(pod, "mesh")
            };
            Ok(pods.iter().any(has_more).then_some(()))
        })
        .await
    })
    .await
}

/// `kubectl` applies what `pillion recommend -o patch` prints: only requests change, and containers stay where they are. A recommendation is
/// sorted by name; native sidecars run in the order of the pod.
pub async fn a_patch_that_is_applied_keeps_the_order_of_containers(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, NATIVE, async |namespace| {
        let small = json!({"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}});
        let init = json!([
            with(shell("prep", "true"), small.clone()),
            with(sidecar("mesh", UNTIL_TERM), small.clone()),
            with(shell("migrate", "true"), small.clone()),
            with(sidecar("logs", UNTIL_TERM), small.clone()),
        ]);
        let containers =
            json!([with(shell("web", UNTIL_TERM), small.clone()), with(shell("app", UNTIL_TERM), small.clone())]);
        create(namespace, init, containers).await?;
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let policy = json!({"updateMode": "Off"});
        let recommenders = json!([{"name": format!("not-{DEFAULT_RECOMMENDER}")}]);
        let spec = json!({"targetRef": target, "updatePolicy": policy, "recommenders": recommenders});
        let api = create_autoscaler(namespace, spec).await?;
        let recommended = ["app", "logs", "mesh", "web"]
            .map(|name| json!({"containerName": name, "target": {"cpu": "20m", "memory": "24Mi"}}));
        let status = json!({"status": {"recommendation": {"containerRecommendations": recommended}}});
        api.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await?;

        let deployments = namespace.api::<Deployment>();
        let before = serde_json::to_value(deployments.get("web").await?.spec)?;
        let patch = pillion_prints(&["recommend", "web", "-n", namespace.name(), "-o", "patch"]).await?;
        let file = std::env::temp_dir().join(format!("{}-patch.yaml", namespace.name()));
        std::fs::write(&file, patch)?;
        let path = file.to_string_lossy();
        // The Deployment was created with its requests by another manager.
        let manager = "--field-manager=pillion-recommend";
        let applied = kubectl(&["apply", "--server-side", manager, "--force-conflicts", "-f", &path]).await;
        std::fs::remove_file(&file)?;
        applied?;
        let after = serde_json::to_value(deployments.get("web").await?.spec)?;
        let mut expected = before;
        for (list, sized) in [("containers", vec![0, 1]), ("initContainers", vec![1, 3])] {
            for place in sized {
                expected["template"]["spec"][list][place]["resources"]["requests"] =
                    json!({"cpu": "20m", "memory": "24Mi"});
            }
        }
        ensure!(after == expected, "the Deployment is\n{after:#}\nand should be\n{expected:#}");
        Ok(())
    })
    .await
}

/// Usage comes straight from the kubelet, whose certificate is checked, to an account that may read `nodes/metrics` and nothing else:
/// app and native sidecar are sampled, recommended for and resized. Only a cluster whose kubelets listen has this.
pub async fn a_native_sidecar_is_sized_by_what_its_kubelet_reports(namespace: &Namespace) -> anyhow::Result<()> {
    let gates = Gates::default().with(&NATIVE.parse()?);
    let kubelets = kubelet_reader(namespace).await?;
    let adjust = |mut config: Config| {
        config.rightsizing.recommender_interval = Duration::from_secs(2);
        config.rightsizing.updater_interval = Duration::from_secs(2);
        config.rightsizing.usage = UsageSource::Kubelets(Box::new(kubelets.clone()));
        Config {
            gates,
            parts: vec![ControllerName::Webhook, ControllerName::Recommender, ControllerName::Updater],
            ..config
        }
    };
    managed_with(namespace, adjust, async |namespace| {
        let before = deploy(namespace).await?;
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let spec = json!({"targetRef": target, "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1}});
        let api = create_autoscaler(namespace, spec).await?;
        let name = before.metadata.name.clone().context("a pod has a name")?;
        let is_resized =
            |pod: &Pod| ["app", "mesh"].iter().all(|container| actual(pod, container).is_some_and(|cpu| cpu != "10m"));
        let resized = namespace.wait_for_pod(&name, "resized", is_resized).await?;
        ensure!(restarts(&resized, "mesh") == Some(0) && restarts(&resized, "app") == Some(0), "something restarted");
        ensure!(request(&resized, "setup").as_deref() == Some("10m"), "a plain init container was resized");
        let status = api.get("web").await?.data["status"].take();
        let recommended = status["recommendation"]["containerRecommendations"].as_array().cloned().unwrap_or_default();
        let names: Vec<&str> = recommended.iter().filter_map(|it| it["containerName"].as_str()).collect();
        ensure!(names == ["app", "mesh"], "{names:?}");
        Ok(())
    })
    .await?;
    let roles: Api<ClusterRole> = Api::all(namespace.client());
    roles.delete(namespace.name(), &DeleteParams::default()).await?;
    let bindings: Api<ClusterRoleBinding> = Api::all(namespace.client());
    bindings.delete(namespace.name(), &DeleteParams::default()).await?;
    Ok(())
}

/// How an account reaches kubelets that has the right to `get` of `nodes/metrics`, and no other.
async fn kubelet_reader(namespace: &Namespace) -> anyhow::Result<kube::Config> {
    let name = namespace.name();
    namespace.create::<ServiceAccount>(json!({"metadata": {"name": "reader"}})).await?;
    let rule = json!({"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]});
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": name}, "rules": [rule]}))?;
    Api::all(namespace.client()).create(&PostParams::default(), &role).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": name}]
    }))?;
    Api::all(namespace.client()).create(&PostParams::default(), &binding).await?;
    namespace.cluster().config_of(name, "reader").await
}

/// Runs a scenario beside a manager that updates pods and sizes new ones. Nobody recommends: the scenario does.
async fn managed(
    namespace: &Namespace,
    gates: &str,
    scenario: impl AsyncFnOnce(&Namespace) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let gates = Gates::default().with(&gates.parse()?);
    let adjust = |mut config: Config| {
        config.rightsizing.updater_interval = Duration::from_secs(2);
        Config { gates, parts: vec![ControllerName::Webhook, ControllerName::Updater], ..config }
    };
    managed_with(namespace, adjust, scenario).await
}

async fn create_autoscaler(namespace: &Namespace, spec: Value) -> anyhow::Result<Api<DynamicObject>> {
    let api: Api<DynamicObject> = Api::namespaced_with(namespace.client(), namespace.name(), &autoscalers());
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}, "spec": spec
    }))?;
    wait::until("an API server that serves autoscalers", async || {
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => Ok(Some(())),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Some(())),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    Ok(api)
}

/// An autoscaler that recommends so much CPU, and neither more nor less. Running pods are updated only when new ones are known to be sized.
async fn recommend(
    namespace: &Namespace,
    running: &Pod,
    containers: &[&str],
    cpu: &str,
    mode: &str,
) -> anyhow::Result<()> {
    let spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "Initial", "minReplicas": 1},
        "recommenders": [{"name": format!("not-{DEFAULT_RECOMMENDER}")}]
    });
    let api = create_autoscaler(namespace, spec).await?;
    let amount = json!({"cpu": cpu});
    let recommended: Vec<Value> = containers
        .iter()
        .map(|name| json!({"containerName": name, "target": amount, "lowerBound": amount, "upperBound": amount}))
        .collect();
    let status = json!({"status": {"recommendation": {"containerRecommendations": recommended}}});
    api.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await?;
    let mut new = running.clone();
    new.metadata.name = Some("try".to_owned());
    (new.metadata.uid, new.metadata.resource_version, new.status) = (None, None, None);
    if let Some(spec) = &mut new.spec {
        spec.node_name = None;
    }
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("a new pod that is sized", async || {
        let created = namespace.api::<Pod>().create(&dry_run, &new).await?;
        Ok((request(&created, "app").as_deref() == Some(cpu)).then_some(()))
    })
    .await?;
    let mode = json!({"spec": {"updatePolicy": {"updateMode": mode}}});
    api.patch("web", &PatchParams::default(), &Patch::Merge(mode)).await?;
    Ok(())
}

/// A Deployment with one pod, whose containers request 10m of CPU. Gives the pod, running.
async fn deploy(namespace: &Namespace) -> anyhow::Result<Pod> {
    let small = json!({"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}});
    let init = json!([with(shell("setup", "true"), small.clone()), with(sidecar("mesh", UNTIL_TERM), small.clone())]);
    create(namespace, init, json!([with(shell("app", UNTIL_TERM), small)])).await?;
    running(namespace, |_| true).await
}

async fn create(namespace: &Namespace, init_containers: Value, containers: Value) -> anyhow::Result<()> {
    let spec = json!({"terminationGracePeriodSeconds": 2, "initContainers": init_containers, "containers": containers});
    namespace
        .create::<Deployment>(json!({
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec}
            }
        }))
        .await?;
    Ok(())
}

/// The pod that took the place of another one.
async fn successor(namespace: &Namespace, before: &Pod) -> anyhow::Result<Pod> {
    running(namespace, |pod| pod.metadata.uid != before.metadata.uid).await
}

async fn running(namespace: &Namespace, is_meant: impl Fn(&Pod) -> bool) -> anyhow::Result<Pod> {
    wait::until("a pod that runs", async || {
        let pods = namespace.api::<Pod>().list(&ListParams::default().labels("app=web")).await?.items;
        let is_running =
            |pod: &Pod| pod.metadata.deletion_timestamp.is_none() && is_running(pod, "app") && is_running(pod, "mesh");
        Ok(pods.into_iter().find(|pod| is_running(pod) && is_meant(pod)))
    })
    .await
}

/// The CPU that the spec of a container requests.
fn request(pod: &Pod, name: &str) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let container: &Container = all.find(|container| container.name == name)?;
    container.resources.as_ref()?.requests.as_ref()?.get("cpu").map(|cpu| cpu.0.clone())
}

/// The CPU that the kubelet says a container has.
fn actual(pod: &Pod, name: &str) -> Option<String> {
    let resources = super::status_of(pod, name)?.resources.as_ref()?;
    resources.requests.as_ref()?.get("cpu").map(|cpu| cpu.0.clone())
}
