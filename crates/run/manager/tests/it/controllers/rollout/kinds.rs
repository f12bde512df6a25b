//! Native sidecars, hot upgrades and canaries.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::controllers::rollout::cluster::{Cluster, container, minutes, rolled_out};

const EMPTY: &str = "empty:1";

fn hot(image: &str) -> Value {
    let upgrade = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY});
    json!({"containers": [{"name": "proxy", "image": image, "upgradeStrategy": upgrade}], "updateStrategy": {"maxUnavailable": 2}})
}

/// The images of the two containers of each pod's pair, sorted.
async fn pairs(cluster: &Cluster) -> Vec<[String; 2]> {
    let image = |pod: &Value, name: &str| container(pod, name)["image"].as_str().unwrap_or_default().to_owned();
    let pair = |pod: &Value| {
        let mut pair = ["proxy-1", "proxy-2"].map(|name| image(pod, name));
        pair.sort();
        pair
    };
    cluster.pods().await.iter().map(pair).collect()
}

#[tokio::test(start_paused = true)]
async fn native_sidecars_are_updated_in_place_and_only_they_restart() {
    let native = json!([{"name": "proxy", "image": "envoy:1", "restartPolicy": "Always"}]);
    let (cluster, _manager) = rolled_out(4, json!({"containers": null, "initContainers": native})).await;
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"updatedReadyPods": 4})).await;
    assert_eq!((cluster.with_image("envoy:2").await, cluster.restarts().await), (4, (4, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_hot_upgrade_hands_over_and_resets_the_old_container() {
    let (cluster, _manager) = rolled_out(3, hot("envoy:1")).await;
    for image in ["envoy:2", "envoy:3"] {
        cluster.set_image(image).await;
        cluster.until_status(json!({"updatedReadyPods": 3})).await;
        assert_eq!(pairs(&cluster).await, vec![[EMPTY.to_owned(), image.to_owned()]; 3]);
    }
    assert_eq!(cluster.restarts().await.1, 0, "no app is restarted");
}

#[tokio::test(start_paused = true)]
async fn a_hot_upgrade_to_an_image_that_fails_keeps_the_old_container() {
    let (cluster, _manager) = Cluster::managed().await;
    cluster.create_set("envoy:1", hot("envoy:1")).await;
    let script = "proxy-1: 0s exit 1 with envoy:bad, proxy-2: 0s exit 1 with envoy:bad";
    cluster.create_deployment("web", 3, json!({"annotations": {"pillion.dev/simulate": script}})).await;
    cluster.until_status(json!({"updatedReadyPods": 3})).await;
    cluster.set_image("envoy:bad").await;
    cluster.until_condition("Progressing", "PausedOnFailure").await;
    minutes(30).await;
    let still_there = pairs(&cluster).await.iter().filter(|pair| pair.contains(&"envoy:1".to_owned())).count();
    assert_eq!(still_there, 3, "the container that worked is never reset");
    cluster.set_image("envoy:3").await;
    cluster.until_status(json!({"updatedReadyPods": 3})).await;
    assert_eq!(pairs(&cluster).await, vec![[EMPTY.to_owned(), "envoy:3".to_owned()]; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_canary_stands_in_for_its_set_and_is_rolled_out_alone() {
    let (cluster, _manager) = rolled_out(2, json!({})).await;
    cluster
        .create_any_set(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
            "metadata": {"name": "mesh-canary", "annotations": {
                "apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "mesh",
            }},
            "spec": {
                "selector": {"matchLabels": {"app": "web", "of": "canary"}},
                "containers": [{"name": "proxy", "image": "envoy:canary"}],
                "updateStrategy": {"type": "NotUpdate"},
            },
        }))
        .await;
    cluster.create_deployment("canary", 2, json!({})).await;
    cluster
        .until("the canary has pods", async || cluster.set("mesh-canary").await["status"]["updatedReadyPods"] == 2)
        .await;
    assert_eq!((cluster.with_image("envoy:canary").await, cluster.with_image("envoy:1").await), (2, 2));
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"matchedPods": 2, "updatedReadyPods": 2})).await;
    assert_eq!((cluster.with_image("envoy:canary").await, cluster.with_image("envoy:2").await), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn metadata_follows_an_image_update() {
    let (cluster, _manager) = rolled_out(2, json!({"updateStrategy": {"partition": 1}})).await;
    let patches = |version: &str| json!([{"annotations": {"mesh/version": version}, "patchPolicy": "Overwrite"}]);
    let spec = json!({"containers": [{"name": "proxy", "image": "envoy:2"}], "patchPodMetadata": patches("2")});
    let refusal = cluster.try_patch_set("mesh", json!({"spec": spec})).await.unwrap_err();
    assert!(refusal.contains("patchPodMetadata"), "{refusal}");

    // The administrator lists the annotation, and it is written with the image.
    let rules = json!({"rules": [{"allowedAnnotationKeyExprs": ["^mesh/version$"]}]}).to_string();
    let listed: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "kruise-configuration"}, "data": {"SidecarSet_PatchPodMetadata_WhiteList": rules},
    }))
    .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "kruise-system");
    maps.create(&PostParams::default(), &listed).await.unwrap();
    cluster.patch_set("mesh", json!({"spec": spec})).await;
    cluster.until_status(json!({"updatedReadyPods": 1})).await;
    let versions = async || -> Vec<Value> {
        let pods = cluster.pods().await.into_iter();
        let pair = |pod: Value| {
            (container(&pod, "proxy")["image"].clone(), pod["metadata"]["annotations"]["mesh/version"].clone())
        };
        let mut pairs: Vec<_> = pods.map(pair).map(|(image, version)| json!([image, version])).collect();
        pairs.sort_by_key(Value::to_string);
        pairs
    };
    assert_eq!(versions().await, [json!(["envoy:1", null]), json!(["envoy:2", "2"])]);

    // Metadata alone is not written to running pods.
    cluster.patch_set("mesh", json!({"spec": {"patchPodMetadata": patches("3")}})).await;
    minutes(5).await;
    assert_eq!(versions().await, [json!(["envoy:1", null]), json!(["envoy:2", "2"])]);
    cluster.patch_set("mesh", json!({"spec": {"updateStrategy": {"partition": 0}}})).await;
    cluster.set_image("envoy:3").await;
    cluster.until_status(json!({"updatedReadyPods": 2})).await;
    assert_eq!(versions().await, [json!(["envoy:3", "3"]), json!(["envoy:3", "3"])]);
}
