//! A cluster that OpenKruise has written to is taken over, and given back: no pod restarts, and none is written to.

use std::io::Write as _;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use pillion_api::names;
use pillion_api::sidecarset::{self, crd, hash, hash_without_image, revision};
use serde_json::{Map, Value, json};
use tempfile::NamedTempFile;

use super::super::{UNTIL_TERM, custom_resources, is_ready, restarts, shell, with};
use super::clear;
use super::commands::{kubectl, pillion, pillion_prints};
use crate::{Namespace, wait};

const KRUISE: &str = "kruise-system";

/// OpenKruise has stopped. Without `--take-over` its objects stay its own; with it they are served, as they are. The way back is that of
/// docs/migrate.md.
pub async fn a_cluster_of_open_kruise_is_taken_over(namespace: &Namespace) -> anyhow::Result<()> {
    let _mine = namespace.cluster().alone().await;
    clear(namespace).await?;
    leave_what_open_kruise_leaves(namespace).await?;
    let before = pods(namespace).await?;
    let written = revisions(namespace).await?;
    ensure!(written.len() == 2, "{written:?}");
    let saved = save_definition().await?;

    let refused = pillion(&["install"]).await.err().context("it was installed beside OpenKruise")?;
    ensure!(format!("{refused:#}").contains("--take-over=kruise"), "{refused:#}");
    pillion(&["install", "--take-over=kruise"]).await?;

    let sets = custom_resources::sidecarsets(namespace.client());
    wait::until("a status that counts both pods as updated", async || {
        let status = sets.get(namespace.name()).await?.data["status"].take();
        Ok((status["matchedPods"] == 2 && status["updatedPods"] == 2 && status["readyPods"] == 2).then_some(()))
    })
    .await?;
    are_untouched(namespace, &before).await?;
    for pod in &before {
        let name = pod.name_any();
        let why = pillion_prints(&["why", &name, "-n", namespace.name()]).await?;
        ensure!(why.contains(namespace.name()) && why.contains("proxy"), "why {name}: {why}");
    }
    ensure!(revisions(namespace).await? == written, "there are other revisions now");
    ensure!(has_our_fields(namespace).await?, "the definition is still OpenKruise's");

    let new = json!({"metadata": {"name": "new", "labels": {"app": "web"}}, "spec": {"containers": [shell("main", UNTIL_TERM)]}});
    let new: Pod = namespace.create(new).await?;
    let containers: Vec<String> =
        new.spec.iter().flat_map(|spec| &spec.containers).map(|one| one.name.clone()).collect();
    ensure!(containers == ["proxy", "main"], "a new pod has {containers:?}");
    namespace.api::<Pod>().delete("new", &DeleteParams::default().grace_period(0)).await?;

    pillion(&["uninstall"]).await?;
    let path = saved.path().to_str().context("the path of the saved definition is no text")?;
    kubectl(&["replace", "--filename", path]).await?;
    ensure!(!has_our_fields(namespace).await?, "the definition is not OpenKruise's again");
    kubectl(&["get", "sidecarsets.v1beta1.apps.kruise.io", namespace.name()]).await?;
    ensure!(revisions(namespace).await? == written, "there are other revisions after the way back");
    are_untouched(namespace, &before).await?;
    pillion(&["uninstall", "--all", "--yes"]).await?;
    clear(namespace).await
}

/// Neither restarted nor written to since.
async fn are_untouched(namespace: &Namespace, before: &[Pod]) -> anyhow::Result<()> {
    let after = pods(namespace).await?;
    ensure!(after.len() == 2, "there are {} pods", after.len());
    for (before, after) in before.iter().zip(&after) {
        let name = after.name_any();
        ensure!(before.uid() == after.uid(), "{name} is another pod");
        ensure!(["main", "proxy"].iter().all(|container| restarts(after, container) == Some(0)), "{name} restarted");
        let writers: Vec<&str> = after.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
        ensure!(!writers.iter().any(|writer| writer.contains("pillion")), "{name} was written by {writers:?}");
    }
    Ok(())
}

/// The names of the set's revisions.
async fn revisions(namespace: &Namespace) -> anyhow::Result<Vec<String>> {
    let revisions: Api<ControllerRevision> = Api::namespaced(namespace.client(), KRUISE);
    let of_set = ListParams::default().labels(&format!("{}={}", names::REVISION_OWNER, namespace.name()));
    Ok(revisions.list(&of_set).await?.iter().map(kube::ResourceExt::name_any).collect())
}

/// The definition in a file, as docs/migrate.md saves it.
async fn save_definition() -> anyhow::Result<NamedTempFile> {
    let text = kubectl(&["get", "crd", custom_resources::NAME, "--output", "yaml"]).await?;
    let mut file = NamedTempFile::with_suffix(".yaml")?;
    for line in text.lines().filter(|line| !line.trim_start().starts_with("resourceVersion:")) {
        writeln!(file, "{line}")?;
    }
    Ok(file)
}

async fn has_our_fields(namespace: &Namespace) -> anyhow::Result<bool> {
    let definition = custom_resources::definitions(namespace.client()).get(custom_resources::NAME).await?;
    let mut versions = serde_json::to_value(definition.spec.versions)?;
    let mut versions = versions.as_array_mut().into_iter().flatten();
    Ok(versions.all(|version| injection_strategy(version).is_some_and(|fields| fields.contains_key("repair"))))
}

/// The fields of `spec.injectionStrategy` that a version of the definition has.
fn injection_strategy(version: &mut Value) -> Option<&mut Map<String, Value>> {
    let path = "/schema/openAPIV3Schema/properties/spec/properties/injectionStrategy/properties";
    version.pointer_mut(path)?.as_object_mut()
}

/// Without fields of ours, and with a conversion that nobody serves.
fn definition_of_open_kruise() -> Value {
    let mut definition = crd::sidecarset();
    for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
        if let Some(fields) = injection_strategy(version) {
            fields.retain(|name, _| !["failurePolicy", "repair"].contains(&name.as_str()));
        }
    }
    let service = json!({"namespace": KRUISE, "name": "kruise-webhook-service", "path": "/convert"});
    definition["spec"]["conversion"] = json!({
        "strategy": "Webhook", "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1", "v1beta1"]},
    });
    definition
}

/// Sorted by name, so that they can be compared.
async fn pods(namespace: &Namespace) -> anyhow::Result<Vec<Pod>> {
    let mut pods = wait::until("two pods that are ready", async || {
        let pods = namespace.api::<Pod>().list(&ListParams::default().labels("app=web")).await?.items;
        Ok((pods.len() == 2 && pods.iter().all(is_ready)).then_some(pods))
    })
    .await?;
    pods.sort_by_key(kube::ResourceExt::name_any);
    Ok(pods)
}

/// The definition, a set with its hashes and revisions, pods with its records, a Lease that nobody renews, and a webhook that nobody serves.
async fn leave_what_open_kruise_leaves(namespace: &Namespace) -> anyhow::Result<()> {
    let client = || namespace.client();
    let create = PostParams::default();
    let system: KubeNamespace = serde_json::from_value(json!({"metadata": {"name": KRUISE}}))?;
    Api::all(client()).create(&create, &system).await?;
    let definition = serde_json::from_value(definition_of_open_kruise())?;
    custom_resources::definitions(client()).create(&create, &definition).await?;
    let set = set(namespace)?;
    let created = custom_resources::create(namespace, &set).await?;
    for (number, image) in [(1, Some("proxy:older")), (2, None)] {
        let mut set = set.clone();
        if let Some(image) = image {
            set["spec"]["containers"][0]["image"] = json!(image);
        }
        let mut decoded = sidecarset::decode(set)?;
        decoded.metadata.uid = created.uid();
        let revision: ControllerRevision = serde_json::from_value(revision::new(&decoded, number, KRUISE))?;
        Api::namespaced(client(), KRUISE).create(&create, &revision).await?;
    }
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": injected(&set)});
    namespace.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await?;
    let lease: Lease = serde_json::from_value(json!({"metadata": {"name": "kruise-manager"}, "spec": {
        "holderIdentity": "kruise-controller-manager-0", "leaseDurationSeconds": 3, "renewTime": "2025-12-01T00:00:00.000000Z",
    }}))?;
    Api::namespaced(client(), KRUISE).create(&create, &lease).await?;
    let webhooks: MutatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": "kruise-mutating-webhook-configuration"},
        "webhooks": [{
            "name": "msidecarset.kb.io", "failurePolicy": "Ignore", "sideEffects": "None", "timeoutSeconds": 1,
            "clientConfig": {"service": {"namespace": KRUISE, "name": "kruise-webhook-service"}},
            "rules": [{"apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "resources": ["sidecarsets"], "operations": ["CREATE"]}],
            "admissionReviewVersions": ["v1"],
        }],
    }))?;
    Api::all(client()).create(&create, &webhooks).await?;
    Ok(())
}

/// The SidecarSet as OpenKruise stores it: with its defaults and its hashes.
fn set(namespace: &Namespace) -> anyhow::Result<Value> {
    let proxy = with(
        shell("proxy", UNTIL_TERM),
        json!({
            "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "disabled"},
            "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
        }),
    );
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": namespace.name()},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            "selector": {"matchLabels": {"app": "web"}}, "containers": [proxy],
            "injectionStrategy": {}, "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "partition": 0, "maxUnavailable": 1},
        },
    });
    let decoded = sidecarset::decode(set.clone())?;
    set["metadata"]["annotations"] = json!({
        "kruise.io/sidecarset-hash": hash(&decoded),
        "kruise.io/sidecarset-hash-without-image": hash_without_image(&decoded),
    });
    Ok(set)
}

/// The template of a pod as OpenKruise's webhook leaves it.
fn injected(set: &Value) -> Value {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    let record = |key: &str| {
        json!({name: {
            "updateTimestamp": "2025-12-01T00:00:00Z", "hash": set["metadata"]["annotations"][key],
            "sidecarSetName": name, "sidecarList": ["proxy"],
        }})
    };
    let annotations = json!({
        "kruise.io/sidecarset-hash": record("kruise.io/sidecarset-hash").to_string(),
        "kruise.io/sidecarset-hash-without-image": record("kruise.io/sidecarset-hash-without-image").to_string(),
        "kruise.io/sidecarset-injected-list": name,
    });
    let proxy = with(shell("proxy", UNTIL_TERM), json!({"env": [{"name": "IS_INJECTED", "value": "true"}]}));
    json!({"metadata": {"labels": {"app": "web"}, "annotations": annotations}, "spec": {
        "terminationGracePeriodSeconds": 1, "containers": [proxy, shell("main", UNTIL_TERM)],
    }})
}
