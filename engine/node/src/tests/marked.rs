//! `containers[].sidecar` on a node, in virtual time.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use pillion_apiserver::ApiServer;
use pillion_gates::Gates;
use pillion_store::{Options, Store};
use serde_json::{Value, json};

use super::cluster::{self, Cluster, SIDECAR_FIELD, state};
use crate::SimulatedRuntime;

fn spec(policy: &str) -> Value {
    json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 30, "containers": [
        {"name": "main"}, {"name": "proxy", "sidecar": true}, {"name": "log", "sidecar": true},
    ]})
}

/// The end of a container, in seconds since the beginning.
fn finished_at(pod: &Value, container: &str) -> i64 {
    let statuses = pod["status"]["containerStatuses"].as_array().unwrap();
    let status = statuses.iter().find(|status| status["name"] == container).unwrap();
    let at: jiff::Timestamp = status["state"]["terminated"]["finishedAt"].as_str().unwrap().parse().unwrap();
    at.as_second() - "2026-01-01T00:00:00Z".parse::<jiff::Timestamp>().unwrap().as_second()
}

#[tokio::test(start_paused = true)]
async fn sidecars_end_with_the_work_and_the_one_that_ignores_it_after_the_grace_period() {
    let cluster = cluster::with_sidecar_field().await;
    cluster.create_annotated("job", "main: 10s, log: forever ignores TERM", spec("Never")).await;
    assert_eq!(cluster.until_phase("job", "Succeeded").await, 40);
    let pod = cluster.get("job").await.unwrap();
    assert_eq!(state(&pod, "main"), "terminated Completed 0");
    assert_eq!(state(&pod, "proxy"), "terminated Completed 143");
    assert_eq!(state(&pod, "log"), "terminated Completed 137");
    // No kill before the grace period, and no second one.
    assert_eq!(["main", "proxy", "log"].map(|name| finished_at(&pod, name)), [10, 10, 40]);
}

#[tokio::test(start_paused = true)]
async fn the_phase_follows_the_work_and_early_errors_of_sidecars() {
    let cluster = cluster::with_sidecar_field().await;
    let rows = [
        ("row-1", "Never", "main: 10s", "Succeeded"),
        ("main-1", "Never", "main: 10s exit 1", "Failed"),
        ("main-137", "Never", "main: 10s exit 137", "Failed"),
        ("main-143", "Never", "main: 10s exit 143", "Failed"),
        ("side-0", "Never", "main: 10s, proxy: 5s exit 0", "Succeeded"),
        ("side-1", "Never", "main: 10s, proxy: 5s exit 1", "Failed"),
        ("side-137", "Never", "main: 10s, proxy: 5s exit 137", "Failed"),
        ("crash-loop", "OnFailure", "main: 10s, proxy: 4s exit 1", "Failed"),
        ("on-failure", "OnFailure", "main: 10s", "Succeeded"),
    ];
    for (name, policy, script, _) in rows {
        cluster.create_annotated(name, script, spec(policy)).await;
    }
    for (name, _, _, phase) in rows {
        cluster.until_phase(name, phase).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_that_could_not_be_started_does_not_hold_a_finished_pod_back() {
    let cluster = cluster::with_sidecar_field().await;
    // A script that cannot be read has the start refused, again and again.
    cluster.create_annotated("job", "main: 10s, proxy: soon", spec("Never")).await;
    assert_eq!(cluster.until_phase("job", "Succeeded").await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_while_its_sidecars_end_gets_no_second_grace_period() {
    let cluster = cluster::with_sidecar_field().await;
    cluster.create_annotated("job", "main: 10s, log: forever ignores TERM", spec("Never")).await;
    cluster.until("job", |pod| state(pod, "main").starts_with("terminated")).await;
    cluster::pass(Duration::from_secs(5)).await;
    cluster.delete("job").await;
    assert_eq!(cluster.until_gone("job").await, 40);
}

#[tokio::test(start_paused = true)]
async fn the_field_is_refused_where_it_makes_no_sense() {
    let cluster = cluster::with_sidecar_field().await;
    let error = |spec: Value| {
        let client = cluster.client.clone();
        async move {
            let pod = json!({"metadata": {"name": "bad"}, "spec": spec});
            let request = kube::core::Request::new("/api/v1/namespaces/default/pods")
                .create(&kube::api::PostParams::default(), pod.to_string().into_bytes())
                .unwrap();
            client.request::<Value>(request).await.unwrap_err().to_string()
        }
    };
    let all = error(json!({"containers": [{"name": "a", "image": "i", "sidecar": true}]})).await;
    assert!(all.contains("spec.containers: Forbidden: at least one container must do the pod's work"), "{all}");
    let init = json!([{"name": "b", "image": "i", "sidecar": true}]);
    let init = error(json!({"containers": [{"name": "a", "image": "i"}], "initContainers": init})).await;
    assert!(init.contains("spec.initContainers[0].sidecar: Forbidden: may not be set for init containers"), "{init}");
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_the_field_is_dropped() {
    let cluster = cluster::simulated().await;
    cluster.create_annotated("job", "main: 10s, proxy: 1h, log: 1s", spec("Never")).await;
    let pod: Value = cluster
        .client
        .request(
            kube::core::Request::new("/api/v1/namespaces/default/pods")
                .get("job", &kube::api::GetParams::default())
                .unwrap(),
        )
        .await
        .unwrap();
    assert!(pod["spec"]["containers"][1].get("sidecar").is_none());
    cluster::pass(Duration::from_mins(30)).await;
    assert_eq!(cluster.get("job").await.unwrap()["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn when_the_gate_is_switched_off_pods_keep_the_field_and_their_marks_do_nothing() {
    let store = Store::memory(Options::default());
    let on = cluster::over(store.clone(), SIDECAR_FIELD, SimulatedRuntime::new).await;
    on.create_annotated("job", "main: 10s, proxy: 1h, log: 1h", spec("OnFailure")).await;
    on.until("job", |pod| state(pod, "log") == "running").await;
    // The same objects, by a server and a node without the gate.
    let raw = |cluster: &Cluster| {
        let client = cluster.client.clone();
        async move {
            let request = kube::core::Request::new("/api/v1/namespaces/default/pods")
                .get("job", &kube::api::GetParams::default());
            client.request::<Value>(request.unwrap()).await.unwrap()
        }
    };
    on.node.shutdown(Duration::from_mins(1)).await;
    let server =
        ApiServer::new(pillion_apiserver::Config { store, clock: on.clock, ..pillion_apiserver::Config::in_memory() });
    let off = cluster::on_gated(server, SimulatedRuntime::new(on.clock), Gates::default());
    // A change by a client that does not know the field leaves it where it is.
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    off.pods().patch("job", &PatchParams::default(), &label).await.unwrap();
    assert_eq!(raw(&off).await["spec"]["containers"][1]["sidecar"], true);
    off.until("job", |pod| state(pod, "main").starts_with("terminated Completed")).await;
    cluster::pass(Duration::from_mins(5)).await;
    assert_eq!(off.get("job").await.unwrap()["status"]["phase"], "Running");
}
