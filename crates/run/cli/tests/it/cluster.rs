//! Commands that read a cluster: an API server in this process, in which nothing runs and only the test writes.

use axum::body::Body;
use axum::http::{Method, Request};
use pillion_api::names;
use pillion_api::record::in_place::{Before, InPlaceUpdates};
use pillion_api::sidecarset::crd;
use pillion_api::vpa;
use pillion_apiserver::{ApiServer, Config};
use pillion_testkit::{mk_container, mk_injected_pod, mk_set};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt as _;

use crate::Folder;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SIDECARSETS: &str = "/apis/apps.kruise.io/v1beta1/sidecarsets";

struct Cluster {
    server: ApiServer,
    runtime: Runtime,
    folder: Folder,
}

impl Cluster {
    fn new() -> Cluster {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = ApiServer::new(Config::in_memory());
        let router = server.router();
        let address = runtime.block_on(async {
            server.bootstrap().await.unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async move { axum::serve(listener, router).await });
            address
        });
        let kubeconfig = format!(
            "{{clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], users: [{{name: u, user: {{}}}}], current-context: one, \
             contexts: [{{name: one, context: {{cluster: c, user: u}}}}]}}"
        );
        let cluster = Cluster { server, runtime, folder: Folder::with(&[("kubeconfig", &kubeconfig)]) };
        for definition in [crd::sidecarset(), vpa::crd::vertical_pod_autoscaler(), vpa::crd::checkpoint()] {
            cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
        }
        cluster.create("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}}));
        cluster
    }

    fn create(&self, path: &str, object: Value) -> Value {
        self.send(Method::POST, path, "application/json", object)
    }

    fn merge(&self, path: &str, patch: Value) -> Value {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch)
    }

    fn send(&self, method: Method, path: &str, content: &str, body: Value) -> Value {
        let request = Request::builder().method(method).uri(path).header("content-type", content);
        let request = request.body(Body::from(body.to_string())).unwrap();
        self.runtime.block_on(async {
            let response = self.server.router().oneshot(request).await.unwrap();
            let status = response.status();
            let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            assert!(status.is_success(), "{path}: {}", answer["message"]);
            answer
        })
    }

    /// Runs a command on the cluster.
    fn run(&self, arguments: &[&str]) -> String {
        self.folder.run(&[arguments, &["--kubeconfig", "kubeconfig"]].concat())
    }

    /// Has the StatefulSet `web` want so many pods, and makes the last of them, which has run since the beginning of 2026.
    fn scale(&self, replicas: u64) {
        let sets = "/apis/apps/v1/namespaces/default/statefulsets";
        let set = self.merge(&format!("{sets}/web"), json!({"spec": {"replicas": replicas}}));
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": set["metadata"]["uid"], "controller": true
        });
        let name = format!("web-{}", replicas - 1);
        let mut spec = set["spec"]["template"]["spec"].clone();
        spec["nodeName"] = json!("node");
        let metadata = json!({"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]});
        self.create(PODS, json!({"metadata": metadata, "spec": spec}));
        let status = json!({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"});
        self.merge(&format!("{PODS}/{name}/status"), json!({"status": status}));
    }
}

/// A kubelet reports that the process with the old image has ended, and no more.
#[test]
fn the_status_of_a_rollout_says_by_the_events_of_a_pod_why_its_native_sidecar_does_not_start() {
    let cluster = Cluster::new();
    let native = json!([{"name": "proxy", "image": "envoy:2", "restartPolicy": "Always"}]);
    let set = mk_set("mesh", json!({"app": "web"}), json!({"initContainers": native}));
    cluster.create(SIDECARSETS, json!(set));
    let mut pod = mk_injected_pod("web-0", json!({"app": "web"}), [mk_container("app")], &[&set]).into_value();
    let (updated, before) =
        ("2026-01-01T00:00:00Z", Before { image_id: "sha256:1", superseded: None, restarts: Some(0) });
    let mut in_place = InPlaceUpdates::default();
    in_place.start("mesh", &set.current_hash(), true, updated.parse().unwrap(), |_| false);
    in_place.change("mesh", "proxy", before);
    pod["metadata"]["annotations"][names::IN_PLACE_UPDATE_STATE] = json!(in_place.to_string());
    pod["metadata"]["resourceVersion"] = Value::Null;
    let pod = cluster.create(PODS, pod);
    let ended =
        json!({"exitCode": 0, "reason": "Completed", "startedAt": "2025-12-31T00:00:00Z", "finishedAt": updated});
    let report = |name: &str, state: Value| {
        let is_ready = state["terminated"].is_null();
        json!({"name": name, "image": "envoy:1", "imageID": "sha256:1", "ready": is_ready, "restartCount": 0, "state": state})
    };
    let status = json!({
        "phase": "Running", "conditions": [{"type": "Ready", "status": "False"}],
        "initContainerStatuses": [report("proxy", json!({"terminated": ended}))],
        "containerStatuses": [report("app", json!({"running": {}}))],
    });
    cluster.merge(&format!("{PODS}/web-0/status"), json!({"status": status}));
    let state = || {
        let shown = cluster.run(&["rollout", "status", "mesh"]);
        let line = shown.lines().find(|line| line.trim_start().starts_with("default/web-0 "));
        let line = line.unwrap_or_else(|| panic!("{shown}"));
        line.trim_start().trim_start_matches("default/web-0").trim_start().to_owned()
    };
    let unexplained = state();
    assert!(unexplained.starts_with("proxy: starting "), "{unexplained}");

    let about = json!({
        "kind": "Pod", "namespace": "default", "name": "web-0", "uid": pod["metadata"]["uid"],
        "fieldPath": "spec.initContainers{proxy}",
    });
    let event = json!({
        "metadata": {"name": "web-0.1"}, "involvedObject": about, "type": "Warning", "reason": "BackOff",
        "message": "Back-off pulling image \"envoy:2\": ErrImagePull: no such host", "lastTimestamp": "2026-01-01T00:01:00Z",
    });
    cluster.create("/api/v1/namespaces/default/events", event);
    let explained = state();
    assert!(explained.starts_with("proxy: ImagePullBackOff "), "{explained}");
}

#[test]
fn recommendations_come_with_what_holds_running_pods_back() {
    let cluster = Cluster::new();
    let resources = json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "300m"}});
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "app", "image": "app:1", "resources": resources}]);
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": containers}});
    let spec = json!({"replicas": 0, "serviceName": "web", "selector": {"matchLabels": labels}, "template": template});
    cluster.create("/apis/apps/v1/namespaces/default/statefulsets", json!({"metadata": {"name": "web"}, "spec": spec}));
    let autoscalers = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers";
    let reference = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
    let spec = json!({"targetRef": reference, "updatePolicy": {"updateMode": "Recreate"}});
    let autoscaler = json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}, "spec": spec});
    cluster.create(autoscalers, autoscaler);
    let amount = json!({"cpu": "500m"});
    let recommended = json!({"containerName": "app", "target": amount, "lowerBound": amount, "upperBound": amount});
    let status = json!({"recommendation": {"containerRecommendations": [recommended]}});
    cluster.merge(&format!("{autoscalers}/web/status"), json!({"status": status}));
    let reason = || {
        let shown = cluster.run(&["recommend", "web", "-o", "json"]);
        let rows = shown.strip_prefix("exit 0\n--- stdout\n").unwrap_or_else(|| panic!("{shown}"));
        let rows: Value = serde_json::from_str(rows).unwrap();
        rows[0]["reason"].as_str().unwrap().to_owned()
    };

    cluster.scale(1);
    let few = "pod web-0: is not updated: its controller has fewer pods than minReplicas";
    assert!(reason().contains(few), "{}", reason());
    cluster.scale(2);
    assert!(reason().contains("pod web-0: is evicted in one of the next passes"), "{}", reason());
    let budget = json!({"maxUnavailable": 0, "selector": {"matchLabels": labels}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    cluster.create(budgets, json!({"metadata": {"name": "strict"}, "spec": budget}));
    let forbidden = "pod web-0 and 1 more: is not updated: a PodDisruptionBudget forbids its eviction: strict";
    assert!(reason().ends_with(forbidden), "{}", reason());
    let range = json!({"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]});
    let ranges = "/api/v1/namespaces/default/limitranges";
    cluster.create(ranges, json!({"metadata": {"name": "narrow"}, "spec": range}));
    let refused = "pod web-0 and 1 more: is not updated: the API server would refuse its successor: ";
    assert!(reason().contains(refused) && reason().contains("provided ratio is 3"), "{}", reason());
}

#[test]
fn fields_that_sidecar_sets_do_not_have_are_errors_on_a_cluster_as_well_unless_a_flag_allows_them() {
    let cluster = Cluster::new();
    let set = "{apiVersion: apps.kruise.io/v1beta1, kind: SidecarSet, metadata: {name: mesh}, spec: {brandNew: {}, \
               selector: {matchLabels: {app: web}}, containers: [{name: proxy, image: envoy:1.30}]}}";
    std::fs::write(cluster.folder.0.path().join("set.yaml"), set).unwrap();
    let commands: [&[&str]; 2] = [&["preview", "-f", "set.yaml"], &["rollout", "plan", "-f", "set.yaml"]];
    for command in commands {
        let said = "set.yaml:1:97: unknown field \"spec.brandNew\"";
        let refused = cluster.run(command);
        let error = format!("error: {said}; --allow-unknown-fields accepts fields of newer versions\n");
        assert!(refused.starts_with("exit 1\n--- stderr\n") && refused.ends_with(&error), "{command:?}: {refused}");
        let allowed = cluster.run(&[command, &["--allow-unknown-fields"]].concat());
        let warning = format!("Warning: {said}\n");
        assert!(allowed.starts_with("exit 0\n--- stdout\n") && allowed.contains(&warning), "{command:?}: {allowed}");
    }
}
