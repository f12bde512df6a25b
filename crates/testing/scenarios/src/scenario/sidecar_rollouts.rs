//! Rollouts of SidecarSets: running pods are updated in place, and new pods get the revision that the rollout says.

mod commands;
mod quota;
mod trouble;

pub use commands::*;
pub use quota::*;
pub use trouble::*;

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use pillion_cluster::image::{PAUSE, SHELL, SHELL_TWO};
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

/// Every sidecar gets the new image in place; no pod is recreated, no app is restarted, and no more pods are unavailable at a time than
/// allowed. The first new image is the one before under another name, which the runtime does not report.
pub async fn a_new_image_restarts_the_sidecars_and_nothing_else(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        // A pod is seen to be unavailable until the new container was probed.
        let probe = json!({"exec": {"command": ["/bin/sleep", "0"]}, "initialDelaySeconds": 1, "periodSeconds": 1});
        let containers = |image: &str| {
            let probed = json!({"image": image, "readinessProbe": probe});
            json!({"containers": [with(sleeper("proxy"), probed)]})
        };
        let strategy = json!({"updateStrategy": {"maxUnavailable": "50%"}});
        rolled_out(namespace, 4, with(containers(SHELL), strategy)).await?;
        let uids = |pods: &[Pod]| pods.iter().map(|pod| pod.metadata.uid.clone()).collect::<Vec<_>>();
        let before = uids(&pods(namespace).await?);
        for (image, times) in [(SHELL_TWO, 1), (PAUSE, 2)] {
            let updated = async {
                change(namespace, containers(image)).await?;
                status_has(namespace, json!({"updatedPods": 4, "updatedReadyPods": 4})).await
            };
            let most = most_unavailable(namespace, updated).await?;
            ensure!((1..=2).contains(&most), "{most} of 4 pods were unavailable, where half may be");
            let after = pods(namespace).await?;
            ensure!(uids(&after) == before, "a pod was recreated");
            for pod in &after {
                let counts = (restarts(pod, "proxy"), restarts(pod, "main"));
                ensure!(is_ready(pod) && counts == (Some(times), Some(0)), "restarts are {counts:?}");
            }
        }
        Ok(())
    })
    .await
}

/// How many pods were not ready at the same time while something happened.
async fn most_unavailable(
    namespace: &Namespace,
    happens: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<usize> {
    let api = namespace.api::<Pod>();
    let listed = api.list(&ListParams::default()).await?;
    let version = listed.metadata.resource_version.unwrap_or_default();
    let mut ready: BTreeMap<String, bool> = listed.items.iter().map(|pod| (pod.name_any(), is_ready(pod))).collect();
    let mut events = api.watch(&WatchParams::default(), &version).await?.boxed();
    let mut most = 0;
    let watched = async {
        loop {
            match events.try_next().await?.context("the watch has ended")? {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    ready.insert(pod.name_any(), is_ready(&pod));
                }
                WatchEvent::Error(error) => anyhow::bail!("the watch has failed: {error}"),
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            }
            most = most.max(ready.values().filter(|is_ready| !**is_ready).count());
        }
    };
    tokio::select! {
        outcome = happens => outcome?,
        outcome = watched => outcome?,
    }
    Ok(most)
}

/// What cannot be changed in a running pod waits until the pod is recreated, and the status says so. Metadata is written with an image.
pub async fn a_change_of_more_than_images_waits_for_new_pods(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 2, json!({"updateStrategy": {"maxUnavailable": 2}})).await?;
        let rules = json!({"rules": [{"allowedAnnotationKeyExprs": ["^mesh/version$"]}]}).to_string();
        let allowed: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "kruise-configuration"}, "data": {"SidecarSet_PatchPodMetadata_WhiteList": rules},
        }))?;
        let maps: Api<ConfigMap> = Api::namespaced(namespace.client(), &home(namespace));
        maps.create(&PostParams::default(), &allowed).await?;
        let metadata = |version: &str| json!([{"annotations": {"mesh/version": version}, "patchPolicy": "Overwrite"}]);
        let versions = async || -> anyhow::Result<Vec<Option<String>>> {
            let pods = pods(namespace).await?;
            Ok(pods.iter().map(|pod| pod.annotations().get("mesh/version").cloned()).collect())
        };
        // A webhook that has not seen the list yet refuses the patch.
        wait::until("metadata that may be patched", async || {
            Ok(change(namespace, json!({"patchPodMetadata": metadata("1")})).await.is_ok().then_some(()))
        })
        .await?;
        status_has(namespace, json!({"matchedPods": 2})).await?;
        let seen = versions().await?;
        ensure!(seen == [None, None], "metadata alone was written: {seen:?}");
        let containers = |changes: Value| json!([with(with(sleeper("proxy"), json!({"image": PAUSE})), changes)]);
        change(namespace, json!({"containers": containers(json!({})), "patchPodMetadata": metadata("2")})).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let seen = versions().await?;
        ensure!(seen == vec![Some("2".to_owned()); 2], "metadata follows an image: {seen:?}");

        change(namespace, json!({"containers": containers(json!({"env": [{"name": "MESH", "value": "on"}]}))})).await?;
        let message = condition_is(namespace, "Blocked", "NotUpgradable").await?;
        ensure!(message.contains("proxy.env") && message.contains("2 pods"), "it does not say why: {message}");
        status_has(namespace, json!({"notUpgradablePods": 2, "updatedPods": 0})).await?;
        let first = pods(namespace).await?.remove(0);
        namespace.api::<Pod>().delete(&first.name_any(), &DeleteParams::default()).await?;
        status_has(namespace, json!({"notUpgradablePods": 1, "updatedPods": 1, "updatedReadyPods": 1})).await
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
        deploy(namespace, "green-9", 2).await?;
        status_has(namespace, json!({"matchedPods": 4, "updatedReadyPods": 4})).await?;
        set_image(namespace, PAUSE).await?;
        condition_is(namespace, "Blocked", "Paused").await?;
        change(namespace, strategy(json!({"type": "NotUpdate"}))).await?;
        status_has(namespace, json!({"matchedPods": 4, "updatedPods": 0})).await?;

        let green = json!({"matchLabels": {"of": "green-9"}});
        change(namespace, strategy(json!({"selector": green}))).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let counts = (images(namespace, "web").await?, images(namespace, "green-9").await?);
        ensure!(counts == ((2, 0), (0, 2)), "the selector has updated {counts:?}");
        change(namespace, strategy(json!({}))).await?;
        status_has(namespace, json!({"updatedPods": 4, "updatedReadyPods": 4})).await?;

        // Back to the first image: those of the greater weight first, and the partition keeps the others.
        let weights = json!({"weightPriority": [{"weight": 9, "matchSelector": green}]});
        change(namespace, strategy(json!({"partition": 2, "priorityStrategy": weights}))).await?;
        set_image(namespace, SHELL).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let counts = (images(namespace, "web").await?, images(namespace, "green-9").await?);
        ensure!(counts == ((0, 2), (2, 0)), "by priority {counts:?} were updated");
        change(namespace, strategy(json!({}))).await?;
        status_has(namespace, json!({"updatedPods": 4, "updatedReadyPods": 4})).await?;

        // Spread over all values of a label: of two that are updated one is green.
        let scatter = json!([{"key": "of", "value": "*"}]);
        change(namespace, strategy(json!({"partition": "50%", "scatterStrategy": scatter}))).await?;
        set_image(namespace, PAUSE).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let counts = (images(namespace, "web").await?, images(namespace, "green-9").await?);
        ensure!(counts == ((1, 1), (1, 1)), "spread over the pods {counts:?} were updated");
        change(namespace, strategy(json!({}))).await?;
        status_has(namespace, json!({"updatedPods": 4, "updatedReadyPods": 4})).await?;

        // By the number at the end of a label: the greater one first.
        let ordered = json!({"orderPriority": [{"orderedKey": "of"}]});
        change(namespace, strategy(json!({"partition": 2, "priorityStrategy": ordered}))).await?;
        set_image(namespace, SHELL).await?;
        status_has(namespace, json!({"updatedPods": 2, "updatedReadyPods": 2})).await?;
        let counts = (images(namespace, "web").await?, images(namespace, "green-9").await?);
        ensure!(counts == ((0, 2), (2, 0)), "by order {counts:?} were updated");
        Ok(())
    })
    .await
}

/// Fifteen contents leave the ten newest revisions, and the one that a pod still has. One that comes again becomes the newest.
pub async fn fifteen_changes_leave_the_newest_revisions(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({"updateStrategy": {"type": "NotUpdate"}})).await?;
        for i in 2..=15 {
            set_image(namespace, &format!("mesh:{i}")).await?;
            status_has(namespace, json!({"matchedPods": 1, "updatedPods": 0})).await?;
        }
        let revisions: Api<ControllerRevision> = Api::namespaced(namespace.client(), &home(namespace));
        let kept = async |numbers: [i64; 10]| {
            wait::until(&format!("the revisions {numbers:?}"), async || {
                let listed = revisions.list(&ListParams::default()).await?;
                let mut found: Vec<i64> = listed.iter().map(|revision| revision.revision).collect();
                found.sort_unstable();
                Ok((found == numbers).then_some(()))
            })
            .await
        };
        kept([1, 7, 8, 9, 10, 11, 12, 13, 14, 15]).await?;
        set_image(namespace, "mesh:12").await?;
        kept([1, 7, 8, 9, 10, 11, 13, 14, 15, 16]).await
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

/// While a revision is pinned with `Always`, every new pod begins with it, and is then updated as the strategy says. The pin is written as
/// OpenKruise proposal 20250913 writes it.
pub async fn new_pods_get_the_pinned_revision(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 1, json!({"updateStrategy": {"partition": "100%"}})).await?;
        let kind = GroupVersionKind::gvk("apps.kruise.io", "v1alpha1", "SidecarSet");
        let sets: Api<kube::core::DynamicObject> =
            Api::all_with(namespace.client(), &ApiResource::from_gvk_with_plural(&kind, "sidecarsets"));
        let patch = json!({"spec": {"injectStrategy": {"controllerRevision": first_revision(namespace).await?}}});
        sets.patch(namespace.name(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        set_image(namespace, PAUSE).await?;
        status_has(namespace, json!({"matchedPods": 1, "updatedPods": 0})).await?;
        deploy(namespace, "new", 2).await?;
        status_has(namespace, json!({"matchedPods": 3, "updatedPods": 0, "readyPods": 3})).await?;
        let old = with_image(namespace, SHELL).await?;
        ensure!(old == 3, "{old} of 3 pods have the pinned image");
        change(namespace, json!({"updateStrategy": {"partition": 0, "maxUnavailable": 3}})).await?;
        status_has(namespace, json!({"updatedPods": 3, "updatedReadyPods": 3})).await
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

/// The name of the revision that there is.
async fn first_revision(namespace: &Namespace) -> anyhow::Result<String> {
    let revisions: Api<ControllerRevision> = Api::namespaced(namespace.client(), &home(namespace));
    let first = revisions.list(&ListParams::default()).await?.items.into_iter().next();
    first.and_then(|first| first.metadata.name).context("the set has no revision")
}

/// Pins the revision that there is, changes the image, and waits until both is in force.
async fn pin(namespace: &Namespace, policy: &str) -> anyhow::Result<()> {
    let revision = json!({"revisionName": first_revision(namespace).await?, "policy": policy});
    let containers = json!([with(sleeper("proxy"), json!({"image": PAUSE}))]);
    change(namespace, json!({"containers": containers, "injectionStrategy": {"revision": revision}})).await?;
    status_has(namespace, json!({"matchedPods": 1, "updatedPods": 0})).await
}
