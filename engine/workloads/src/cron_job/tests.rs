//! A CronJob over an API server, in virtual time.

use serde_json::{Value, json};

use crate::test_cluster::{TestCluster, settle};

const CRON_JOB: &str = "batch/v1 CronJob";
const JOB: &str = "batch/v1 Job";

async fn jobs(cluster: &TestCluster) -> Vec<String> {
    cluster.list(JOB, "default").await.iter().map(|job| job["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn jobs_start_at_their_minute_and_the_old_ones_go() {
    let cluster = TestCluster::start().await;
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "main"}]});
    cluster
        .create(json!({
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "tick"},
            "spec": {
                "schedule": "*/10 * * * *",
                "successfulJobsHistoryLimit": 1,
                "jobTemplate": {"spec": {"template": {"spec": pod}}},
            },
        }))
        .await;
    settle(590).await;
    assert!(jobs(&cluster).await.is_empty());
    settle(15).await;
    // 2026-01-01T00:10:00Z, in minutes.
    assert_eq!(jobs(&cluster).await, ["tick-29453770"]);
    let status = cluster.get(CRON_JOB, "tick").await["status"].clone();
    assert_eq!(status["active"][0]["name"], "tick-29453770");
    assert_eq!(status["lastScheduleTime"], "2026-01-01T00:10:00Z");

    cluster.finish(&cluster.pods().await[0], 0).await;
    settle(1).await;
    let status = cluster.get(CRON_JOB, "tick").await["status"].clone();
    assert_eq!(status["active"], Value::Null);
    assert_eq!(status["lastSuccessfulTime"], "2026-01-01T00:10:06Z");

    settle(600).await;
    let second = cluster.pods().await.into_iter().find(|pod| pod.starts_with("tick-29453780")).unwrap();
    cluster.finish(&second, 0).await;
    settle(2).await;
    assert_eq!(jobs(&cluster).await, ["tick-29453780"]);
    assert_eq!(cluster.pods().await.len(), 1, "the pods of a deleted Job go with it");
    assert_eq!(
        cluster.events("tick").await,
        [
            "Normal SuccessfulCreate Created job tick-29453770",
            "Normal SawCompletedJob Saw completed job: tick-29453770, condition: Complete",
            "Normal SuccessfulCreate Created job tick-29453780",
            "Normal SawCompletedJob Saw completed job: tick-29453780, condition: Complete",
            "Normal SuccessfulDelete Deleted job tick-29453770",
        ]
    );
}
