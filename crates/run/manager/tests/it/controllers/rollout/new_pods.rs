//! Which revision new pods get while an older one is pinned.

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::controllers::rollout::cluster::{Cluster, minutes, rolled_out};

/// A set whose first revision is pinned, and whose second one has the image `envoy:2`.
async fn pinned(
    replicas: usize,
    pin: Value,
    strategy: Value,
) -> (Cluster, crate::controllers::rollout::cluster::Running) {
    let (cluster, running) = rolled_out(replicas, json!({"updateStrategy": strategy})).await;
    let first = cluster.latest_revision().await;
    let mut patch = json!({"spec": {"containers": [{"name": "proxy", "image": "envoy:2"}]}});
    patch["spec"].as_object_mut().unwrap().extend(with_name(pin, &first).as_object().unwrap().clone());
    cluster.patch_set("mesh", patch).await;
    cluster.until("two revisions", async || cluster.revisions().await.len() == 2).await;
    (cluster, running)
}

fn with_name(pin: Value, name: &str) -> Value {
    serde_json::from_str(&pin.to_string().replace("NAME", name)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn always_gives_new_pods_the_pinned_revision_which_the_strategy_then_updates() {
    let pin = json!({"injectStrategy": {"controllerRevision": "NAME"}});
    let (cluster, _manager) = pinned(2, pin, json!({"partition": "100%"})).await;
    cluster.create_deployment("new", 3, json!({})).await;
    cluster.until_status(json!({"matchedPods": 5, "readyPods": 5})).await;
    minutes(5).await;
    assert_eq!(cluster.with_image("envoy:1").await, 5);
    cluster.patch_set("mesh", json!({"spec": {"updateStrategy": {"partition": 0}}})).await;
    cluster.until_status(json!({"updatedReadyPods": 5})).await;
    cluster.create_deployment("newer", 1, json!({})).await;
    cluster.until_status(json!({"matchedPods": 6, "updatedReadyPods": 6})).await;
    assert_eq!(cluster.restarts().await, (6, 0), "the last one began with the pinned revision as well");
}

/// Whatever the Deployment does first: the partition is of the pods that there are in the end.
#[tokio::test(start_paused = true)]
async fn a_deployment_that_is_rolled_out_in_the_middle_keeps_the_partition() {
    for (partition, strategy) in [
        (json!(4), json!({"type": "Recreate", "rollingUpdate": null})),
        (json!(4), json!({"type": "RollingUpdate"})),
        (json!(8), json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}})),
        (json!("40%"), json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 3}})),
    ] {
        let pin = json!({"injectStrategy": {"revision": "NAME"}});
        let (cluster, manager) = pinned(10, pin, json!({"partition": partition, "maxUnavailable": 10})).await;
        let kept = if partition == json!(8) { 8 } else { 4 };
        cluster.until_status(json!({"updatedReadyPods": 10 - kept})).await;
        let deployments = cluster.api::<k8s_openapi::api::apps::v1::Deployment>();
        for restarted in ["1", "2"] {
            let template = json!({"metadata": {"annotations": {"restarted": restarted}}});
            let again = json!({"spec": {"strategy": strategy, "template": template}});
            deployments
                .patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(again))
                .await
                .unwrap();
            minutes(10).await;
            cluster.until_status(json!({"matchedPods": 10, "readyPods": 10})).await;
            let counts = (cluster.with_image("envoy:1").await, cluster.with_image("envoy:2").await);
            assert_eq!(counts, (kept, 10 - kept), "partition {partition}, {strategy}");
        }
        manager.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn the_successor_of_a_deleted_pod_gets_its_place() {
    let pin = json!({"injectStrategy": {"revision": "NAME"}});
    let (cluster, _manager) = pinned(6, pin, json!({"partition": 3, "maxUnavailable": 10})).await;
    cluster.until_status(json!({"updatedReadyPods": 3})).await;
    // A node is drained: every pod goes, and its ReplicaSet creates another one at once.
    for pod in cluster.pods().await {
        cluster.delete_pod(pod["metadata"]["name"].as_str().unwrap()).await;
    }
    minutes(5).await;
    cluster.until_status(json!({"matchedPods": 6, "readyPods": 6})).await;
    assert_eq!(cluster.with_image("envoy:1").await, 3);
}

#[tokio::test(start_paused = true)]
async fn partial_is_a_matter_of_chance_and_of_the_share() {
    let pin = json!({"injectStrategy": {"revision": "NAME", "policy": "Partial"}});
    let (cluster, _manager) = pinned(1, pin, json!({"partition": "50%", "type": "NotUpdate"})).await;
    cluster.create_deployment("new", 40, json!({})).await;
    cluster.until_status(json!({"matchedPods": 41, "readyPods": 41})).await;
    let old = cluster.with_image("envoy:1").await - 1;
    assert!((5..=35).contains(&old), "{old} of 40 have the pinned revision");
}

#[tokio::test(start_paused = true)]
async fn no_partition_and_not_update_pin_no_new_pods_with_a_quota() {
    for strategy in [json!({}), json!({"type": "NotUpdate", "partition": 5})] {
        let pin = json!({"injectionStrategy": {"revision": {"revisionName": "NAME", "policy": "Quota"}}});
        let (cluster, manager) = pinned(1, pin, strategy).await;
        cluster.create_deployment("new", 3, json!({})).await;
        cluster.until_status(json!({"matchedPods": 4, "readyPods": 4})).await;
        assert!(cluster.with_image("envoy:2").await >= 3);
        manager.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn a_pinned_revision_is_never_trimmed() {
    let pin = json!({"injectionStrategy": {"revision": {"revisionName": "NAME"}}});
    let (cluster, _manager) = pinned(1, pin, json!({})).await;
    cluster.patch_set("mesh", json!({"spec": {"revisionHistoryLimit": 2}})).await;
    let first = cluster.revisions().await[0].metadata.name.clone();
    for i in 3..=6 {
        cluster.set_image(&format!("envoy:{i}")).await;
        cluster.until_status(json!({"updatedReadyPods": 1})).await;
    }
    cluster.until("two revisions", async || cluster.revisions().await.len() == 2).await;
    assert_eq!(cluster.revisions().await[0].metadata.name, first);
}

/// Somebody deletes it, or a SidecarSet is copied to another cluster.
#[tokio::test(start_paused = true)]
async fn a_pinned_revision_that_goes_missing_is_reported_until_it_is_there_again() {
    let pin = json!({"injectionStrategy": {"revision": {"revisionName": "NAME"}}});
    let (cluster, running) = pinned(1, pin, json!({})).await;
    cluster.until_condition("PinnedRevisionFound", "Found").await;
    let mut first = cluster.revisions().await.remove(0);
    let name = first.metadata.name.clone().unwrap();
    let api: Api<ControllerRevision> = Api::namespaced(cluster.client(), "kruise-system");
    api.delete(&name, &DeleteParams::default()).await.unwrap();

    let message = cluster.until_condition("PinnedRevisionFound", "Missing").await;
    let missing = format!("ControllerRevision \"{name}\" is pinned for new pods and does not exist");
    assert_eq!(message, format!("{missing}; new pods are refused"));
    assert!(cluster.event_reasons().await.contains(&"PinnedRevisionMissing".to_owned()));
    let metrics = running.metrics().await;
    assert!(metrics.contains("pillion_pinned_revision_missing{sidecarset=\"mesh\"} 1"), "{metrics}");
    let new = json!({
        "metadata": {"name": "new", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    });
    let pods = cluster.api::<k8s_openapi::api::core::v1::Pod>();
    let new = serde_json::from_value(new).unwrap();
    let refused = pods.create(&PostParams::default(), &new).await.unwrap_err().to_string();
    assert!(refused.contains(&missing), "{refused}");

    first.metadata.resource_version = None;
    first.metadata.uid = None;
    api.create(&PostParams::default(), &first).await.unwrap();
    cluster.until_condition("PinnedRevisionFound", "Found").await;
    assert!(!running.metrics().await.contains("pillion_pinned_revision_missing{"));
    pods.create(&PostParams::default(), &new).await.unwrap();
}
