//! Others that do the same, or the opposite: a second recommender, a HorizontalPodAutoscaler.

use std::time::Duration;

use pillion_manager::{Config, ControllerName};
use serde_json::json;
use tokio::time::sleep;

use super::{AUTOSCALERS, BUSY, CHECKPOINTS, Rig};

#[tokio::test(start_paused = true)]
async fn recommenders_of_different_names_serve_their_autoscalers_side_by_side() {
    let mut rig = Rig::start("").await;
    rig.stop().await;
    let mut running = Vec::new();
    for name in ["default", "frugal"] {
        let named = |mut config: Config| {
            config.identity = Some(format!("manager-of-{name}"));
            config.rightsizing.recommender_name = name.to_owned();
            config
        };
        running.push(rig.beside(vec![ControllerName::Recommender], named).await);
    }
    rig.autoscaler("Off", json!({})).await;
    let second = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "cheap"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "Off"}, "recommenders": [{"name": "frugal"}]
        }
    });
    rig.cluster.create(AUTOSCALERS, second).await.object();
    rig.deployment(BUSY, 1).await;
    for name in ["web", "cheap"] {
        rig.until("a recommendation of both", async |rig| {
            let autoscaler = rig.cluster.get(&format!("{AUTOSCALERS}/{name}")).await;
            autoscaler["status"]["recommendation"]["containerRecommendations"].is_array()
        })
        .await;
    }
    sleep(Duration::from_mins(30)).await;
    let checkpoints = rig.cluster.get(CHECKPOINTS).await;
    let names: Vec<&str> =
        checkpoints["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cheap-app", "web-app"], "neither deletes what is the other's");
    assert!(running.iter().all(|manager| !manager.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn a_horizontal_autoscaler_of_the_same_resource_is_reported_once() {
    let rig = Rig::start("").await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let horizontal = json!({
        "metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": [metric]}
    });
    rig.cluster.create("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", horizontal).await.object();
    rig.autoscaler("InPlaceOrRecreate", json!({})).await;
    rig.deployment(BUSY, 1).await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(rig.count("HorizontalPodAutoscalerConflict").await, 1);
}
