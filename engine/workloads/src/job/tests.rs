//! Jobs over an API server, in virtual time.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, settle};

const JOB: &str = "batch/v1 Job";

fn job(name: &str, spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "main"}]}}},
    });
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

/// Type, status, reason and message of each condition.
fn conditions(job: &Value) -> Vec<String> {
    let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
    let conditions = job["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let fields = ["type", "status", "reason", "message"];
    conditions.iter().map(|condition| fields.map(|field| text(condition, field)).join(" ")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_is_complete_when_its_pod_has_succeeded() {
    let cluster = TestCluster::start().await;
    cluster.create(job("pi", json!({}))).await;
    settle(1).await;
    let pods = cluster.pods().await;
    assert_eq!(pods.len(), 1);
    let pod = cluster.get("v1 Pod", &pods[0]).await;
    assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    assert_eq!(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], "pi");
    let status = cluster.get(JOB, "pi").await["status"].clone();
    assert_eq!((&status["active"], &status["ready"]), (&json!(1), &json!(0)));
    assert_eq!(status["startTime"], "2026-01-01T00:00:01Z");

    settle(5).await;
    cluster.finish(&pods[0], 0).await;
    settle(1).await;
    let done = cluster.get(JOB, "pi").await;
    assert_eq!(
        conditions(&done),
        [
            "SuccessCriteriaMet True CompletionsReached Reached expected number of succeeded pods",
            "Complete True CompletionsReached Reached expected number of succeeded pods",
        ]
    );
    let mut status = done["status"].clone();
    status.as_object_mut().unwrap().remove("conditions");
    assert_eq!(
        status,
        json!({
            "completionTime": "2026-01-01T00:00:07Z", "ready": 0, "startTime": "2026-01-01T00:00:01Z",
            "succeeded": 1, "terminating": 0, "uncountedTerminatedPods": {},
        })
    );
    assert_eq!(cluster.get("v1 Pod", &pods[0]).await["metadata"]["finalizers"], Value::Null);
    assert_eq!(
        cluster.events("pi").await,
        [format!("Normal SuccessfulCreate Created pod: {}", pods[0]), "Normal Completed Job completed".to_owned()]
    );
}

#[tokio::test(start_paused = true)]
async fn failed_pods_are_replaced_after_a_growing_wait_until_the_limit() {
    let cluster = TestCluster::start().await;
    cluster.create(job("pi", json!({"backoffLimit": 1}))).await;
    settle(1).await;
    let first = cluster.pods().await;
    cluster.finish(&first[0], 1).await;
    settle(8).await;
    assert_eq!(cluster.pods().await.len(), 1);
    assert_eq!(cluster.get(JOB, "pi").await["status"]["failed"], 1);
    settle(3).await;
    let second: Vec<String> = cluster.pods().await.into_iter().filter(|pod| *pod != first[0]).collect();
    assert_eq!(second.len(), 1);
    cluster.finish(&second[0], 1).await;
    settle(1).await;
    let failed = cluster.get(JOB, "pi").await;
    let why = "True BackoffLimitExceeded Job has reached the specified backoff limit";
    assert_eq!(conditions(&failed), [format!("FailureTarget {why}"), format!("Failed {why}")]);
    assert_eq!(failed["status"]["failed"], 2);
    assert_eq!(
        cluster.events("pi").await.last().unwrap(),
        "Warning BackoffLimitExceeded Job has reached the specified backoff limit"
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_past_its_deadline_ends_its_pods_and_fails_when_they_are_gone() {
    let cluster = TestCluster::start().await;
    cluster.create(job("slow", json!({"activeDeadlineSeconds": 30, "parallelism": 2, "completions": 2}))).await;
    settle(31).await;
    let failed = cluster.get(JOB, "slow").await;
    let why = "True DeadlineExceeded Job was active longer than specified deadline";
    assert_eq!(conditions(&failed), [format!("FailureTarget {why}"), format!("Failed {why}")]);
    assert_eq!((&failed["status"]["failed"], &failed["status"]["active"]), (&json!(2), &Value::Null));
    assert_eq!(cluster.pods().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_index_has_its_pod_and_is_remembered_when_it_has_succeeded() {
    let cluster = TestCluster::start().await;
    cluster.create(job("many", json!({"completionMode": "Indexed", "completions": 5, "parallelism": 3}))).await;
    settle(1).await;
    let pods = cluster.pods().await;
    assert_eq!(pods.len(), 3);
    for index in [0, 2] {
        let pod = pods.iter().find(|pod| pod.starts_with(&format!("many-{index}-"))).unwrap();
        cluster.finish(pod, 0).await;
    }
    settle(1).await;
    let status = cluster.get(JOB, "many").await["status"].clone();
    assert_eq!(
        (&status["completedIndexes"], &status["succeeded"], &status["active"]),
        (&json!("0,2"), &json!(2), &json!(3))
    );
    assert!(cluster.pods().await.iter().any(|pod| pod.starts_with("many-4-")));
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_begins_anew_when_it_is_resumed() {
    let cluster = TestCluster::start().await;
    cluster.create(job("pi", json!({}))).await;
    settle(9).await;
    cluster.patch(JOB, "pi", json!({"spec": {"suspend": true}})).await;
    settle(1).await;
    assert_eq!(cluster.pods().await.len(), 0);
    let suspended = cluster.get(JOB, "pi").await;
    assert_eq!(conditions(&suspended), ["Suspended True JobSuspended Job suspended"]);
    assert_eq!((&suspended["status"]["active"], &suspended["status"]["failed"]), (&Value::Null, &Value::Null));
    cluster.patch(JOB, "pi", json!({"spec": {"suspend": false}})).await;
    settle(1).await;
    let resumed = cluster.get(JOB, "pi").await;
    assert_eq!(conditions(&resumed), ["Suspended False JobResumed Job resumed"]);
    assert_eq!(resumed["status"]["startTime"], "2026-01-01T00:00:11Z");
    assert_eq!(cluster.pods().await.len(), 1);
    let events: Vec<String> = cluster.events("pi").await.into_iter().filter(|event| !event.contains("pod:")).collect();
    assert_eq!(events, ["Normal Suspended Job suspended", "Normal Resumed Job resumed"]);
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_deleted_job_lose_their_finalizer() {
    let cluster = TestCluster::start().await;
    cluster.create(job("pi", json!({}))).await;
    settle(1).await;
    let pods = cluster.pods().await;
    cluster.delete(JOB, "pi", &DeleteParams::orphan()).await;
    settle(1).await;
    assert_eq!(cluster.get(JOB, "pi").await, Value::Null);
    assert_eq!(cluster.get("v1 Pod", &pods[0]).await["metadata"]["finalizers"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_another_controller_manages_is_left_alone() {
    let cluster = TestCluster::start().await;
    cluster.create(job("theirs", json!({"managedBy": "example.com/controller"}))).await;
    settle(5).await;
    assert_eq!(cluster.pods().await.len(), 0);
    assert_eq!(cluster.get(JOB, "theirs").await["status"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn every_pod_is_counted_once_over_many_rounds() {
    let cluster = TestCluster::start().await;
    cluster.create(job("large", json!({"completions": 60, "parallelism": 25}))).await;
    for _ in 0..3 {
        settle(2).await;
        for pod in cluster.list("v1 Pod", "default").await {
            if pod["status"]["phase"] == "Pending" {
                cluster.finish(pod["metadata"]["name"].as_str().unwrap(), 0).await;
            }
        }
    }
    settle(5).await;
    let done = cluster.get(JOB, "large").await;
    assert_eq!(done["status"]["succeeded"], 60);
    assert_eq!(conditions(&done).len(), 2);
    assert_eq!(cluster.pods().await.len(), 60);
}
