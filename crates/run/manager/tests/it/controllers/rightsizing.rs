//! Recommender, updater and admission together, over an embedded cluster with a simulated node, in virtual time.

mod brake;
mod cluster;
mod neighbours;
mod targets;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use axum::middleware::{self, Next};
use kube::Client;
use pillion_api::vpa::VerticalPodAutoscalerStatus;
use pillion_embedded::Embedded;
use pillion_gates::Gates;
use pillion_manager::{Config, ControllerName, Manager, WebhookAddress};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use self::cluster::{Cluster, URL};

const AUTOSCALERS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers";
const CHECKPOINTS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalercheckpoints";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// An embedded cluster, and the manager that runs beside it.
struct Rig {
    engine: Embedded,
    cluster: Cluster,
    running: Option<(Manager, JoinHandle<()>)>,
}

impl Rig {
    async fn start(gates: &str) -> Rig {
        let config = pillion_embedded::Config::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let engine = Embedded::start_without_controllers(config).await.unwrap();
        let cluster = Cluster { server: engine.server().clone() };
        let mut rig = Rig { engine, cluster, running: None };
        rig.manage(gates).await;
        rig.engine.start_controllers();
        sleep(Duration::from_secs(5)).await;
        rig
    }

    /// Runs a manager with these gates, in the place of the one that runs.
    async fn manage(&mut self, gates: &str) {
        let gates = Gates::default().with(&gates.parse().unwrap());
        self.manage_with(|config| Config { gates, ..config }).await;
    }

    /// Runs another manager in the place of the one that runs.
    async fn manage_with(&mut self, adjust: impl FnOnce(Config) -> Config) {
        self.stop().await;
        let clock = self.cluster.server.clock();
        let address = WebhookAddress::Url(URL.to_owned());
        let config = adjust(Config::new(self.engine.client(), Arc::new(move || clock.now()), address));
        let manager = self.cluster.manage(config).await;
        let running = tokio::spawn({
            let manager = manager.clone();
            async move { drop(manager.run().await) }
        });
        self.running = Some((manager, running));
    }

    /// Runs one more manager, of some parts only.
    async fn beside(&self, parts: Vec<ControllerName>, adjust: impl FnOnce(Config) -> Config) -> JoinHandle<()> {
        let clock = self.cluster.server.clock();
        let address = WebhookAddress::Url(URL.to_owned());
        let config = Config { parts, ..Config::new(self.engine.client(), Arc::new(move || clock.now()), address) };
        let manager = self.cluster.manage(adjust(config)).await;
        tokio::spawn(async move { drop(manager.run().await) })
    }

    /// Has the manager end as a process does that is killed: it is given no time.
    async fn kill(&mut self) {
        if let Some((_, running)) = self.running.take() {
            running.abort();
            let _ = running.await;
        }
    }

    /// Has the manager end as a process does that is asked to.
    async fn stop(&mut self) {
        if let Some((manager, running)) = self.running.take() {
            manager.stop();
            running.await.unwrap();
        }
    }

    async fn autoscaler(&self, mode: &str, policy: Value) {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "updatePolicy": {"updateMode": mode, "minReplicas": 1}, "resourcePolicy": policy
            }
        });
        self.cluster.create(AUTOSCALERS, object).await.object();
    }

    /// A Deployment whose containers behave as the script says.
    async fn deployment(&self, script: &str, replicas: u32) {
        let resources = json!({"requests": {"cpu": "100m", "memory": "100Mi"}});
        let container = |name: &str| json!({"name": name, "image": "x", "resources": resources});
        let (mut mesh, setup) = (container("mesh"), container("setup"));
        mesh["restartPolicy"] = json!("Always");
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}, "annotations": {"pillion.dev/simulate": script}},
                    "spec": {"initContainers": [setup, mesh], "containers": [container("app")]}
                }
            }
        });
        self.cluster.create(DEPLOYMENTS, object).await.object();
    }

    async fn pods(&self) -> Vec<Value> {
        let pods = self.cluster.get(PODS).await;
        let is_live = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        pods["items"].as_array().unwrap().iter().filter(is_live).cloned().collect()
    }

    async fn status(&self) -> VerticalPodAutoscalerStatus {
        let mut autoscaler = self.cluster.get(&format!("{AUTOSCALERS}/web")).await;
        serde_json::from_value(autoscaler["status"].take()).unwrap_or_default()
    }

    async fn target(&self, container: &str, resource: &str) -> Option<String> {
        let recommended = self.status().await.recommended(container)?.target.get(resource)?;
        Some(recommended.to_string())
    }

    async fn checkpoint(&self, container: &str) -> Option<Value> {
        let checkpoint = self.cluster.request(Method::GET, &format!("{CHECKPOINTS}/web-{container}"), "", None).await;
        (checkpoint.status == StatusCode::OK).then_some(checkpoint.body)
    }

    async fn reasons(&self) -> Vec<String> {
        let events = self.cluster.get("/api/v1/namespaces/default/events").await;
        events["items"].as_array().unwrap().iter().map(|it| it["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// How often something was reported.
    async fn count(&self, reason: &str) -> u64 {
        let events = self.cluster.get("/api/v1/namespaces/default/events").await;
        let events = events["items"].as_array().unwrap().iter().filter(|event| event["reason"] == reason);
        events.map(|event| event["count"].as_u64().unwrap_or(1)).sum()
    }

    /// Looks every half minute until something holds.
    async fn until(&self, what: &str, mut holds: impl AsyncFnMut(&Rig) -> bool) {
        for _ in 0..240 {
            if holds(self).await {
                return;
            }
            sleep(Duration::from_secs(30)).await;
        }
        let (pods, status) = (self.pods().await, self.status().await);
        assert!(holds(self).await, "two hours passed without {what}; pods: {pods:#?}, status: {status:#?}");
    }
}

/// What a container requests, of a list of the spec.
fn request(pod: &Value, list: &str, container: &str, resource: &str) -> String {
    let containers = pod["spec"][list].as_array().unwrap();
    let container = containers.iter().find(|it| it["name"] == container).unwrap();
    container["resources"]["requests"][resource].as_str().unwrap_or_default().to_owned()
}

fn restarts(pod: &Value) -> u64 {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    statuses.map(|status| status["restartCount"].as_u64().unwrap()).sum()
}

const BUSY: &str = "app: forever uses 400m 300Mi, mesh: forever uses 200m 400Mi, setup: 1s uses 300m 300Mi";

#[tokio::test(start_paused = true)]
async fn app_and_native_sidecar_follow_their_recommendation_in_place() {
    let rig = Rig::start("NativeSidecar=true").await;
    rig.autoscaler("InPlaceOrRecreate", json!({})).await;
    rig.deployment(BUSY, 1).await;
    rig.until("a pod", async |rig| rig.pods().await.len() == 1).await;
    let uid = rig.pods().await[0]["metadata"]["uid"].clone();
    rig.until("a resize", async |rig| request(&rig.pods().await[0], "initContainers", "mesh", "cpu") != "100m").await;
    let pod = &rig.pods().await[0];
    assert_eq!((&pod["metadata"]["uid"], restarts(pod)), (&uid, 0));
    assert_ne!(request(pod, "containers", "app", "cpu"), "100m");
    assert_eq!(request(pod, "initContainers", "setup", "cpu"), "100m", "a plain init container is left alone");
    let status = rig.status().await;
    let names: Vec<&str> = status
        .recommendation
        .iter()
        .flat_map(|it| &it.container_recommendations)
        .map(|it| it.container_name.as_str())
        .collect();
    assert_eq!(names, ["app", "mesh"]);
    assert!(rig.reasons().await.contains(&"InPlaceResizedByVPA".to_owned()));
    assert_eq!(rig.checkpoint("mesh").await.unwrap()["status"]["version"], "v3");
    assert!(rig.checkpoint("setup").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn where_in_place_is_off_a_pod_is_evicted_and_its_successor_has_what_is_recommended() {
    let rig = Rig::start("NativeSidecar=true").await;
    rig.autoscaler("Recreate", json!({})).await;
    rig.deployment(BUSY, 2).await;
    let sized = async |rig: &Rig| {
        let pods = rig.pods().await;
        pods.len() == 2 && pods.iter().all(|pod| request(pod, "initContainers", "mesh", "memory") != "100Mi")
    };
    rig.until("pods that were created anew", sized).await;
    let pod = &rig.pods().await[0];
    assert_eq!(pod["metadata"]["annotations"]["vpaObservedContainers"], "app, mesh");
    assert!(pod["metadata"]["annotations"]["vpaUpdates"].as_str().unwrap().contains("init-sidecar 1"));
    assert_eq!(request(pod, "initContainers", "setup", "memory"), "100Mi");
    assert!(rig.reasons().await.contains(&"EvictedByVPA".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_nothing_touches_a_native_sidecar() {
    let rig = Rig::start("").await;
    rig.autoscaler("Recreate", json!({})).await;
    rig.deployment(BUSY, 2).await;
    let sized = async |rig: &Rig| {
        let pods = rig.pods().await;
        pods.len() == 2 && pods.iter().all(|pod| request(pod, "containers", "app", "memory") != "100Mi")
    };
    rig.until("apps that were created anew", sized).await;
    for pod in rig.pods().await {
        assert_eq!(request(&pod, "initContainers", "mesh", "memory"), "100Mi");
        assert_eq!(pod["metadata"]["annotations"]["vpaObservedContainers"], "app");
    }
    assert_eq!(rig.target("mesh", "cpu").await, None);
    assert!(rig.checkpoint("mesh").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_gate_switched_off_leaves_the_last_values_and_what_is_stored() {
    let mut rig = Rig::start("NativeSidecar=true").await;
    rig.autoscaler("InPlaceOrRecreate", json!({})).await;
    rig.deployment(BUSY, 1).await;
    rig.until("a pod", async |rig| rig.pods().await.len() == 1).await;
    rig.until("a resize", async |rig| request(&rig.pods().await[0], "initContainers", "mesh", "cpu") != "100m").await;
    let before = request(&rig.pods().await[0], "initContainers", "mesh", "cpu");
    rig.manage("").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(request(&rig.pods().await[0], "initContainers", "mesh", "cpu"), before);
    assert_eq!(rig.target("mesh", "cpu").await, None, "nothing is recommended for it any more");
    assert!(rig.target("app", "cpu").await.is_some());
    assert!(rig.checkpoint("mesh").await.is_some(), "its history is kept");
}

#[tokio::test(start_paused = true)]
async fn an_oom_kill_of_a_native_sidecar_raises_its_memory() {
    let rig = Rig::start("NativeSidecar=true").await;
    rig.autoscaler("Off", json!({})).await;
    rig.deployment("app: forever uses 10m 30Mi, mesh: 20m OOMKilled uses 10m 400Mi", 1).await;
    rig.until("a recommendation", async |rig| rig.target("mesh", "memory").await.is_some()).await;
    let bytes = async |rig: &Rig| {
        let status = rig.status().await;
        status
            .recommended("mesh")
            .and_then(|it| it.target.get("memory"))
            .map_or(0, |memory| memory.nanos() / 1_000_000_000)
    };
    let before = bytes(&rig).await;
    rig.until("more memory", async |rig| bytes(rig).await > before + (80 << 20)).await;
    assert_eq!(restarts(&rig.pods().await[0]), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restart_loses_no_sample_and_loosens_no_bound() {
    let mut rig = Rig::start("NativeSidecar=true").await;
    rig.autoscaler("Off", json!({})).await;
    rig.deployment(BUSY, 2).await;
    sleep(Duration::from_hours(1)).await;
    let samples = |checkpoint: Value| checkpoint["status"]["totalSamplesCount"].as_i64().unwrap();
    let bounds = async |rig: &Rig| {
        let status = rig.status().await;
        let mesh = status.recommended("mesh").unwrap().clone();
        let cpu = |list: Option<pillion_api::vpa::ResourceList>| list.unwrap().get("cpu").unwrap();
        (cpu(mesh.lower_bound), cpu(mesh.upper_bound))
    };
    let (mut lower, mut upper) = bounds(&rig).await;
    let mut count = samples(rig.checkpoint("mesh").await.unwrap());
    assert!(count > 100, "{count}");
    for _ in 0..2 {
        rig.manage("NativeSidecar=true").await;
        for _ in 0..8 {
            sleep(Duration::from_secs(70)).await;
            let now = bounds(&rig).await;
            assert!(now.0 >= lower && now.1 <= upper, "{now:?} after {lower:?} {upper:?}");
            (lower, upper) = now;
            let more = samples(rig.checkpoint("mesh").await.unwrap());
            assert!(more >= count, "{more} after {count}");
            count = more;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_at_any_moment_loosens_no_bound_and_loses_no_sample_that_was_stored() {
    let mut rig = Rig::start("NativeSidecar=true").await;
    rig.autoscaler("Off", json!({})).await;
    rig.deployment("app: forever uses 400m 100Mi..900Mi over 30m, mesh: forever uses 200m 200Mi..400Mi", 2).await;
    sleep(Duration::from_mins(30)).await;
    let stored = async |rig: &Rig| {
        let mut stored = Vec::new();
        for container in ["app", "mesh"] {
            stored.push(rig.checkpoint(container).await.unwrap()["status"]["totalSamplesCount"].as_i64().unwrap());
        }
        stored
    };
    let mut before = (rig.status().await, stored(&rig).await);
    for seconds in [7, 31, 60, 61, 90, 119] {
        rig.kill().await;
        rig.manage("NativeSidecar=true").await;
        for _ in 0..3 {
            sleep(Duration::from_secs(seconds)).await;
            let now = (rig.status().await, stored(&rig).await);
            assert!(now.1.iter().zip(&before.1).all(|(now, before)| now >= before), "{now:?} after {before:?}");
            for container in ["app", "mesh"] {
                for resource in ["cpu", "memory"] {
                    let of = |status: &VerticalPodAutoscalerStatus| {
                        let it = status.recommended(container).unwrap().clone();
                        let get = |list: Option<pillion_api::vpa::ResourceList>| list.unwrap().get(resource).unwrap();
                        (get(it.lower_bound), it.target.get(resource).unwrap(), get(it.upper_bound))
                    };
                    let (old, new) = (of(&before.0), of(&now.0));
                    // The target moves with the load, and stays within its bounds.
                    assert!(new.2 <= old.2.max(new.1), "upper bound of {container} {resource}: {new:?} after {old:?}");
                    assert!(new.0 >= old.0.min(new.1), "lower bound of {container} {resource}: {new:?} after {old:?}");
                }
            }
            before = now;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_oom_kill_has_taught_survives_a_kill_of_the_manager() {
    let mut rig = Rig::start("NativeSidecar=true").await;
    rig.autoscaler("Off", json!({})).await;
    rig.deployment("app: forever uses 10m 30Mi, mesh: 20m OOMKilled uses 10m 400Mi", 1).await;
    let bytes = async |rig: &Rig| {
        let status = rig.status().await;
        status.recommended("mesh").and_then(|it| it.target.get("memory")).map_or(0, pillion_quantity::Quantity::value)
    };
    rig.until("a recommendation", async |rig| bytes(rig).await > 0).await;
    let calm = bytes(&rig).await;
    rig.until("more memory", async |rig| bytes(rig).await > calm + (80 << 20)).await;
    let learned = bytes(&rig).await;
    rig.kill().await;
    rig.manage("NativeSidecar=true").await;
    for _ in 0..10 {
        sleep(Duration::from_secs(70)).await;
        assert!(bytes(&rig).await >= learned, "{} after {learned}", bytes(&rig).await);
    }
}

/// After the first day checkpoints are written every ten minutes; a replica that loses its Lease writes what is not stored yet.
#[tokio::test(start_paused = true)]
async fn a_replica_that_loses_its_lease_stores_what_it_knows() {
    let mut rig = Rig::start("NativeSidecar=true").await;
    rig.stop().await;
    let old = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscalerCheckpoint", "metadata": {"name": "web-app"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {
            "version": "v3", "totalSamplesCount": 10, "lastUpdateTime": "2025-12-31T23:59:00Z",
            "firstSampleStart": "2025-12-25T00:00:00Z", "lastSampleStart": "2025-12-31T23:59:00Z",
            "cpuHistogram": {"referenceTimestamp": "2025-12-31T00:00:00Z", "bucketWeights": {"9": 10000}, "totalWeight": 1.0},
            "memoryHistogram": {"referenceTimestamp": "2025-12-31T00:00:00Z", "bucketWeights": {"9": 10000}, "totalWeight": 1.0}
        }
    });
    rig.cluster.create(CHECKPOINTS, old).await.object();
    let clock = rig.cluster.server.clock();
    let config = Config {
        identity: Some("a".to_owned()),
        parts: vec![ControllerName::Recommender],
        ..Config::new(rig.engine.client(), Arc::new(move || clock.now()), WebhookAddress::Url(URL.to_owned()))
    };
    let manager = rig.cluster.manage(config).await;
    let running = tokio::spawn(async move { drop(manager.run().await) });
    rig.autoscaler("Off", json!({})).await;
    rig.deployment(BUSY, 1).await;
    let samples =
        async |rig: &Rig| rig.checkpoint("app").await.unwrap()["status"]["totalSamplesCount"].as_i64().unwrap();
    rig.until("a checkpoint", async |rig| samples(rig).await > 10).await;
    let stored = samples(&rig).await;
    sleep(Duration::from_mins(4)).await;
    assert_eq!(samples(&rig).await, stored, "the next one is not due yet");
    // The work is dropped, as it is when the Lease is lost.
    running.abort();
    let _ = running.await;
    sleep(Duration::from_secs(3)).await;
    assert!(samples(&rig).await >= stored + 3, "{} after {stored}", samples(&rig).await);
}

const SETS: &str = "/apis/apps.kruise.io/v1beta1/sidecarsets";
const SYSTEM: &str = "/apis/autoscaling.k8s.io/v1/namespaces/pillion-system/verticalpodautoscalers";

/// An autoscaler of the SidecarSet `logs`.
fn of_set() -> Value {
    json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "logs"},
        "spec": {
            "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "name": "logs"},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1}
        }
    })
}

/// A Deployment of one pod with a sidecar of the SidecarSet `logs`.
fn with_logs(replicas: u32) -> Value {
    let script = "app: forever uses 10m 30Mi, log: forever uses 300m 350Mi";
    let container = json!({"name": "app", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}, "annotations": {"pillion.dev/simulate": script}},
            "spec": {"containers": [container]}
        }}
    })
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_of_a_sidecar_set_sizes_its_sidecars_in_every_namespace() {
    let rig = Rig::start("SidecarSetTarget=true").await;
    rig.cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await.object();
    let sidecar = json!({"name": "log", "image": "x", "resources": {"requests": {"cpu": "20m", "memory": "20Mi"}}});
    let set = cluster::sidecarset("logs", json!({"containers": [sidecar]}));
    rig.cluster.create(SETS, set).await.object();
    rig.cluster.create(SYSTEM, of_set()).await.object();
    // Not where it may be: it would reach every namespace.
    rig.cluster.create(AUTOSCALERS, of_set()).await.object();
    for namespace in ["default", "other"] {
        rig.cluster.create(&format!("/apis/apps/v1/namespaces/{namespace}/deployments"), with_logs(1)).await.object();
    }
    let sidecars = async |rig: &Rig| {
        let mut requests = Vec::new();
        for namespace in ["default", "other"] {
            let pods = rig.cluster.get(&format!("/api/v1/namespaces/{namespace}/pods")).await;
            for pod in pods["items"].as_array().unwrap() {
                requests.push((request(pod, "containers", "log", "cpu"), request(pod, "containers", "app", "cpu")));
            }
        }
        requests
    };
    rig.until("sidecars that were resized in both namespaces", async |rig| {
        let requests = sidecars(rig).await;
        requests.len() == 2 && requests.iter().all(|(log, _)| log != "20m")
    })
    .await;
    assert!(sidecars(&rig).await.iter().all(|(_, app)| app == "100m"), "an app was sized");
    let served = rig.cluster.get(&format!("{SYSTEM}/logs")).await;
    let recommended = served["status"]["recommendation"]["containerRecommendations"].as_array().unwrap();
    assert_eq!(recommended.iter().map(|it| it["containerName"].as_str().unwrap()).collect::<Vec<_>>(), ["log"]);
    let checkpoints = "/apis/autoscaling.k8s.io/v1/namespaces/pillion-system/verticalpodautoscalercheckpoints";
    let checkpoint = rig.cluster.get(&format!("{checkpoints}/logs-log")).await;
    assert!(checkpoint["status"]["totalSamplesCount"].as_i64().unwrap() >= 2, "it learned from both");

    // A new pod gets what is recommended.
    rig.cluster.merge(&format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 2}})).await.object();
    rig.until("a second pod", async |rig| rig.pods().await.len() == 2).await;
    for pod in rig.pods().await {
        assert_ne!(request(&pod, "containers", "log", "cpu"), "20m", "{pod:#}");
    }
    let refused = rig.cluster.get(&format!("{AUTOSCALERS}/logs")).await;
    let conditions = refused["status"]["conditions"].as_array().unwrap();
    let unsupported = conditions.iter().find(|it| it["type"] == "ConfigUnsupported").unwrap();
    assert!(unsupported["message"].as_str().unwrap().ends_with("must be in namespace pillion-system"), "{unsupported}");
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_with_a_resources_policy_follows_an_app_that_is_resized_in_place() {
    let rig = Rig::start("SidecarFollowsApp=true").await;
    resize_an_app(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn a_sidecar_follows_its_app_even_if_the_first_request_hangs() {
    let mut rig = Rig::start("SidecarFollowsApp=true").await;
    let is_first = Arc::new(AtomicBool::new(true));
    let hang = move |request: Request<Body>, next: Next| {
        let hangs = request.uri().path().ends_with("/resize") && is_first.swap(false, Ordering::Relaxed);
        async move {
            if hangs {
                sleep(Duration::from_mins(10)).await;
            }
            next.run(request).await
        }
    };
    let client = Client::new(rig.cluster.server.router().layer(middleware::from_fn(hang)), "default");
    let gates = Gates::default().with(&"SidecarFollowsApp=true".parse().unwrap());
    rig.manage_with(|config| Config { client, gates, ..config }).await;
    resize_an_app(&rig).await;
}

/// Resizes an app in place, and waits until its sidecar has followed.
async fn resize_an_app(rig: &Rig) {
    let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"requests": {"cpu": "cpu*50%", "memory": "memory*10%"}}});
    let set =
        cluster::sidecarset("logs", json!({"containers": [{"name": "log", "image": "x", "resourcesPolicy": policy}]}));
    rig.cluster.create(SETS, set).await.object();
    rig.cluster.create(DEPLOYMENTS, with_logs(1)).await.object();
    rig.until("a pod that runs", async |rig| {
        let pods = rig.pods().await;
        pods.len() == 1 && pods[0]["status"]["phase"] == "Running"
    })
    .await;
    let pod = &rig.pods().await[0];
    assert_eq!(request(pod, "containers", "log", "cpu"), "50m");
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let app = containers.iter().position(|container| container["name"] == "app").unwrap();
    let patch =
        json!([{"op": "replace", "path": format!("/spec/containers/{app}/resources/requests/cpu"), "value": "500m"}]);
    let path = format!("{PODS}/{}/resize", pod["metadata"]["name"].as_str().unwrap());
    rig.cluster.request(Method::PATCH, &path, "application/json-patch+json", Some(patch)).await.object();
    rig.until("a sidecar that followed", async |rig| {
        request(&rig.pods().await[0], "containers", "log", "cpu") == "250m"
    })
    .await;
    let after = &rig.pods().await[0];
    assert_eq!((&after["metadata"]["uid"], restarts(after)), (&pod["metadata"]["uid"], 0));
    assert!(rig.reasons().await.contains(&"SidecarFollowsApp".to_owned()));
}

/// The webhook is managed last: the API server calls the one that was registered last.
const SEPARATE: [ControllerName; 3] = [ControllerName::Recommender, ControllerName::Updater, ControllerName::Webhook];

/// One of the three components knows native sidecars, or all but one do. At the worst the updater evicts for what admission does not set,
/// and then the brake stops it.
#[tokio::test(start_paused = true)]
async fn the_gate_in_some_components_alone_errs_nowhere() {
    for (odd, is_odd_on, mode) in [
        (ControllerName::Recommender, true, "InPlaceOrRecreate"),
        (ControllerName::Recommender, false, "Recreate"),
        (ControllerName::Updater, true, "Recreate"),
        (ControllerName::Webhook, false, "Recreate"),
    ] {
        let what = format!("{odd} {is_odd_on} {mode}");
        let mut rig = Rig::start("").await;
        rig.stop().await;
        let mut running = Vec::new();
        for part in SEPARATE {
            let gates = if (part == odd) == is_odd_on { "NativeSidecar=true" } else { "" };
            let gates = Gates::default().with(&gates.parse().unwrap());
            running.push(rig.beside(vec![part], |config| Config { gates, ..config }).await);
        }
        rig.autoscaler(mode, json!({})).await;
        rig.deployment(BUSY, 2).await;
        rig.until("apps that were sized", async |rig| {
            let pods = rig.pods().await;
            pods.len() == 2 && pods.iter().all(|pod| request(pod, "containers", "app", "cpu") != "100m")
        })
        .await;
        sleep(Duration::from_mins(90)).await;
        let evictions = rig.count("EvictedByVPA").await;
        assert!(evictions <= 6, "{what}: {evictions} evictions");
        let events = rig.cluster.get("/api/v1/namespaces/default/events").await;
        for event in events["items"].as_array().unwrap().iter().filter(|event| event["type"] == "Warning") {
            assert_eq!(event["reason"], "EvictionsStopped", "{what}: {event:#}");
        }
        assert!(running.iter().all(|manager| !manager.is_finished()), "{what}");
    }
}

/// Checkpoints do not say what a container is: without a pod, the template does.
#[tokio::test(start_paused = true)]
async fn the_gate_switched_off_while_no_pod_runs_leaves_the_app_what_it_had() {
    let mut rig = Rig::start("NativeSidecar=true").await;
    rig.autoscaler("Off", json!({})).await;
    rig.deployment("app: forever uses 1m 1Mi, mesh: forever uses 1m 1Mi", 1).await;
    rig.until("a recommendation", async |rig| rig.target("mesh", "cpu").await.is_some()).await;
    sleep(Duration::from_mins(10)).await;
    rig.cluster.merge(&format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 0}})).await.object();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(rig.target("app", "cpu").await.as_deref(), Some("25m"), "the smallest for a pod with one container");
    for gates in ["NativeSidecar=true", ""] {
        rig.manage(gates).await;
        sleep(Duration::from_hours(1)).await;
        assert_eq!(rig.target("app", "cpu").await.as_deref(), Some("25m"), "gates: {gates:?}");
        assert_eq!(rig.target("mesh", "cpu").await.is_some(), !gates.is_empty(), "gates: {gates:?}");
        assert!(rig.checkpoint("mesh").await.is_some(), "gates: {gates:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written_but_leases() {
    let rig = Rig::start("NativeSidecar=true").await;
    rig.autoscaler("InPlaceOrRecreate", json!({})).await;
    rig.deployment(BUSY, 1).await;
    rig.until("a resize", async |rig| {
        let pods = rig.pods().await;
        pods.len() == 1 && request(&pods[0], "initContainers", "mesh", "cpu") != "100m"
    })
    .await;
    // Without pods there are no samples, and without samples nothing moves.
    let path = format!("{DEPLOYMENTS}/web");
    rig.cluster.merge(&path, json!({"spec": {"replicas": 0}})).await.object();
    sleep(Duration::from_mins(15)).await;
    let version = async |path: &str| rig.cluster.get(path).await["metadata"]["resourceVersion"].clone();
    let mut before = Vec::new();
    for path in [format!("{AUTOSCALERS}/web"), format!("{CHECKPOINTS}/web-app"), format!("{CHECKPOINTS}/web-mesh")] {
        before.push((path.clone(), version(&path).await));
    }
    sleep(Duration::from_hours(1)).await;
    for (path, before) in before {
        assert_eq!(version(&path).await, before, "{path}");
    }
    let status = rig.status().await;
    let shown: Vec<(String, &str)> =
        status.conditions.iter().map(|it| (format!("{:?}", it.condition_type), it.status.as_str())).collect();
    assert_eq!(shown, [("NoPodsMatched".to_owned(), "True"), ("RecommendationProvided".to_owned(), "True")]);
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_gets_its_defaults_and_a_wrong_one_is_refused() {
    let rig = Rig::start("").await;
    rig.until("the webhook", async |rig| {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "try"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
        });
        let created = rig.cluster.create(&format!("{AUTOSCALERS}?dryRun=All"), object).await.object();
        created["spec"]["updatePolicy"] == json!({"updateMode": "Recreate"})
    })
    .await;
    let wrong = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "wrong"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "InPlace"}
        }
    });
    let refused = rig.cluster.create(AUTOSCALERS, wrong).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{refused:?}");
}

/// The manager installs the definitions itself, as in `pillion up`.
#[tokio::test(start_paused = true)]
async fn an_autoscaler_of_upstream_that_is_installed_later_gets_new_pods_until_it_goes() {
    let rig = Rig::start("").await;
    let is_registered = async || {
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion";
        let configuration = rig.cluster.get(path).await;
        let mut entries = configuration["webhooks"].as_array().unwrap().iter();
        entries.any(|entry| entry["name"] == "vpa.pillion.dev")
    };
    sleep(Duration::from_mins(1)).await;
    assert!(is_registered().await);
    let labels = json!({"app": "vpa"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let deployment = json!({
        "metadata": {"name": "vpa-admission-controller"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    });
    let theirs = "/apis/apps/v1/namespaces/kube-system/deployments";
    rig.cluster.create(theirs, deployment).await.object();
    sleep(Duration::from_mins(1)).await;
    assert!(!is_registered().await);
    rig.cluster.request(Method::DELETE, &format!("{theirs}/vpa-admission-controller"), "", None).await.object();
    sleep(Duration::from_mins(1)).await;
    assert!(is_registered().await);
}
