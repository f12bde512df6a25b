//! What the recommender learns from OOM kills.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{AUTOSCALERS, PODS, Rig};

/// Upstream's `TestClusterRecordOOM` and the deletion that may follow a kill at once.
#[tokio::test(start_paused = true)]
async fn an_oom_kill_of_a_pod_that_is_deleted_at_once_counts() {
    let rig = Rig::start().await;
    rig.serve_usage(&["web".to_owned()]);
    rig.workload("web").await;
    rig.autoscaler("web").await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_secs(150)).await;
    let calm = rig.memory("web", "a").await;
    assert!(calm > 0);
    let pod = format!("{PODS}/web-0");
    rig.merge(&format!("{pod}/status"), json!({"status": {"containerStatuses": status("a", 0, &rig.killed())}})).await;
    rig.delete(&format!("{pod}?gracePeriodSeconds=0")).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = rig.memory("web", "a").await;
    assert!(after > calm, "{after} after {calm}");
}

fn status(container: &str, restarts: u32, state: &Value) -> Value {
    json!([{"name": container, "image": "x", "imageID": "", "ready": false, "restartCount": restarts, "state": state}])
}

/// A Job, and a pod of it that runs.
async fn start_job(rig: &Rig) -> impl AsyncFn(&str) {
    let resources = json!({"requests": {"memory": "1Gi"}});
    let spec = json!({"restartPolicy": "Never", "containers": [{"name": "run", "image": "x", "resources": resources}]});
    let job = json!({"metadata": {"name": "report"}, "spec": {"template": {"spec": spec}}});
    let job = rig.create("/apis/batch/v1/namespaces/default/jobs", job).await;
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "report", "uid": job["metadata"]["uid"], "controller": true});
    rig.autoscaler_of("report", "batch/v1", "Job").await;
    async move |name: &str| {
        let mut spec = spec.clone();
        spec["nodeName"] = json!("node");
        rig.create(PODS, json!({"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec})).await;
        rig.merge(&format!("{PODS}/{name}/status"), json!({"status": {"phase": "Running"}})).await;
    }
}

async fn end(rig: &Rig, pod: &str, phase: &str, state: &Value) {
    let status = json!({"status": {"phase": phase, "containerStatuses": status("run", 0, state)}});
    rig.merge(&format!("{PODS}/{pod}/status"), status).await;
}

#[tokio::test(start_paused = true)]
async fn a_kill_of_a_pod_that_ends_between_two_passes_counts_once() {
    let rig = Rig::start().await;
    let start_pod = start_job(&rig).await;
    rig.recommend(rig.config());
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(rig.memory("report", "run").await, 0);
    start_pod("report-1").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    end(&rig, "report-1", "Failed", &rig.killed()).await;
    rig.take_written();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let learned = rig.memory("report", "run").await;
    assert!(learned > 1200 << 20, "a fifth more than 1Gi, not {learned}");
    assert_eq!(rig.take_checkpoints(), ["report-run"]);
    rig.merge(&format!("{PODS}/report-1"), json!({"metadata": {"labels": {"seen": "yes"}}})).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!((rig.take_checkpoints(), rig.memory("report", "run").await), (Vec::new(), learned));

    // One that was there in a pass is learned from at once, and no more often.
    start_pod("report-2").await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    end(&rig, "report-2", "Failed", &rig.killed()).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(rig.take_checkpoints(), ["report-run"]);
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(rig.take_checkpoints(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_ended_matches_as_long_as_it_exists() {
    let rig = Rig::start().await;
    let start_pod = start_job(&rig).await;
    rig.recommend(rig.config());
    let without_pods = async || {
        tokio::time::sleep(Duration::from_mins(2)).await;
        rig.condition("report", "NoPodsMatched").await
    };
    assert_eq!(without_pods().await.as_deref(), Some("True"));
    start_pod("report-1").await;
    assert_eq!(without_pods().await.as_deref(), Some("False"));
    let completed = json!({"terminated": {"reason": "Completed", "exitCode": 0, "finishedAt": "2026-01-01T00:05:00Z"}});
    end(&rig, "report-1", "Succeeded", &completed).await;
    assert_eq!(without_pods().await.as_deref(), Some("False"));
    rig.delete(&format!("{PODS}/report-1?gracePeriodSeconds=0")).await;
    assert_eq!(without_pods().await.as_deref(), Some("True"));
}

/// The kill is there when the pod is first seen.
#[tokio::test(start_paused = true)]
async fn the_policy_counts_for_the_first_kill_that_is_found() {
    let rig = Rig::start().await;
    rig.workload("web").await;
    let restarted = json!([{
        "name": "a", "image": "x", "imageID": "", "ready": true, "restartCount": 1,
        "state": {"running": {"startedAt": rig.server.clock().now()}}, "lastState": rig.killed()
    }]);
    let status = json!({"status": {"phase": "Running", "containerStatuses": restarted}});
    rig.merge(&format!("{PODS}/web-0/status"), status).await;
    rig.autoscaler("web").await;
    let policies = json!([{"containerName": "a", "oomBumpUpRatio": "20"}]);
    let policies = json!({"spec": {"resourcePolicy": {"containerPolicies": policies}}});
    rig.merge(&format!("{AUTOSCALERS}/web"), policies).await;
    let mut config = rig.config();
    config.gates.per_vpa_config = true;
    rig.recommend(config);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let learned = rig.memory("web", "a").await;
    assert!(learned > 2000 << 20, "twenty times 100Mi, not {learned}");
}
