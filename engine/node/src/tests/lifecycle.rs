use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::{Value, json};

use super::cluster::{self, condition, state};
use crate::SimulatedRuntime;

fn one() -> Value {
    json!({"containers": [{"name": "main"}]})
}

fn job() -> Value {
    json!({"restartPolicy": "Never", "containers": [{"name": "main"}]})
}

#[tokio::test(start_paused = true)]
async fn a_node_registers_itself_and_renews_its_lease() {
    let cluster = cluster::simulated().await;
    cluster::pass(Duration::from_secs(35)).await;
    let node = json!(Api::<Node>::all(cluster.client.clone()).get("one").await.unwrap());
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "one");
    assert_eq!(node["metadata"]["labels"]["zone"], "here");
    assert_eq!(
        node["status"]["allocatable"],
        json!({"cpu": "4", "ephemeral-storage": "64Gi", "memory": "8Gi", "pods": "110"})
    );
    assert_eq!(condition(&node, "Ready")["reason"], "KubeletReady");
    let lease = Api::<Lease>::namespaced(cluster.client.clone(), "kube-node-lease").get("one").await.unwrap();
    assert_eq!(json!(lease.spec.unwrap())["renewTime"], "2026-01-01T00:00:30.000000Z");
}

#[tokio::test(start_paused = true)]
async fn a_pod_runs_and_reports_it() {
    let cluster = cluster::simulated().await;
    cluster.create("web", one()).await;
    cluster.until_phase("web", "Running").await;
    let pod = cluster.get("web").await.unwrap();
    assert_eq!(condition(&pod, "Ready")["status"], "True");
    assert_eq!((&pod["status"]["podIP"], &pod["status"]["hostIP"]), (&json!("10.244.0.2"), &json!("192.168.0.1")));
    assert_eq!(state(&pod, "main"), "running");
    insta::assert_snapshot!(cluster.events("web").await, @r#"
    Normal Pulled spec.containers{main}: Container image "image" already present on machine and can be accessed by the pod
    Normal Created spec.containers{main}: Container created
    Normal Started spec.containers{main}: Container started
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_restart_succeeds_or_fails_with_its_container() {
    let cluster = cluster::simulated().await;
    cluster.create("good", job()).await;
    cluster.create_annotated("bad", "main: 30s exit 3", job()).await;
    assert_eq!(cluster.until_phase("good", "Succeeded").await, 1);
    assert_eq!(cluster.until_phase("bad", "Failed").await, 30);
    assert_eq!(state(&cluster.get("good").await.unwrap(), "main"), "terminated Completed 0");
    assert_eq!(state(&cluster.get("bad").await.unwrap(), "main"), "terminated Error 3");
}

#[tokio::test(start_paused = true)]
async fn a_container_that_crashes_is_restarted_ever_later() {
    let cluster = cluster::simulated().await;
    cluster.create_annotated("crash", "main: 1s exit 1", one()).await;
    let mut restarts = Vec::new();
    for count in 1..=5 {
        let restarted = |pod: &Value| {
            pod["status"]["containerStatuses"][0]["restartCount"] == count && state(pod, "main") == "running"
        };
        restarts.push(cluster.until("crash", restarted).await);
    }
    // A second each, and 0, 10, 20, 40 and 80 seconds between.
    assert_eq!(restarts, [1, 12, 33, 74, 155]);
    let waits = |pod: &Value| state(pod, "main") == "waiting CrashLoopBackOff";
    cluster.until("crash", waits).await;
    let pod = cluster.get("crash").await.unwrap();
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let message = format!("back-off 2m40s restarting failed container=main pod=crash_default({uid})");
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"], message);
    assert_eq!(pod["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn native_sidecars_start_first_and_end_last() {
    let cluster = cluster::simulated().await;
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "prepare"}, {"name": "proxy", "restartPolicy": "Always"}],
        "containers": [{"name": "main"}],
    });
    cluster.create_annotated("job", "prepare: 5s, main: 20s", spec).await;
    cluster.until("job", |pod| state(pod, "prepare") == "running").await;
    let pod = cluster.get("job").await.unwrap();
    assert_eq!(
        (state(&pod, "proxy"), state(&pod, "main")),
        ("waiting PodInitializing".into(), "waiting PodInitializing".into())
    );
    assert_eq!(cluster.until("job", |pod| state(pod, "main") == "running").await, 5);
    assert_eq!(state(&cluster.get("job").await.unwrap(), "proxy"), "running");
    assert_eq!(cluster.until_phase("job", "Succeeded").await, 25);
    let pod = cluster.get("job").await.unwrap();
    assert_eq!(
        (state(&pod, "proxy"), state(&pod, "main")),
        ("terminated Error 143".into(), "terminated Completed 0".into())
    );
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_container_starts_in_a_running_pod_and_ends_once() {
    let cluster = cluster::simulated().await;
    cluster.create_annotated("a", "debugger: 30s exit 3", one()).await;
    cluster.until_phase("a", "Running").await;
    let debugger = json!({"name": "debugger", "image": "shell", "command": ["sh"], "stdin": true, "tty": true});
    cluster.patch("a", Some("ephemeralcontainers"), json!({"spec": {"ephemeralContainers": [debugger]}})).await;
    let debugger = |pod: &Value| pod["status"]["ephemeralContainerStatuses"][0].clone();
    cluster.until("a", |pod| debugger(pod)["state"]["running"].is_object()).await;
    cluster.until("a", |pod| debugger(pod)["state"]["terminated"]["exitCode"] == 3).await;
    cluster::pass(Duration::from_mins(10)).await;
    let pod = cluster.get("a").await.unwrap();
    assert_eq!(debugger(&pod)["restartCount"], 0);
    assert_eq!(pod["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_has_its_grace_and_then_goes() {
    let cluster = cluster::simulated().await;
    let spec = json!({"terminationGracePeriodSeconds": 20, "containers": [{"name": "main"}]});
    cluster.create("polite", one()).await;
    cluster.create_annotated("stubborn", "main: forever ignores TERM", spec).await;
    cluster.until_phase("polite", "Running").await;
    cluster.until_phase("stubborn", "Running").await;
    cluster.delete("polite").await;
    assert_eq!(cluster.until_gone("polite").await, 0);
    cluster.delete("stubborn").await;
    assert_eq!(cluster.until_gone("stubborn").await, 20);
    insta::assert_snapshot!(cluster.events("stubborn").await.lines().last().unwrap(), @"Normal Killing spec.containers{main}: Stopping container main");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_before_it_starts_goes_too() {
    let cluster = cluster::simulated().await;
    let spec = json!({
        "containers": [{"name": "main"}],
        "volumes": [{"name": "settings", "configMap": {"name": "nowhere"}}],
    });
    cluster.create("early", spec).await;
    cluster::pass(Duration::from_secs(5)).await;
    cluster.delete("early").await;
    assert_eq!(cluster.until_gone("early").await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_removed_by_force_ends_without_a_word() {
    let cluster = cluster::simulated().await;
    cluster.create_annotated("web", "main: forever ignores TERM", one()).await;
    cluster.until_phase("web", "Running").await;
    let at_once = kube::api::DeleteParams::default().grace_period(0);
    cluster.pods().delete("web", &at_once).await.unwrap();
    let known = async || {
        let request = axum::http::Request::get("/pods").body(axum::body::Body::empty()).unwrap();
        let response = tower::ServiceExt::oneshot(cluster.node.kubelet(), request).await.unwrap();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["items"].as_array().unwrap().len()
    };
    // However short the grace period, a container has two seconds.
    cluster::pass(Duration::from_millis(1900)).await;
    assert_eq!(known().await, 1);
    cluster::pass(Duration::from_millis(200)).await;
    assert_eq!(known().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_runs_the_pods_again() {
    let cluster = cluster::simulated().await;
    cluster.create("web", one()).await;
    cluster.create("done", job()).await;
    cluster.until_phase("done", "Succeeded").await;
    cluster.until_phase("web", "Running").await;
    cluster.node.shutdown(Duration::from_secs(10)).await;
    let before = cluster.get("web").await.unwrap();
    cluster::pass(Duration::from_mins(1)).await;
    assert_eq!(cluster.get("web").await.unwrap(), before, "nothing was written");

    let again = cluster::on(cluster.server.clone(), SimulatedRuntime::new(cluster.clock));
    again.until("web", |pod| pod["status"]["containerStatuses"][0]["restartCount"] == 1).await;
    again.until("web", |pod| state(pod, "main") == "running").await;
    let pod = again.get("web").await.unwrap();
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"], "ContainerStatusUnknown");
    assert_eq!(again.get("done").await.unwrap()["status"]["phase"], "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_runs_init_containers_again_first() {
    let cluster = cluster::simulated().await;
    let spec = json!({"initContainers": [{"name": "prepare"}], "containers": [{"name": "main"}]});
    cluster.create_annotated("web", "prepare: 5s", spec).await;
    cluster.until("web", |pod| state(pod, "main") == "running").await;
    cluster.node.shutdown(Duration::from_secs(10)).await;

    let again = cluster::on(cluster.server.clone(), SimulatedRuntime::new(cluster.clock));
    again.until("web", |pod| state(pod, "prepare") == "running").await;
    assert_eq!(state(&again.get("web").await.unwrap(), "main"), "terminated ContainerStatusUnknown 137");
    again.until("web", |pod| state(pod, "main") == "running").await;
    let pod = again.get("web").await.unwrap();
    for list in ["initContainerStatuses", "containerStatuses"] {
        assert_eq!(pod["status"][list][0]["restartCount"], 1, "{list}");
    }
    let events = again.events("web").await;
    assert!(events.contains("SandboxChanged : Pod sandbox changed, it will be killed and re-created.\n"), "{events}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_no_longer_than_it_may() {
    let cluster = cluster::simulated().await;
    let spec = |grace: i64| json!({"terminationGracePeriodSeconds": grace, "containers": [{"name": "main"}]});
    cluster.create_annotated("short", "main: forever ignores TERM", spec(5)).await;
    cluster.create_annotated("long", "main: forever ignores TERM", spec(300)).await;
    cluster.until_phase("short", "Running").await;
    cluster.until_phase("long", "Running").await;
    cluster.node.shutdown(Duration::from_secs(20)).await;
    assert_eq!(cluster.seconds(), 20);
    assert_eq!(cluster.get("long").await.unwrap()["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_nothing_happens() {
    let cluster = cluster::simulated().await;
    let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 1});
    cluster
        .create("web", json!({"containers": [{"name": "main", "readinessProbe": probe, "livenessProbe": probe}]}))
        .await;
    cluster.until("web", |pod| condition(pod, "Ready")["status"] == "True").await;
    let before = cluster.get("web").await;
    cluster::pass(Duration::from_hours(1)).await;
    assert_eq!(cluster.get("web").await, before);
}

#[tokio::test(start_paused = true)]
async fn simulated_use_is_reported_by_the_metrics_api() {
    let cluster = cluster::simulated().await;
    cluster.create_annotated("web", "main: forever uses 250m 64Mi", one()).await;
    cluster.until_phase("web", "Running").await;
    cluster::pass(Duration::from_mins(1)).await;
    let get = async |path: &str| -> Value {
        let request = axum::http::Request::get(path).body(Vec::new()).unwrap();
        cluster.client.request(request).await.unwrap()
    };
    let pods = get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods").await;
    assert_eq!(pods["items"][0]["containers"][0], json!({"name": "main", "usage": {"cpu": "250m", "memory": "64Mi"}}));
    let nodes = get("/apis/metrics.k8s.io/v1beta1/nodes/one").await;
    assert_eq!(nodes["usage"], json!({"cpu": "250m", "memory": "64Mi"}));
}
