//! Rollouts of SidecarSets: running pods are updated in place, and new pods get the revision that the rollout says.

mod commands;
mod quota;
mod trouble;

pub use commands::*;
pub use quota::*;
pub use trouble::*;

use anyhow::ensure;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use pillion_cluster::image::{PAUSE, SHELL};
use serde_json::{Value, json};

use super::custom_resources::{self, sidecarsets};
use super::managed::{home, is_injected, managed};
use super::{is_ready, restarts, with};
use crate::{Namespace, wait};

/// Both images have this program, so that only the image's name changes.
fn sleeper(name: &str) -> Value {
    json!({"name": name, "image": SHELL, "imagePullPolicy": "Never", "command": ["/bin/sleep", "3600"]})
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"mesh": "on"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [sleeper("main")]},
    })
}

/// Pods with the first image of a set whose spec has `more`.
async fn rolled_out(namespace: &Namespace, pods: i32, more: Value) -> anyhow::Result<()> {
    let spec = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
        "selector": {"matchLabels": {"mesh": "on"}}, "containers": [sleeper("proxy")],
    });
    let set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": namespace.name()},
        "spec": with(spec, more),
    });
    custom_resources::create(namespace, &set).await?;
    is_injected(namespace, &template()).await?;
    deploy(namespace, "web", pods).await?;
    status_has(namespace, json!({"matchedPods": pods, "updatedReadyPods": pods})).await
}

async fn deploy(namespace: &Namespace, name: &str, pods: i32) -> anyhow::Result<()> {
    let mut template = template();
    template["metadata"]["labels"]["of"] = json!(name);
    let spec = json!({"replicas": pods, "selector": {"matchLabels": {"of": name}}, "template": template});
    namespace.create::<Deployment>(json!({"metadata": {"name": name}, "spec": spec})).await?;
    Ok(())
}

/// Waits until the status of the set has these fields, and is about the set as it is.
async fn status_has(namespace: &Namespace, fields: Value) -> anyhow::Result<()> {
    wait::until(&format!("a status with {fields}"), async || {
        let set = sidecarsets(namespace.client()).get(namespace.name()).await?;
        let status = &set.data["status"];
        let is_current = status["observedGeneration"].as_i64() == set.metadata.generation;
        let has = fields.as_object().is_some_and(|fields| fields.iter().all(|(key, value)| status[key] == *value));
        Ok((is_current && has).then_some(()))
    })
    .await
}

/// Waits until a condition of the set has this reason, and returns its message.
async fn condition_is(namespace: &Namespace, condition_type: &str, reason: &str) -> anyhow::Result<String> {
    wait::until(&format!("{condition_type} {reason}"), async || {
        let set = sidecarsets(namespace.client()).get(namespace.name()).await?;
        let status = &set.data["status"];
        let is_current = status["observedGeneration"].as_i64() == set.metadata.generation;
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|it| it["type"] == condition_type && it["reason"] == reason);
        Ok(found.filter(|_| is_current).map(|found| found["message"].as_str().unwrap_or_default().to_owned()))
    })
    .await
}

/// Changes the set with a merge patch. A webhook that has just been registered may not be reachable yet.
async fn change(namespace: &Namespace, spec: Value) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    sidecarsets(namespace.client()).patch(namespace.name(), &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn set_image(namespace: &Namespace, image: &str) -> anyhow::Result<()> {
    change(namespace, json!({"containers": [with(sleeper("proxy"), json!({"image": image}))]})).await
}

async fn pods(namespace: &Namespace) -> anyhow::Result<Vec<Pod>> {
    let mut pods = namespace.api::<Pod>().list(&ListParams::default()).await?.items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(pods)
}

async fn with_image(namespace: &Namespace, image: &str) -> anyhow::Result<usize> {
    let has = |pod: &&Pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.into_iter().any(|it| it.name == "proxy" && it.image.as_deref() == Some(image))
    };
    Ok(pods(namespace).await?.iter().filter(has).count())
}

/// Every sidecar gets the new image in place; no pod is recreated, and no app is restarted.
pub async fn a_new_image_restarts_the_sidecars_and_nothing_else(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 3, json!({"updateStrategy": {"maxUnavailable": 2}})).await?;
        let uids = |pods: &[Pod]| pods.iter().map(|pod| pod.metadata.uid.clone()).collect::<Vec<_>>();
        let before = uids(&pods(namespace).await?);
        set_image(namespace, PAUSE).await?;
        status_has(namespace, json!({"updatedPods": 3, "updatedReadyPods": 3})).await?;
        let after = pods(namespace).await?;
        ensure!(uids(&after) == before, "a pod was recreated");
        for pod in &after {
            let counts = (restarts(pod, "proxy"), restarts(pod, "main"));
            ensure!(is_ready(pod) && counts == (Some(1), Some(0)), "restarts are {counts:?}");
        }
        Ok(())
    })
    .await
}

/// A partition keeps as many pods on the old revision as it says, until it is lowered.
pub async fn a_partition_keeps_pods_on_the_old_revision(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 3, json!({"updateStrategy": {"partition": 2, "maxUnavailable": 3}})).await?;
        set_image(namespace, PAUSE).await?;
        status_has(namespace, json!({"updatedPods": 1, "updatedReadyPods": 1})).await?;
        let old = with_image(namespace, SHELL).await?;
        ensure!(old == 2, "{old} pods have the old image");
        change(namespace, json!({"updateStrategy": {"partition": 0}})).await?;
        status_has(namespace, json!({"updatedPods": 3, "updatedReadyPods": 3})).await
    })
    .await
}

/// Native sidecars are updated in place as well, and only they restart.
pub async fn a_new_image_restarts_native_sidecars_and_nothing_else(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        let native = |image: &str| json!([with(sleeper("proxy"), json!({"restartPolicy": "Always", "image": image}))]);
        rolled_out(namespace, 2, json!({"containers": null, "initContainers": native(SHELL)})).await?;
        change(namespace, json!({"initContainers": native(PAUSE)})).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        for pod in pods(namespace).await? {
            let counts = (restarts(&pod, "proxy"), restarts(&pod, "main"));
            ensure!(is_ready(&pod) && counts == (Some(1), Some(0)), "restarts are {counts:?}");
        }
        Ok(())
    })
    .await
}

/// `paused`, `NotUpdate`, `selector`, `priorityStrategy` and `scatterStrategy`, one after the other over the same pods.
pub async fn the_strategy_says_which_pods_are_updated(namespace: &Namespace) -> anyhow::Result<()> {
    let images = async |namespace: &Namespace, of: &str| -> anyhow::Result<(usize, usize)> {
        let mut counts = (0, 0);
        for pod in pods(namespace).await? {
            let is_of = pod.metadata.labels.iter().flatten().any(|(key, value)| key == "of" && value == of);
            let proxy = pod.spec.iter().flat_map(|spec| &spec.containers).find(|container| container.name == "proxy");
            match proxy.and_then(|proxy| proxy.image.as_deref()).filter(|_| is_of) {
                Some(SHELL) => counts.0 += 1,
                Some(PAUSE) => counts.1 += 1,
                _ => {}
            }
        }
        Ok(counts)
    };
    let strategy = |strategy: Value| {
        // A merge patch: what is not named would stay.
        let nothing = json!({
            "type": "RollingUpdate", "paused": null, "partition": null, "selector": null, "priorityStrategy": null,
            "scatterStrategy": null, "maxUnavailable": 5,
        });
        json!({"updateStrategy": with(nothing, strategy)})
    };
    managed(namespace, async |namespace| {
        rolled_out(namespace, 2, json!({"updateStrategy": {"paused": true}})).await?;
        deploy(namespace, "green", 2).await?;
        status_has(namespace, json!({"matchedPods": 4, "updatedReadyPods": 4})).await?;
        set_image(namespace, PAUSE).await?;
        condition_is(namespace, "Blocked", "Paused").await?;
        change(namespace, strategy(json!({"type": "NotUpdate"}))).await?;
        status_has(namespace, json!({"matchedPods": 4, "updatedPods": 0})).await?;

        let green = json!({"matchLabels": {"of": "green"}});
        change(namespace, strategy(json!({"selector": green}))).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let counts = (images(namespace, "web").await?, images(namespace, "green").await?);
        ensure!(counts == ((2, 0), (0, 2)), "the selector has updated {counts:?}");
        change(namespace, strategy(json!({}))).await?;
        status_has(namespace, json!({"updatedPods": 4, "updatedReadyPods": 4})).await?;

        // Back to the first image: those of the greater weight first, and the partition keeps the others.
        let weights = json!({"weightPriority": [{"weight": 9, "matchSelector": green}]});
        change(namespace, strategy(json!({"partition": 2, "priorityStrategy": weights}))).await?;
        set_image(namespace, SHELL).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let counts = (images(namespace, "web").await?, images(namespace, "green").await?);
        ensure!(counts == ((0, 2), (2, 0)), "by priority {counts:?} were updated");
        change(namespace, strategy(json!({}))).await?;
        status_has(namespace, json!({"updatedPods": 4, "updatedReadyPods": 4})).await?;

        // Spread: of two that are updated one is green.
        let scatter = json!([{"key": "of", "value": "green"}]);
        change(namespace, strategy(json!({"partition": "50%", "scatterStrategy": scatter}))).await?;
        set_image(namespace, PAUSE).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let counts = (images(namespace, "web").await?, images(namespace, "green").await?);
        ensure!(counts == ((1, 1), (1, 1)), "spread over the pods {counts:?} were updated");
        Ok(())
    })
    .await
}

/// Fifteen contents leave the ten newest revisions, and the one that a pod still has.
pub async fn fifteen_changes_leave_the_newest_revisions(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({"updateStrategy": {"type": "NotUpdate"}})).await?;
        for i in 2..=15 {
            set_image(namespace, &format!("mesh:{i}")).await?;
            status_has(namespace, json!({"matchedPods": 1, "updatedPods": 0})).await?;
        }
        let revisions: Api<ControllerRevision> = Api::namespaced(namespace.client(), &home(namespace));
        let kept: Vec<i64> = vec![1, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        wait::until("ten revisions", async || {
            let mut numbers: Vec<i64> =
                revisions.list(&ListParams::default()).await?.iter().map(|revision| revision.revision).collect();
            numbers.sort_unstable();
            Ok((numbers == kept).then_some(()))
        })
        .await
    })
    .await
}

/// A canary stands in for its set where it matches, and each is rolled out alone.
pub async fn a_canary_stands_in_for_its_set(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({})).await?;
        let canary = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": format!("{}-canary", namespace.name()), "annotations": {
                "apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": namespace.name(),
            }},
            "spec": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
                "selector": {"matchLabels": {"mesh": "on", "of": "canary"}},
                "containers": [with(sleeper("proxy"), json!({"image": PAUSE}))], "updateStrategy": {"type": "NotUpdate"},
            },
        });
        let sets = sidecarsets(namespace.client());
        sets.create(&PostParams::default(), &serde_json::from_value(canary)?).await?;
        let outcome = async {
            deploy(namespace, "canary", 2).await?;
            wait::until("pods of the canary", async || {
                Ok((with_image(namespace, PAUSE).await? == 2 && with_image(namespace, SHELL).await? == 1).then_some(()))
            })
            .await?;
            status_has(namespace, json!({"matchedPods": 1, "updatedReadyPods": 1})).await
        }
        .await;
        sets.delete(&format!("{}-canary", namespace.name()), &DeleteParams::default()).await?;
        outcome
    })
    .await
}

/// By chance: all of the pods for a share of all, and none for a share of none.
pub async fn new_pods_get_the_pinned_revision_by_share(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({"updateStrategy": {"partition": "100%"}})).await?;
        pin(namespace, "Partial").await?;
        deploy(namespace, "old", 2).await?;
        status_has(namespace, json!({"matchedPods": 3, "updatedPods": 0, "readyPods": 3})).await?;
        change(namespace, json!({"updateStrategy": {"partition": "0%", "paused": null}})).await?;
        status_has(namespace, json!({"updatedPods": 3, "updatedReadyPods": 3})).await?;
        deploy(namespace, "new", 2).await?;
        status_has(namespace, json!({"matchedPods": 5, "updatedReadyPods": 5})).await?;
        let restarted: Vec<_> = pods(namespace).await?.iter().map(|pod| restarts(pod, "proxy")).collect();
        let begun = restarted.iter().filter(|restarts| **restarts == Some(0)).count();
        ensure!(begun == 2, "{begun} pods began with the latest revision");
        Ok(())
    })
    .await
}

/// A Deployment that is rolled out in the middle of a partitioned rollout keeps the partition, though it creates successors first.
pub async fn a_deployment_rolled_out_in_the_middle_keeps_the_partition(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 4, json!({"updateStrategy": {"partition": 2, "maxUnavailable": 4}})).await?;
        let revisions: Api<ControllerRevision> = Api::namespaced(namespace.client(), &home(namespace));
        let first = revisions.list(&ListParams::default()).await?.items.into_iter().next();
        let first = first.and_then(|first| first.metadata.name);
        let containers = json!([with(sleeper("proxy"), json!({"image": PAUSE}))]);
        change(namespace, json!({"containers": containers, "injectStrategy": {"revision": first}})).await?;
        status_has(namespace, json!({"matchedPods": 4, "updatedReadyPods": 2})).await?;
        let before: Vec<_> = pods(namespace).await?.into_iter().filter_map(|pod| pod.metadata.uid).collect();
        let again = json!({"spec": {"template": {"metadata": {"annotations": {"restarted": "1"}}}}});
        namespace.api::<Deployment>().patch("web", &PatchParams::default(), &Patch::Merge(again)).await?;
        wait::until("other pods", async || {
            let now = pods(namespace).await?;
            let are_new = now.len() == 4
                && now.iter().all(|pod| pod.metadata.uid.as_ref().is_some_and(|uid| !before.contains(uid)));
            Ok(are_new.then_some(()))
        })
        .await?;
        status_has(namespace, json!({"matchedPods": 4, "updatedPods": 2, "readyPods": 4})).await?;
        let counts = (with_image(namespace, SHELL).await?, with_image(namespace, PAUSE).await?);
        ensure!(counts == (2, 2), "{counts:?} pods have the pinned and the latest image");
        Ok(())
    })
    .await
}

/// While a revision is pinned with `Always`, every new pod begins with it.
pub async fn new_pods_get_the_pinned_revision(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({"updateStrategy": {"partition": "100%"}})).await?;
        pin(namespace, "Always").await?;
        deploy(namespace, "new", 2).await?;
        status_has(namespace, json!({"matchedPods": 3, "updatedPods": 0, "readyPods": 3})).await?;
        let old = with_image(namespace, SHELL).await?;
        ensure!(old == 3, "{old} of 3 pods have the pinned image");
        Ok(())
    })
    .await
}

/// With `Quota` exactly as many pods have the pinned revision as the partition keeps.
pub async fn new_pods_get_the_pinned_revision_by_quota(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({"updateStrategy": {"partition": 3}})).await?;
        pin(namespace, "Quota").await?;
        deploy(namespace, "new", 5).await?;
        status_has(namespace, json!({"matchedPods": 6, "updatedPods": 3, "readyPods": 6})).await?;
        let counts = (with_image(namespace, SHELL).await?, with_image(namespace, PAUSE).await?);
        ensure!(counts == (3, 3), "{counts:?} pods have the pinned and the latest image");
        Ok(())
    })
    .await
}

/// Pins the revision that there is, changes the image, and waits until both is in force.
async fn pin(namespace: &Namespace, policy: &str) -> anyhow::Result<()> {
    let revisions: Api<ControllerRevision> = Api::namespaced(namespace.client(), &home(namespace));
    let first = revisions.list(&ListParams::default()).await?.items.into_iter().next();
    let revision = json!({"revisionName": first.and_then(|first| first.metadata.name), "policy": policy});
    let containers = json!([with(sleeper("proxy"), json!({"image": PAUSE}))]);
    change(namespace, json!({"containers": containers, "injectionStrategy": {"revision": revision}})).await?;
    status_has(namespace, json!({"matchedPods": 1, "updatedPods": 0})).await
}
