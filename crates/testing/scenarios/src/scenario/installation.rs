//! Pillion as users install it: `pillion install`, Helm, and what either leaves behind. For the real cluster: the manager runs in pods.

mod access;
pub(super) mod commands;
mod take_over;

pub use take_over::*;

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Discovery, verbs};
use pillion_api::names;
use pillion_manager::{ControllerName, KRUISE_MUTATING};
use serde_json::{Value, json};

use super::custom_resources;
use super::{A_WHILE, UNTIL_TERM, is_ready, job_is, shell, sidecar};
use crate::{Namespace, wait};
use commands::{helm, kubectl, pillion, pillion_prints};

pub(super) const HOME: &str = "pillion-system";
const DEFINITIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/crds");
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/helm/pillion");

/// Two replicas, every kind of workload is injected, the account may do what it must and nothing else, and no trace is left.
pub async fn pillion_installs_and_uninstalls(namespace: &Namespace) -> anyhow::Result<()> {
    let _mine = namespace.cluster().alone().await;
    clear(namespace).await?;
    let before = everything(namespace).await?;

    let said = pillion(&["install"]).await?;
    ensure!(said.contains("a pod was admitted through the manager"), "it said {said}");
    let manager = managers(namespace).get("pillion-manager").await?;
    let ready = manager.status.and_then(|status| status.ready_replicas);
    ensure!(ready == Some(2), "{ready:?} replicas are ready");
    access::is_what_is_needed_and_nothing_else(&namespace.client()).await?;
    access::is_exactly_what_is_listed(namespace).await?;
    injects_every_workload(namespace).await?;
    answers_questions(namespace).await?;

    let said = pillion(&["install"]).await?;
    ensure!(
        !said.contains("created") && !said.contains("configured"),
        "a second installation changed something: {said}"
    );
    // Definitions that are applied by themselves leave the conversion that the manager has registered.
    kubectl(&["apply", "--server-side", "--filename", DEFINITIONS]).await?;

    comes_back_with_sets_of_an_older_version(namespace).await?;
    pillion(&["uninstall"]).await?;
    stays_usable(namespace).await?;

    let kubelets = "--manager-arg=--usage-source=kubelets";
    pillion(&["install", "--separate", "--feature-gates=SidecarField=true", kubelets]).await?;
    access::of_parts_is_what_each_needs(&namespace.client()).await?;
    every_part_leads_with_its_own_account(namespace).await?;
    keeps_the_lease_of_admission(namespace).await?;
    ends_marked_sidecars(namespace).await?;
    pillion(&["uninstall", "--all", "--yes"]).await?;
    is_as_before(namespace, &before).await
}

/// `pillion check` finds nothing to be done, and `pillion why` and `pillion preview` read the cluster and write nothing.
async fn answers_questions(namespace: &Namespace) -> anyhow::Result<()> {
    let found = pillion_prints(&["check"]).await?;
    ensure!(found.contains("are synced") && !found.contains("is not ready"), "it found {found}");
    let sets = custom_resources::sidecarsets(namespace.client());
    let before = sets.get(namespace.name()).await?.resource_version();
    let why = pillion_prints(&["why", "deploy/deployment", "-n", namespace.name()]).await?;
    ensure!(why.contains(namespace.name()) && why.contains("proxy"), "it said {why}");
    let mut newer = set(namespace);
    newer["spec"]["initContainers"][0]["image"] = json!("another:2");
    let file = std::env::temp_dir().join(format!("{}.json", namespace.name()));
    std::fs::write(&file, newer.to_string())?;
    let preview = pillion_prints(&["preview", "-f", &file.to_string_lossy()]).await;
    std::fs::remove_file(&file)?;
    let preview = preview?;
    for name in ["deployment", "stateful-set", "daemon-set"] {
        ensure!(preview.contains(name), "{name} is not in {preview}");
    }
    ensure!(sets.get(namespace.name()).await?.resource_version() == before, "the set was written");
    Ok(())
}

/// Sidecars that are marked as Strict end by the wrapper of the image, and by the account that may write phases.
async fn ends_marked_sidecars(namespace: &Namespace) -> anyhow::Result<()> {
    // The wrapper cannot run hooks.
    for (name, more) in [("wrapped", json!({})), ("by-phase", super::pre_stop("true"))] {
        let mut job = workload("job", A_WHILE, json!({"backoffLimit": 0}));
        job["metadata"]["name"] = json!(name);
        let template = &mut job["spec"]["template"];
        template["metadata"] =
            json!({"annotations": {"pillion.dev/sidecars": "log", "pillion.dev/sidecar-mode": "Strict"}});
        let main = template["spec"]["containers"][0].take();
        template["spec"]["containers"] = json!([main, super::with(shell("log", UNTIL_TERM), more)]);
        namespace.create::<Job>(job).await?;
    }
    for name in ["wrapped", "by-phase"] {
        job_is(namespace, name, "Complete").await?;
    }
    Ok(())
}

/// As long as there is a VerticalPodAutoscaler, the webhooks have a Lease in kube-system.
async fn keeps_the_lease_of_admission(namespace: &Namespace) -> anyhow::Result<()> {
    let kind = GroupVersionKind::gvk(names::AUTOSCALING_GROUP, "v1", "VerticalPodAutoscaler");
    let autoscalers: Api<DynamicObject> =
        Api::namespaced_with(namespace.client(), namespace.name(), &ApiResource::from_gvk(&kind));
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment"});
    let autoscaler = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "deployment"},
        "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Off"}},
    });
    autoscalers.create(&PostParams::default(), &serde_json::from_value(autoscaler)?).await?;
    let leases: Api<Lease> = Api::namespaced(namespace.client(), "kube-system");
    wait::until("the Lease of the admission controller", async || {
        Ok(leases.get_opt(names::VPA_ADMISSION_LEASE).await?.map(drop))
    })
    .await
}

/// A part that lacks a right does not get as far as its Lease.
async fn every_part_leads_with_its_own_account(namespace: &Namespace) -> anyhow::Result<()> {
    let leases: Api<Lease> = Api::namespaced(namespace.client(), HOME);
    for part in ControllerName::INSTALLED {
        let program = if part == ControllerName::Webhook { "manager" } else { part.name() };
        wait::until(&format!("a leader of {part}"), async || {
            let holder = leases.get_opt(part.lease()).await?.and_then(|lease| lease.spec?.holder_identity);
            Ok(holder.filter(|holder| holder.starts_with(&format!("pillion-{program}-"))).map(drop))
        })
        .await?;
    }
    Ok(())
}

/// The same with Helm. What it uninstalls stays usable without the conversion webhook.
pub async fn helm_installs_and_uninstalls(namespace: &Namespace) -> anyhow::Result<()> {
    let _mine = namespace.cluster().alone().await;
    clear(namespace).await?;
    let release = ["pillion", CHART, "--namespace", HOME, "--wait", "--timeout", "3m"];
    helm(&[&["install", "--create-namespace"][..], &release].concat()).await?;
    custom_resources::create(namespace, &set(namespace)).await?;
    is_injected(namespace, "on").await?;

    // What the manager has registered survives an upgrade, in which one of its rights goes.
    helm(&[&["upgrade", "--set", "controllers={webhook}"][..], &release].concat()).await?;
    is_injected(namespace, "on").await?;
    let refused = pillion(&["uninstall"]).await.err().context("pillion has uninstalled a release of Helm")?;
    ensure!(format!("{refused:#}").contains("helm uninstall"), "{refused:#}");

    helm(&["uninstall", "pillion", "--namespace", HOME, "--wait", "--timeout", "3m"]).await?;
    stays_usable(namespace).await?;
    clear(namespace).await
}

fn managers(namespace: &Namespace) -> Api<Deployment> {
    Api::namespaced(namespace.client(), HOME)
}

fn set(namespace: &Namespace) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": namespace.name()},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            "selector": {"matchLabels": {"mesh": "on"}}, "initContainers": [sidecar("proxy", UNTIL_TERM)]
        }
    })
}

/// A workload whose pods the set selects.
fn workload(name: &str, line: &str, spec: Value) -> Value {
    let labels = json!({"mesh": "on", "app": name});
    let pod = json!({"terminationGracePeriodSeconds": 1, "containers": [shell("main", line)]});
    let mut spec = super::with(json!({"template": {"metadata": {"labels": labels}, "spec": pod}}), spec);
    if name == "job" {
        spec["template"]["spec"]["restartPolicy"] = json!("Never");
    } else {
        spec["selector"] = json!({"matchLabels": {"app": name}});
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

async fn injects_every_workload(namespace: &Namespace) -> anyhow::Result<()> {
    custom_resources::create(namespace, &set(namespace)).await?;
    is_injected(namespace, "on").await?;
    namespace.create::<Deployment>(workload("deployment", UNTIL_TERM, json!({}))).await?;
    namespace.create::<StatefulSet>(workload("stateful-set", UNTIL_TERM, json!({"serviceName": "none"}))).await?;
    namespace.create::<DaemonSet>(workload("daemon-set", UNTIL_TERM, json!({}))).await?;
    namespace.create::<Job>(workload("job", A_WHILE, json!({"backoffLimit": 0}))).await?;
    job_is(namespace, "job", "Complete").await?;
    for name in ["deployment", "stateful-set", "daemon-set", "job"] {
        let pods = ListParams::default().labels(&format!("app={name}"));
        let is_fine = |pod: &Pod| has_proxy(pod) && (name == "job" || is_ready(pod));
        wait::until(&format!("a pod of the {name} with a sidecar"), async || {
            let pods = namespace.api::<Pod>().list(&pods).await?.items;
            let uninjected: Vec<String> =
                pods.iter().filter(|pod| !has_proxy(pod)).map(kube::ResourceExt::name_any).collect();
            ensure!(uninjected.is_empty(), "pods without a sidecar: {uninjected:?}");
            Ok((!pods.is_empty() && pods.iter().all(is_fine)).then_some(()))
        })
        .await?;
    }
    Ok(())
}

pub(super) fn has_proxy(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    containers.into_iter().any(|container| container.name == "proxy")
}

/// Every replica has seen the set that selects `mesh`: a dry run often enough for all of them to be asked.
pub(super) async fn is_injected(namespace: &Namespace, mesh: &str) -> anyhow::Result<()> {
    let pod = json!({"metadata": {"name": "try", "labels": {"mesh": mesh}}, "spec": {"containers": [shell("main", A_WHILE)]}});
    let pod: Pod = serde_json::from_value(pod)?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("pods that are injected", async || {
        for _ in 0..10 {
            if !has_proxy(&namespace.api::<Pod>().create(&dry_run, &pod).await?) {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
}

/// All replicas are down, and SidecarSets must be converted before any of them can list them.
async fn comes_back_with_sets_of_an_older_version(namespace: &Namespace) -> anyhow::Result<()> {
    store_as(namespace, "v1alpha1").await?;
    // An update without a change stores it in that version, some moments after the API server has seen the definition.
    let sets = custom_resources::sidecarsets(namespace.client());
    let mut written = 0;
    wait::until("an update", async || {
        let set = sets.get(namespace.name()).await?;
        not_found_is_fine(sets.replace(namespace.name(), &PostParams::default(), &set).await)?;
        written += 1;
        Ok((written > 5).then_some(()))
    })
    .await?;
    let replicas = |number: u32| format!("--replicas={number}");
    let scale =
        async |number| kubectl(&["scale", "deployment/pillion-manager", "--namespace", HOME, &replicas(number)]).await;
    scale(0).await?;
    kubectl(&[
        "wait",
        "pods",
        "--selector=app.kubernetes.io/component=manager",
        "--namespace",
        HOME,
        "--for=delete",
        "--timeout=2m",
    ])
    .await?;
    // The API server now forgets what it has converted.
    store_as(namespace, "v1beta1").await?;
    wait::until("a conversion that fails", async || match sets.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.message.contains("conversion webhook") => Ok(Some(())),
        _ => Ok(None),
    })
    .await?;
    scale(2).await?;
    kubectl(&["rollout", "status", "deployment/pillion-manager", "--namespace", HOME, "--timeout=2m"]).await?;
    is_injected(namespace, "on").await
}

/// Changes the version in which SidecarSets are stored from now on.
async fn store_as(namespace: &Namespace, stored: &str) -> anyhow::Result<()> {
    let definitions = custom_resources::definitions(namespace.client());
    let definition = definitions.get(custom_resources::NAME).await?;
    let versions = definition.spec.versions.iter().enumerate();
    let changes: Vec<Value> = versions
        .map(|(i, version)| {
            let is_stored = version.name == stored;
            json!({"op": "replace", "path": format!("/spec/versions/{i}/storage"), "value": is_stored})
        })
        .collect();
    kubectl(&["patch", "crd", custom_resources::NAME, "--type=json", "--patch", &json!(changes).to_string()]).await?;
    Ok(())
}

/// kubectl reads and edits SidecarSets, in both versions, though nobody serves webhooks.
async fn stays_usable(namespace: &Namespace) -> anyhow::Result<()> {
    ensure!(managers(namespace).get_opt("pillion-manager").await?.is_none(), "the manager is still there");
    let definition = custom_resources::definitions(namespace.client()).get(custom_resources::NAME).await?;
    let strategy = definition.spec.conversion.map(|conversion| conversion.strategy);
    ensure!(strategy.as_deref() == Some("None"), "conversion is {strategy:?}");
    for (version, image) in [("v1alpha1", "one"), ("v1beta1", "two")] {
        let resource = format!("sidecarsets.{version}.apps.kruise.io");
        let name = namespace.name();
        let edit = json!([{"op": "replace", "path": "/spec/initContainers/0/image", "value": image}]).to_string();
        kubectl(&["patch", &resource, name, "--type=json", "--patch", &edit]).await?;
        let path = "jsonpath={.spec.initContainers[0].image}";
        let read = kubectl(&["get", &resource, name, "--output", path]).await?;
        ensure!(read == image, "{resource} has image {read:?} instead of {image:?}");
    }
    Ok(())
}

/// Deletes what other scenarios have left: the definition of SidecarSet is there once in a cluster.
pub(super) async fn clear(namespace: &Namespace) -> anyhow::Result<()> {
    let (definitions, delete) = (custom_resources::definitions(namespace.client()), DeleteParams::default());
    let namespaces: Api<KubeNamespace> = Api::all(namespace.client());
    wait::until("the end of what was there", async || {
        let mut is_gone = true;
        let of_autoscalers = ["verticalpodautoscalers", "verticalpodautoscalercheckpoints"];
        let of_autoscalers = of_autoscalers.map(|plural| format!("{plural}.{}", names::AUTOSCALING_GROUP));
        for name in of_autoscalers.iter().map(String::as_str).chain([custom_resources::NAME]) {
            if definitions.get_opt(name).await?.is_some() {
                is_gone = false;
                not_found_is_fine(definitions.delete(name, &delete).await)?;
            }
        }
        for name in [HOME, "kruise-system"] {
            if namespaces.get_opt(name).await?.is_some() {
                is_gone = false;
                not_found_is_fine(namespaces.delete(name, &delete).await)?;
            }
        }
        Ok(is_gone.then_some(()))
    })
    .await?;
    // Now that no manager runs, none of it comes back.
    let configurations = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    kubectl(&["delete", configurations, "pillion", KRUISE_MUTATING, "--ignore-not-found"]).await?;
    kubectl(&["delete", "clusterroles,clusterrolebindings", "--selector=app.kubernetes.io/name=pillion"])
        .await
        .map(drop)
}

fn not_found_is_fine<T>(outcome: kube::Result<T>) -> anyhow::Result<()> {
    match outcome {
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// The names of all objects outside the scenario's namespace. Events expire, and nodes renew their Leases.
async fn everything(namespace: &Namespace) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let discovery = Discovery::new(namespace.client()).run().await?;
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST)
                || ["events", "componentstatuses"].contains(&resource.plural.as_str())
            {
                continue;
            }
            let objects: Api<DynamicObject> = Api::all_with(namespace.client(), &resource);
            for object in objects.list_metadata(&ListParams::default()).await? {
                let place = object.namespace().unwrap_or_default();
                if place != namespace.name() && object.name_any() != namespace.name() {
                    names.insert(format!("{}.{} {place}/{}", resource.plural, resource.group, object.name_any()));
                }
            }
        }
    }
    Ok(names)
}

async fn is_as_before(namespace: &Namespace, before: &BTreeSet<String>) -> anyhow::Result<()> {
    let mut left = Vec::new();
    let gone = wait::until("the end of everything that was installed", async || {
        left = everything(namespace).await?.difference(before).cloned().collect();
        Ok(left.is_empty().then_some(()))
    })
    .await;
    gone.with_context(|| format!("still there: {left:?}"))
}
