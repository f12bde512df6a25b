//! The whole engine in virtual time: a day of a CronJob, hours of a crash loop, a large rollout.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{self, watcher};
use pillion_scenarios::TestCluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const HOUR: Duration = Duration::from_hours(1);

/// Fewer where the engine is built without optimisation: a developer runs this often.
const PODS: i32 = if cfg!(debug_assertions) { 200 } else { 1000 };

async fn create<K>(client: &Client, object: Value) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + DeserializeOwned,
{
    let api = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    api
}

/// A container for a simulation: what it does is in an annotation of the pod.
fn template(behaviour: &str, restart_policy: &str, version: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"pillion.dev/simulate": format!("main: {behaviour}")}},
        "spec": {
            "restartPolicy": restart_policy, "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": format!("web:{version}")}]
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_makes_a_job_every_hour_of_a_day() {
    let cluster = TestCluster::simulated().await.unwrap();
    let spec = json!({"schedule": "15 * * * *", "jobTemplate": {"spec": {"template": template("90s", "Never", "1")}}});
    let cron_jobs = create::<CronJob>(&cluster.client(), json!({"metadata": {"name": "hourly"}, "spec": spec})).await;
    let jobs: Api<Job> = Api::default_namespaced(cluster.client());
    let midnight: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for hour in 0..24 {
        sleep(if hour == 0 { HOUR / 2 } else { HOUR }).await;
        let due = midnight + SignedDuration::from_mins(60 * hour + 15);
        let name = format!("hourly-{}", due.as_second() / 60);
        let job = jobs.get(&name).await.unwrap();
        let status = job.status.unwrap();
        assert_eq!((job.metadata.creation_timestamp.unwrap().0, status.succeeded), (due, Some(1)), "{name}");
        let ended = status.completion_time.unwrap().0.duration_since(due);
        assert!(
            ended >= SignedDuration::from_secs(90) && ended <= SignedDuration::from_secs(92),
            "{name} took {ended:#}"
        );
        // Three that have succeeded are kept.
        let kept = jobs.list(&ListParams::default()).await.unwrap().items.len();
        assert_eq!(kept, usize::try_from(hour + 1).unwrap().min(3), "after hour {hour}");
    }
    let status = cron_jobs.get("hourly").await.unwrap().status.unwrap();
    let last: Timestamp = "2026-01-01T23:15:00Z".parse().unwrap();
    assert_eq!(status.last_schedule_time.unwrap().0, last);
    assert!(status.active.unwrap_or_default().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_is_slowed_down_to_the_second() {
    let cluster = TestCluster::simulated().await.unwrap();
    let mut pod = template("5s exit 1", "Always", "1");
    pod["metadata"]["name"] = json!("app");
    let pods = create::<Pod>(&cluster.client(), pod).await;
    let mut starts: Vec<Timestamp> = Vec::new();
    let mut changes = watcher(pods, watcher::Config::default()).default_backoff().applied_objects().boxed();
    let watching = async {
        while let Some(pod) = changes.try_next().await.unwrap() {
            let status = pod.status.and_then(|status| status.container_statuses?.into_iter().next());
            let running = status.and_then(|status| status.state?.running);
            if let Some(started) = running.and_then(|running| running.started_at)
                && starts.last() != Some(&started.0)
            {
                starts.push(started.0);
            }
        }
    };
    timeout(HOUR, watching).await.unwrap_err();
    let pauses: Vec<i64> = starts.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs() - 5).collect();
    let expected: Vec<i64> =
        [0, 10, 20, 40, 80, 160].into_iter().chain(std::iter::repeat(300)).take(pauses.len()).collect();
    assert_eq!(pauses, expected);
    assert_eq!(starts.len(), 17, "an hour has room for so many");
}

#[tokio::test(start_paused = true)]
async fn a_large_deployment_is_rolled_out_within_its_bounds() {
    let cluster = TestCluster::simulated().await.unwrap();
    let spec = |version: &str| json!({"replicas": PODS, "selector": {"matchLabels": {"app": "web"}}, "template": template("forever", "Always", version)});
    let object = json!({"metadata": {"name": "web"}, "spec": spec("1")});
    let deployments = create::<Deployment>(&cluster.client(), object).await;
    await_condition(deployments.clone(), "web", |found: Option<&Deployment>| found.is_some_and(is_rolled_out))
        .await
        .unwrap();
    let update = Patch::Merge(json!({"spec": spec("2")}));
    deployments.patch("web", &PatchParams::default(), &update).await.unwrap();
    let within_bounds = |found: Option<&Deployment>| {
        found.is_some_and(|deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            let (all, available) = (status.replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
            assert!(all <= PODS * 5 / 4 && available >= PODS * 3 / 4, "{available} of {all} are available");
            is_rolled_out(deployment)
        })
    };
    timeout(HOUR, await_condition(deployments, "web", within_bounds)).await.unwrap().unwrap();
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let images: std::collections::BTreeSet<String> = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.clone())
        .collect();
    assert_eq!(images.into_iter().collect::<Vec<_>>(), ["web:2"]);
}

fn is_rolled_out(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    status.observed_generation == deployment.metadata.generation
        && [status.replicas, status.updated_replicas, status.available_replicas]
            .iter()
            .all(|count| *count == Some(PODS))
}
