//! What `updateStrategy` says happens, and nothing else.

use serde_json::{Value, json};

use crate::controllers::rollout::cluster::{condition, minutes, rolled_out};

#[tokio::test(start_paused = true)]
async fn a_new_image_restarts_the_sidecars_and_nothing_else() {
    let (cluster, _manager) = rolled_out(5, json!({"updateStrategy": {"maxUnavailable": 2}})).await;
    let names = |pods: &[Value]| -> Vec<_> { pods.iter().map(|pod| pod["metadata"]["uid"].clone()).collect() };
    let before = cluster.pods().await;
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"updatedPods": 5, "updatedReadyPods": 5})).await;
    assert_eq!(cluster.with_image("envoy:2").await, 5);
    assert_eq!(cluster.restarts().await, (5, 0));
    let after = cluster.pods().await;
    assert_eq!(names(&before), names(&after), "no pod is recreated");
    let latest = cluster.latest_revision().await;
    let set = cluster.set("mesh").await;
    assert_eq!((&set["status"]["latestRevision"], cluster.revisions().await.len()), (&json!(latest), 2));
    assert_eq!(condition(&set, "Progressing")["reason"], "Complete");
    for pod in &after {
        assert!(pod["metadata"]["annotations"]["kruise.io/sidecarset-hash"].as_str().unwrap().contains(&latest));
        let upgradable =
            pod["status"]["conditions"].as_array().unwrap().iter().find(|it| it["type"] == "SidecarSetUpgradable");
        assert_eq!(upgradable.unwrap()["status"], "True");
    }
    // Nothing changes: nothing is written.
    minutes(30).await;
    assert_eq!(cluster.set("mesh").await["metadata"]["resourceVersion"], set["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_keeps_pods_on_the_old_revision() {
    let (cluster, _manager) = rolled_out(5, json!({"updateStrategy": {"partition": 3, "maxUnavailable": 5}})).await;
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"updatedReadyPods": 2})).await;
    cluster.until_condition("Progressing", "Complete").await;
    minutes(10).await;
    assert_eq!((cluster.with_image("envoy:1").await, cluster.with_image("envoy:2").await), (3, 2));
    cluster.patch_set("mesh", json!({"spec": {"updateStrategy": {"partition": "20%"}}})).await;
    cluster.until_status(json!({"updatedReadyPods": 4})).await;
    cluster.patch_set("mesh", json!({"spec": {"updateStrategy": {"partition": 0}}})).await;
    cluster.until_status(json!({"updatedReadyPods": 5})).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_rollout_waits_and_says_so() {
    let (cluster, _manager) = rolled_out(3, json!({"updateStrategy": {"paused": true}})).await;
    cluster.set_image("envoy:2").await;
    let message = cluster.until_condition("Blocked", "Paused").await;
    assert_eq!(message, "updateStrategy.paused is true, 3 pods left to update");
    minutes(10).await;
    assert_eq!(cluster.with_image("envoy:1").await, 3);
    cluster.patch_set("mesh", json!({"spec": {"updateStrategy": {"paused": false}}})).await;
    cluster.until_status(json!({"updatedReadyPods": 3})).await;
}

#[tokio::test(start_paused = true)]
async fn not_update_leaves_running_pods_alone_and_counts_them() {
    let (cluster, _manager) = rolled_out(3, json!({"updateStrategy": {"type": "NotUpdate"}})).await;
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"matchedPods": 3, "updatedPods": 0})).await;
    minutes(10).await;
    assert_eq!((cluster.with_image("envoy:1").await, cluster.restarts().await), (3, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn a_selector_chooses_the_pods_that_are_updated() {
    let strategy = json!({"maxUnavailable": 5, "selector": {"matchLabels": {"of": "green"}}});
    let (cluster, _manager) = rolled_out(2, json!({"updateStrategy": strategy})).await;
    cluster.create_deployment("green", 2, json!({})).await;
    cluster.until_status(json!({"matchedPods": 4, "updatedReadyPods": 4})).await;
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"updatedReadyPods": 2})).await;
    minutes(5).await;
    for pod in cluster.pods().await {
        let image = if pod["metadata"]["labels"]["of"] == "green" { "envoy:2" } else { "envoy:1" };
        assert_eq!(crate::controllers::rollout::cluster::proxy(&pod)["image"], image);
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_higher_priority_are_updated_first() {
    let weights = json!([{"weight": 100, "matchSelector": {"matchLabels": {"of": "first"}}}]);
    let strategy = json!({"partition": 2, "maxUnavailable": 5, "priorityStrategy": {"weightPriority": weights}});
    let (cluster, _manager) = rolled_out(2, json!({"updateStrategy": strategy})).await;
    cluster.create_deployment("first", 2, json!({})).await;
    cluster.until_status(json!({"matchedPods": 4, "updatedReadyPods": 4})).await;
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"updatedReadyPods": 2})).await;
    for pod in cluster.pods().await {
        let image = if pod["metadata"]["labels"]["of"] == "first" { "envoy:2" } else { "envoy:1" };
        assert_eq!(crate::controllers::rollout::cluster::proxy(&pod)["image"], image);
    }
}

#[tokio::test(start_paused = true)]
async fn scattered_pods_are_not_updated_one_after_the_other() {
    let strategy = json!({"partition": 3, "maxUnavailable": 6, "scatterStrategy": [{"key": "of", "value": "odd"}]});
    let (cluster, _manager) = rolled_out(3, json!({"updateStrategy": strategy})).await;
    cluster.create_deployment("odd", 3, json!({})).await;
    cluster.until_status(json!({"matchedPods": 6, "updatedReadyPods": 6})).await;
    cluster.set_image("envoy:2").await;
    cluster.until_status(json!({"updatedReadyPods": 3})).await;
    let pods = cluster.pods().await;
    let updated = pods.iter().filter(|pod| crate::controllers::rollout::cluster::proxy(pod)["image"] == "envoy:2");
    let odd = updated.filter(|pod| pod["metadata"]["labels"]["of"] == "odd").count();
    assert!(odd == 1 || odd == 2, "{odd} of 3 updated pods are odd");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_more_than_images_is_not_applied_to_running_pods_and_the_status_says_why() {
    let (cluster, _manager) = rolled_out(3, json!({})).await;
    let containers = json!([{"name": "proxy", "image": "envoy:1", "env": [{"name": "MODE", "value": "x"}]}]);
    cluster.patch_set("mesh", json!({"spec": {"containers": containers}})).await;
    let message = cluster.until_condition("Blocked", "NotUpgradable").await;
    assert!(message.contains("3 pods must be recreated") && message.contains("proxy.env"), "{message}");
    cluster.until_status(json!({"notUpgradablePods": 3, "updatedPods": 0})).await;
    assert_eq!(cluster.event_reasons().await, ["NotUpgradablePods"]);
    let name = cluster.pods().await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.delete_pod(&name).await;
    cluster.until_status(json!({"notUpgradablePods": 2, "updatedReadyPods": 1})).await;
}

#[tokio::test(start_paused = true)]
async fn fifteen_changes_leave_ten_revisions_and_a_rollback_takes_an_old_one() {
    let (cluster, _manager) = rolled_out(1, json!({})).await;
    for i in 2..=15 {
        cluster.set_image(&format!("envoy:{i}")).await;
        // Who sees the new generation in the status sees the history trimmed.
        cluster.until_status(json!({"matchedPods": 1})).await;
        assert_eq!(cluster.revisions().await.len(), i.min(10), "after {i} contents");
        cluster.until_status(json!({"updatedReadyPods": 1})).await;
    }
    let revisions = cluster.revisions().await;
    let numbers: Vec<i64> = revisions.iter().map(|revision| revision.revision).collect();
    assert_eq!(numbers, [6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    let eleven = revisions[5].metadata.name.clone();
    cluster.set_image("envoy:11").await;
    cluster.until_status(json!({"updatedReadyPods": 1, "latestRevision": eleven})).await;
    let last = cluster.revisions().await.pop().unwrap();
    assert_eq!((last.metadata.name, last.revision), (eleven, 16));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_is_changed_again_goes_to_the_newest_revision() {
    let (cluster, _manager) = rolled_out(6, json!({})).await;
    cluster.set_image("envoy:2").await;
    cluster.until("two pods are updated", async || cluster.with_image("envoy:2").await >= 2).await;
    cluster.set_image("envoy:3").await;
    cluster.until_status(json!({"updatedReadyPods": 6})).await;
    assert_eq!(cluster.with_image("envoy:3").await, 6);
    let (sidecars, apps) = cluster.restarts().await;
    assert!(sidecars < 12 && apps == 0, "{sidecars} restarts: the old revision was finished first");
}
