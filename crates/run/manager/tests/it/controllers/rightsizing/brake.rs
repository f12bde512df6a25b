//! What holds evictions back.

use std::time::Duration;

use axum::http::Method;
use pillion_manager::ControllerName;
use serde_json::json;
use tokio::time::sleep;

use super::{BUSY, Rig};

/// Renews the Lease as an admission controller of upstream does, which never sees a pod.
async fn renew(rig: &Rig) {
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let now = rig.cluster.server.clock().now();
    let renewed = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(now);
    let spec = json!({"holderIdentity": "vpa-admission-controller-1", "renewTime": renewed});
    let lease = json!({"metadata": {"name": "vpa-admission-controller"}, "spec": spec});
    if !rig.cluster.create(path, lease).await.status.is_success() {
        let path = format!("{path}/vpa-admission-controller");
        rig.cluster.merge(&path, json!({"spec": spec})).await.object();
    }
}

async fn for_minutes(rig: &Rig, minutes: u64) {
    for _ in 0..minutes * 2 {
        renew(rig).await;
        sleep(Duration::from_secs(30)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn evictions_that_change_nothing_stop() {
    let mut rig = Rig::start("").await;
    rig.stop().await;
    rig.cluster
        .request(
            Method::DELETE,
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion",
            "",
            None,
        )
        .await
        .object();
    let running = rig.beside(vec![ControllerName::Recommender, ControllerName::Updater], |config| config).await;
    rig.autoscaler("Recreate", json!({})).await;
    rig.deployment(BUSY, 2).await;
    sleep(Duration::from_mins(30)).await;
    assert_eq!(rig.count("EvictedByVPA").await, 0, "there is no admission controller");
    for_minutes(&rig, 30).await;
    let evicted = rig.count("EvictedByVPA").await;
    assert!((1..=2).contains(&evicted), "{evicted} evictions");
    assert_eq!(rig.count("EvictionsStopped").await, 1);
    for_minutes(&rig, 25).await;
    assert_eq!(rig.count("EvictedByVPA").await, evicted, "none for an hour");
    assert!(!running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_that_allows_nothing_holds_every_eviction_back() {
    let rig = Rig::start("").await;
    let budget = json!({
        "metadata": {"name": "web"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    });
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    rig.cluster.create(path, budget).await.object();
    rig.autoscaler("Recreate", json!({})).await;
    rig.deployment(BUSY, 2).await;
    rig.until("a recommendation", async |rig| rig.target("app", "cpu").await.is_some()).await;
    let uids = async |rig: &Rig| -> Vec<String> {
        rig.pods().await.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect()
    };
    let before = uids(&rig).await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!((uids(&rig).await, rig.count("EvictedByVPA").await), (before, 0));
    rig.cluster.merge(&format!("{path}/web"), json!({"spec": {"minAvailable": 1}})).await.object();
    rig.until("an eviction", async |rig| rig.count("EvictedByVPA").await > 0).await;
}
