//! What stays in a status, and what does not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use pillion_quantity::Quantity;
use serde_json::{Value, json};

use crate::{AUTOSCALERS, Rig};

/// Sets the policies of containers, and waits for the next pass.
async fn set_policies(rig: &Rig, policies: Value) {
    let policy = json!({"spec": {"resourcePolicy": {"containerPolicies": policies}}});
    rig.merge(&format!("{AUTOSCALERS}/web"), policy).await;
    tokio::time::sleep(Duration::from_secs(65)).await;
}

async fn shown(rig: &Rig) -> (String, Option<String>) {
    (rig.recommended_for("web").await.join(" "), rig.condition("web", "RecommendationProvided").await)
}

fn status(containers: &str, is_provided: &str) -> (String, Option<String>) {
    (containers.to_owned(), Some(is_provided.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_opted_out_loses_its_recommendation() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    rig.workload("web").await;
    rig.autoscaler("web").await;
    rig.recommend(rig.config());
    set_policies(&rig, json!([])).await;
    assert_eq!(shown(&rig).await, status("a b", "True"));
    set_policies(&rig, json!([{"containerName": "a", "mode": "Off"}])).await;
    assert_eq!(shown(&rig).await, status("b", "True"));
    set_policies(&rig, json!([{"containerName": "*", "mode": "Off"}])).await;
    assert_eq!(shown(&rig).await, status("", "False"));
    let autoscaler = rig.get(&format!("{AUTOSCALERS}/web")).await;
    assert!(autoscaler["status"]["recommendation"].is_null(), "{autoscaler:#}");
    set_policies(&rig, json!([])).await;
    assert_eq!(shown(&rig).await, status("a b", "True"), "history is still there");
    set_policies(&rig, json!([{"containerName": "*", "controlledResources": []}])).await;
    assert_eq!(shown(&rig).await, status("", "False"));
    rig.take_written();
    tokio::time::sleep(Duration::from_mins(5)).await;
    let written = rig.take_written();
    assert!(!written.iter().any(|(_, path)| path.ends_with("/status")), "that is written once: {written:?}");
}

/// Nobody serves usage, and there is no checkpoint.
#[tokio::test(start_paused = true)]
async fn after_a_restart_what_was_recommended_stays_as_far_as_it_is_controlled() {
    let rig = Rig::start().await;
    rig.workload("web").await;
    rig.autoscaler("web").await;
    rig.recommended("web", "Off", 1).await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(shown(&rig).await, status("a b", "True"));
    set_policies(&rig, json!([{"containerName": "a", "mode": "Off"}])).await;
    assert_eq!(shown(&rig).await, status("b", "True"));
    set_policies(&rig, json!([{"containerName": "*", "controlledResources": ["memory"]}])).await;
    assert_eq!(shown(&rig).await, status("", "False"), "only CPU was recommended");
}

/// The first pass after a restart has the checkpoints already: no status in between is empty.
#[tokio::test(start_paused = true)]
async fn a_restart_takes_nothing_away_while_history_is_read() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    rig.workload("web").await;
    rig.autoscaler("web").await;
    let first = rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(shown(&rig).await, status("a b", "True"));
    first.abort();
    rig.recommend(rig.config());
    for _ in 0..120 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(shown(&rig).await, status("a b", "True"));
    }
}

async fn conditions(rig: &Rig) -> (Option<String>, Option<String>) {
    (rig.condition("web", "EvictionsStopped").await, rig.condition("web", "RecommendationProvided").await)
}

/// The updater stops evictions while the recommender reads usage.
#[tokio::test(start_paused = true)]
async fn a_condition_that_was_written_during_a_pass_stays() {
    let rig = Rig::start().await;
    rig.workload("web").await;
    rig.autoscaler("web").await;
    let (client, has_written) = (rig.client.clone(), Arc::new(AtomicBool::new(false)));
    let usage = move || {
        let (client, is_first) = (client.clone(), !has_written.swap(true, Ordering::Relaxed));
        async move {
            if is_first {
                let stopped = json!({
                    "type": "EvictionsStopped", "status": "True", "reason": "NoSuccessor", "message": "no pod came",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"
                });
                crate::merge(
                    &client,
                    &format!("{AUTOSCALERS}/web/status"),
                    json!({"status": {"conditions": [stopped]}}),
                )
                .await;
            }
            json!({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": []})
                .to_string()
        }
    };
    rig.server.register_metrics(Router::new().route("/apis/metrics.k8s.io/v1beta1/pods", get(usage)));
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(conditions(&rig).await, (Some("True".to_owned()), None), "the first write was a conflict");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(
        conditions(&rig).await,
        (Some("True".to_owned()), Some("False".to_owned())),
        "the next pass has written it"
    );
}

/// The upper bound of CPU of a container.
async fn upper(rig: &Rig, name: &str, container: &str) -> Quantity {
    let autoscaler = rig.get(&format!("{AUTOSCALERS}/{name}")).await;
    let all = autoscaler["status"]["recommendation"]["containerRecommendations"].as_array().unwrap();
    let found = all.iter().find(|it| it["containerName"] == container).unwrap();
    found["upperBound"]["cpu"].as_str().unwrap().parse().unwrap()
}

/// A status that was there first had its bounds kept for a day.
#[tokio::test(start_paused = true)]
async fn bounds_that_another_program_wrote_are_not_kept() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned(), "api".to_owned()]);
    for name in ["web", "api"] {
        rig.workload(name).await;
        rig.autoscaler(name).await;
    }
    rig.recommended("web", "Off", 1).await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    let free = upper(&rig, "api", "a").await;
    assert!(free > "1".parse().unwrap(), "there is little history");
    assert_eq!(upper(&rig, "web", "a").await, free);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_recommenders_own_bounds_are_kept() {
    const CHECKPOINTS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalercheckpoints";
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    rig.workload("web").await;
    rig.autoscaler("web").await;
    let first = rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_hours(2)).await;
    first.abort();
    let before = upper(&rig, "web", "a").await;
    for container in ["a", "b"] {
        rig.delete(&format!("{CHECKPOINTS}/web-{container}")).await;
    }
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(upper(&rig, "web", "a").await, before);
}

/// With each sample the upper bound comes closer.
#[tokio::test(start_paused = true)]
async fn bounds_that_move_a_little_are_written_every_ten_minutes() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    rig.workload("web").await;
    rig.autoscaler("web").await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_hours(3)).await;
    let before = upper(&rig, "web", "a").await;
    rig.take_written();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let written = rig.take_written();
    let statuses = written.iter().filter(|(_, path)| path == &format!("{AUTOSCALERS}/web/status")).count();
    assert!((5..=7).contains(&statuses), "{statuses} writes of the status in an hour");
    assert!(upper(&rig, "web", "a").await < before);
}
