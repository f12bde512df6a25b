//! What the recommender learns and stores.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::http::Method;
use pillion_rightsizer::Config;
use serde_json::{Value, json};

use crate::{AUTOSCALERS, Rig};

/// The autoscalers of checkpoints.
fn autoscalers(written: &[String]) -> BTreeSet<&str> {
    written.iter().filter_map(|name| name.rsplit_once('-')).map(|(autoscaler, _)| autoscaler).collect()
}

/// `TestStoreCheckpointsMakesProgressEvenForCancelledContext` in upstream's `pkg/recommender/checkpoint/checkpoint_writer_test.go`:
/// two workers, five autoscalers with two containers, and no time.
#[tokio::test(start_paused = true)]
async fn without_time_every_worker_stores_one_autoscaler_and_the_next_pass_goes_on() {
    let rig = Rig::start().await;
    let names: Vec<String> = (0..5).map(|i| format!("vpa-{i}")).collect();
    rig.serve_usage(&names);
    for name in &names {
        rig.workload(name).await;
        rig.autoscaler(name).await;
    }
    rig.recommend(Config { update_workers: 2, checkpoints_timeout: Duration::ZERO, ..rig.config() });
    tokio::time::sleep(Duration::from_secs(30)).await;
    let first = rig.take_checkpoints();
    assert_eq!((first.len(), autoscalers(&first).len()), (4, 2), "{first:?}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let second = rig.take_checkpoints();
    assert_eq!((second.len(), autoscalers(&second).len()), (4, 2), "{second:?}");
    assert!(autoscalers(&first).is_disjoint(&autoscalers(&second)), "{first:?} {second:?}");
    tokio::time::sleep(Duration::from_mins(1)).await;
    let third = rig.take_checkpoints();
    let last: Vec<&str> =
        autoscalers(&third).difference(&(&autoscalers(&first) | &autoscalers(&second))).copied().collect();
    assert_eq!(last.len(), 1, "{third:?}");
}

#[tokio::test(start_paused = true)]
async fn while_another_recommender_loads_history_no_checkpoint_is_written() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    rig.workload("web").await;
    rig.autoscaler("web").await;
    let fetching = async |status: &str| {
        let conditions = json!([{"type": "FetchingHistory", "status": status}]);
        rig.merge(&format!("{AUTOSCALERS}/web/status"), json!({"status": {"conditions": conditions}})).await;
    };
    fetching("True").await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(rig.take_checkpoints(), [""; 0]);
    fetching("False").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(autoscalers(&rig.take_checkpoints()), BTreeSet::from(["web"]));
}

const CHECKPOINTS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalercheckpoints";

fn checkpoint(autoscaler: &str, container: &str) -> Value {
    let histogram =
        json!({"referenceTimestamp": "2025-12-31T00:00:00Z", "bucketWeights": {"9": 10000}, "totalWeight": 1.0});
    json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": {"name": format!("{autoscaler}-{container}")},
        "spec": {"vpaObjectName": autoscaler, "containerName": container},
        "status": {
            "version": "v3", "totalSamplesCount": 10, "lastUpdateTime": "2025-12-31T23:59:00Z",
            "firstSampleStart": "2025-12-25T00:00:00Z", "lastSampleStart": "2025-12-31T23:59:00Z",
            "cpuHistogram": histogram, "memoryHistogram": histogram
        }
    })
}

/// The names of what was deleted.
fn deleted(written: Vec<(Method, String)>) -> Vec<String> {
    let deleted = written.into_iter().filter(|(method, _)| *method == Method::DELETE);
    deleted.filter_map(|(_, path)| path.rsplit('/').next().map(str::to_owned)).collect()
}

/// `TestRemovingGC` in upstream's `test/integration/recommender`: the checkpoint comes after the start.
#[tokio::test(start_paused = true)]
async fn an_orphan_is_deleted_even_where_there_is_no_autoscaler() {
    let rig = Rig::start().await;
    rig.recommend(rig.config());
    let comes_and_goes = async || {
        tokio::time::sleep(Duration::from_mins(5)).await;
        rig.create(CHECKPOINTS, checkpoint("gone", "a")).await;
        rig.take_written();
        tokio::time::sleep(Duration::from_mins(11)).await;
        assert_eq!(deleted(rig.take_written()), ["gone-a"]);
        tokio::time::sleep(Duration::from_hours(1)).await;
        let written = rig.take_written();
        assert!(written.is_empty(), "nothing is written at rest: {written:?}");
    };
    comes_and_goes().await;
    // And where there was one once.
    rig.serve_usage(&["web".to_owned()]);
    rig.workload("web").await;
    rig.autoscaler("web").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    rig.delete(&format!("{AUTOSCALERS}/web")).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(rig.get(CHECKPOINTS).await["items"], json!([]));
    comes_and_goes().await;
}

/// A backup may bring checkpoints first, at any time.
#[tokio::test(start_paused = true)]
async fn checkpoints_wait_for_their_autoscalers_after_the_first_one_has_come() {
    let rig = Rig::start().await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(25)).await;
    rig.create(CHECKPOINTS, checkpoint("late", "a")).await;
    rig.autoscaler("web").await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    rig.autoscaler("late").await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(deleted(rig.take_written()), [""; 0]);
}

/// Orphans are deleted an interval after the start; the history of an autoscaler that cannot be read, or that another recommender serves,
/// is not one.
#[tokio::test(start_paused = true)]
async fn only_checkpoints_whose_autoscaler_is_gone_are_deleted() {
    let rig = Rig::start().await;
    for name in ["gone", "odd", "others"] {
        rig.create(CHECKPOINTS, checkpoint(name, "a")).await;
    }
    rig.autoscaler("others").await;
    rig.merge(&format!("{AUTOSCALERS}/others"), json!({"spec": {"recommenders": [{"name": "frugal"}]}})).await;
    // Stored by a definition that knew less than ours.
    let definition =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/verticalpodautoscalers.autoscaling.k8s.io";
    let mut loose = rig.get(definition).await;
    for version in loose["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"] =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    }
    rig.merge(definition, json!({"spec": {"versions": loose["spec"]["versions"]}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let odd = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "odd"},
        "spec": {"targetRef": "web"}
    });
    rig.create(AUTOSCALERS, odd).await;
    rig.take_written();
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(9)).await;
    assert_eq!(deleted(rig.take_written()), [""; 0], "what was restored with it may not be there yet");
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(deleted(rig.take_written()), ["gone-a"]);
}

/// A second autoscaler of the same workload controls nothing: its checkpoints were not read, and are not written.
#[tokio::test(start_paused = true)]
async fn the_checkpoints_of_an_autoscaler_that_controls_nothing_stay_as_they_are() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    rig.workload("web").await;
    rig.autoscaler("web").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    rig.create(CHECKPOINTS, checkpoint("younger", "a")).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
    let younger = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "younger"},
        "spec": {"targetRef": target, "updatePolicy": {"updateMode": "Off"}}
    });
    rig.create(AUTOSCALERS, younger).await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(autoscalers(&rig.take_checkpoints()), BTreeSet::from(["web"]));
    // When it does control, what it has stored is read first.
    rig.delete(&format!("{AUTOSCALERS}/web")).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    let stored = rig.get(&format!("{CHECKPOINTS}/younger-a")).await;
    assert!(stored["status"]["totalSamplesCount"].as_i64().unwrap() >= 10 + 50, "{stored:#}");
}
