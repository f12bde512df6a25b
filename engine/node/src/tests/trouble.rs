use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::cluster::{self, Cluster, condition, state};
use crate::runtime::{
    ContainerId, ContainerSpec, ExecError, ExecOutput, Exit, Limits, LogOptions, Refusal, Runtime, Sandbox, Signal,
    Started, Usage, Volume,
};
use crate::{ImageMap, SimulatedRuntime};

/// A simulated runtime in which commands can fail, and which remembers what it was given.
struct Scripted {
    inner: SimulatedRuntime,
    script: Arc<Script>,
}

#[derive(Default)]
struct Script {
    /// Exit codes by command; what is not here succeeds.
    codes: Mutex<BTreeMap<String, i32>>,
    limits: Mutex<Vec<Limits>>,
    /// Signals that containers got and commands that were run in them, in order.
    reported: Mutex<Vec<String>>,
    volumes: Mutex<Vec<Volume>>,
}

impl Script {
    fn set(&self, command: &str, code: i32) {
        self.codes.lock().unwrap().insert(command.to_owned(), code);
    }
}

impl Runtime for Scripted {
    fn version(&self) -> String {
        self.inner.version()
    }

    fn runs_as_root(&self, _image: &str) -> bool {
        true
    }

    fn report_exits(&self, exits: UnboundedSender<Exit>) {
        self.inner.report_exits(exits);
    }

    async fn prepare(&self, sandbox: Sandbox) -> Result<IpAddr, Refusal> {
        self.script.volumes.lock().unwrap().extend(sandbox.volumes.clone());
        self.inner.prepare(sandbox).await
    }

    async fn update_volume(&self, _pod_uid: &str, volume: Volume) -> Result<(), Refusal> {
        self.script.volumes.lock().unwrap().push(volume);
        Ok(())
    }

    async fn start(&self, container: ContainerSpec) -> Result<Started, Refusal> {
        self.inner.start(container).await
    }

    async fn signal(&self, container: &ContainerId, signal: Signal) {
        self.script.reported.lock().unwrap().push(format!("{signal:?} {}", container.container));
        self.inner.signal(container, signal).await;
    }

    async fn exec(
        &self,
        container: &ContainerId,
        command: &[String],
        _: Option<Duration>,
    ) -> Result<ExecOutput, ExecError> {
        self.script.reported.lock().unwrap().push(format!("{} in {}", command.join(" "), container.container));
        let code = self.script.codes.lock().unwrap().get(&command.join(" ")).copied().unwrap_or_default();
        Ok(ExecOutput { code, output: Bytes::from_static(b"said so") })
    }

    async fn resize(&self, _: &ContainerId, limits: Limits) -> Result<(), Refusal> {
        self.script.limits.lock().unwrap().push(limits);
        Ok(())
    }

    async fn usage(&self, container: &ContainerId) -> Option<Usage> {
        self.inner.usage(container).await
    }

    async fn logs(&self, container: &ContainerId, options: LogOptions) -> Result<BoxStream<'static, Bytes>, Refusal> {
        self.inner.logs(container, options).await
    }

    async fn release(&self, pod_uid: &str) {
        self.inner.release(pod_uid).await;
    }

    async fn tear_down(&self, pod_uid: &str) {
        self.inner.tear_down(pod_uid).await;
    }
}

async fn scripted() -> (Cluster<Scripted>, Arc<Script>) {
    let script = Arc::new(Script::default());
    let given = Arc::clone(&script);
    let cluster = cluster::with(|clock| Scripted { inner: SimulatedRuntime::new(clock), script: given }).await;
    (cluster, script)
}

/// A pod of one container, without a token, which nobody could read.
fn pod_of(container: Value) -> Value {
    json!({"automountServiceAccountToken": false, "containers": [container]})
}

fn command(words: &str) -> Value {
    json!({"command": words.split(' ').collect::<Vec<_>>()})
}

async fn make_config_map<R: Runtime>(cluster: &Cluster<R>, name: &str, data: Value) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let map = serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_variables_cannot_be_had_waits_for_them() {
    let cluster = cluster::simulated().await;
    let spec = json!({"containers": [{"name": "main", "envFrom": [{"configMapRef": {"name": "settings"}}]}]});
    cluster.create("web", spec).await;
    cluster.until("web", |pod| state(pod, "main") == "waiting CreateContainerConfigError").await;
    let pod = cluster.get("web").await.unwrap();
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"],
        "configmap \"settings\" not found"
    );
    assert_eq!(pod["status"]["phase"], "Pending");
    make_config_map(&cluster, "settings", json!({"A": "1"})).await;
    cluster.until_phase("web", "Running").await;
    let events = cluster.events("web").await;
    assert!(
        events.contains("Warning Failed spec.containers{main}: Error: configmap \"settings\" not found"),
        "{events}"
    );
    assert_eq!(cluster.get("web").await.unwrap()["status"]["containerStatuses"][0]["restartCount"], 0);
}

/// A cluster in which some images cannot be pulled.
async fn with_images(images: &str) -> Cluster {
    let images = ImageMap::parse(images).unwrap();
    cluster::with(|clock| SimulatedRuntime::new(clock).with_images(images)).await
}

#[tokio::test(start_paused = true)]
async fn a_container_whose_image_cannot_be_pulled_waits_and_tries_again_ever_more_slowly() {
    let cluster = with_images("image: {pull: {error: pull access denied}}").await;
    cluster.create("web", json!({"containers": [{"name": "main", "imagePullPolicy": "Always"}]})).await;
    cluster.until("web", |pod| state(pod, "main") == "waiting ErrImagePull").await;
    let waiting = |pod: &Value| pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"].clone();
    assert_eq!(waiting(&cluster.get("web").await.unwrap()), "pull access denied");
    cluster.until("web", |pod| state(pod, "main") == "waiting ImagePullBackOff").await;
    let message = "Back-off pulling image \"image\": ErrImagePull: pull access denied";
    assert_eq!(waiting(&cluster.get("web").await.unwrap()), message);
    // At 0, 10, 30 and 70 seconds.
    cluster::pass(Duration::from_secs(75)).await;
    let events = cluster.events("web").await;
    insta::assert_snapshot!(events, @r#"
    Normal Pulling spec.containers{main}: Pulling image "image" (x4)
    Warning Failed spec.containers{main}: Failed to pull image "image": pull access denied (x4)
    Warning Failed spec.containers{main}: Error: ErrImagePull (x4)
    Normal BackOff spec.containers{main}: Back-off pulling image "image" (x4)
    Warning Failed spec.containers{main}: Error: ImagePullBackOff (x4)
    "#);
    assert_eq!(cluster.get("web").await.unwrap()["status"]["phase"], "Pending");

    let never = json!({"containers": [{"name": "main", "imagePullPolicy": "Never"}]});
    cluster.create("never", never).await;
    cluster.until("never", |pod| state(pod, "main") == "waiting ErrImageNeverPull").await;
}

#[tokio::test(start_paused = true)]
async fn an_update_to_an_image_that_cannot_be_pulled_ends_the_container_that_ran() {
    let cluster = with_images("worse: {pull: never}").await;
    cluster.create("web", json!({"containers": [{"name": "main"}, {"name": "other"}]})).await;
    cluster.until_phase("web", "Running").await;
    let image = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
    cluster.patch("web", None, image("worse")).await;
    cluster.until("web", |pod| state(pod, "main") == "waiting ErrImagePull").await;
    let status = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
    let now = status(&cluster.get("web").await.unwrap());
    // The status keeps the image of the container that ran last, and counts no restart yet.
    assert_eq!((&now["image"], &now["restartCount"], &now["ready"]), (&json!("image"), &json!(0), &json!(false)));
    assert!(now["lastState"]["terminated"].is_object(), "{now}");
    cluster.until("web", |pod| state(pod, "main") == "waiting ImagePullBackOff").await;
    assert_eq!(state(&cluster.get("web").await.unwrap(), "other"), "running");

    let before = cluster.seconds();
    cluster.patch("web", None, image("image:2")).await;
    assert_eq!(cluster.until("web", |pod| state(pod, "main") == "running").await, before);
    let now = status(&cluster.get("web").await.unwrap());
    assert_eq!((&now["image"], &now["restartCount"]), (&json!("image:2"), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_must_not_run_as_root_does_not() {
    let (cluster, _) = scripted().await;
    let with_contexts = |container: Value, pod: Value| {
        let mut spec = pod_of(json!({"name": "main", "securityContext": container}));
        spec["securityContext"] = pod;
        spec
    };
    for (name, container, pod, expected) in [
        ("image", json!({}), json!({"runAsNonRoot": true}), "container has runAsNonRoot and image will run as root"),
        (
            "root",
            json!({"runAsNonRoot": true, "runAsUser": 0}),
            json!({}),
            "container's runAsUser breaks non-root policy",
        ),
    ] {
        cluster.create(name, with_contexts(container, pod)).await;
        cluster.until(name, |pod| state(pod, "main") == "waiting CreateContainerConfigError").await;
        let pod = cluster.get(name).await.unwrap();
        let message = pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"].as_str().unwrap();
        assert!(message.starts_with(expected), "{message}");
    }
    for (name, container, pod) in [
        ("user", json!({"runAsNonRoot": true, "runAsUser": 1000}), json!({})),
        ("own", json!({"runAsNonRoot": false}), json!({"runAsNonRoot": true})),
    ] {
        cluster.create(name, with_contexts(container, pod)).await;
        cluster.until_phase(name, "Running").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_volume_cannot_be_made_waits_for_it() {
    let cluster = cluster::simulated().await;
    let spec = json!({
        "containers": [{"name": "main", "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}]}],
        "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
    });
    cluster.create("web", spec).await;
    cluster::pass(Duration::from_secs(3)).await;
    let pod = cluster.get("web").await.unwrap();
    assert_eq!(
        (state(&pod, "main").as_str(), &pod["status"]["phase"]),
        ("waiting ContainerCreating", &json!("Pending"))
    );
    make_config_map(&cluster, "settings", json!({})).await;
    // Attempts come at 0, 0.5, 1.5, 3.5 seconds.
    assert_eq!(cluster.until_phase("web", "Running").await, 3);
    insta::assert_snapshot!(cluster.events("web").await.lines().next().unwrap(), @r#"Warning FailedMount : MountVolume.SetUp failed for volume "settings" : configmap "settings" not found (x3)"#);
}

#[tokio::test(start_paused = true)]
async fn volumes_hold_what_they_project_and_follow_it() {
    let (cluster, script) = scripted().await;
    make_config_map(&cluster, "settings", json!({"color": "blue"})).await;
    let mut spec = pod_of(json!({"name": "main"}));
    spec["volumes"] = json!([
        {"name": "settings", "configMap": {"name": "settings", "defaultMode": 0o400, "items": [{"key": "color", "path": "a/color"}]}},
        {"name": "self", "projected": {"sources": [
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        ]}},
    ]);
    cluster.create("web", spec).await;
    cluster.until_phase("web", "Running").await;
    let shown = || -> Vec<String> {
        let volumes = std::mem::take(&mut *script.volumes.lock().unwrap());
        let files = volumes.into_iter().flat_map(|volume| match volume.content {
            crate::VolumeContent::Files(files) => {
                files.into_iter().map(|(path, file)| (volume.name.clone(), path, file)).collect()
            }
            _ => Vec::new(),
        });
        let line = |(volume, path, file): (String, String, crate::VolumeFile)| {
            let text = String::from_utf8(file.content.to_vec()).unwrap();
            let text = if path == "token" { format!("{} parts", text.split('.').count()) } else { text };
            format!("{volume} {path} {:o} {text}", file.mode)
        };
        files.map(line).collect()
    };
    assert_eq!(shown(), ["settings a/color 400 blue", "self name 644 web", "self token 644 3 parts"]);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let green = kube::api::Patch::Merge(json!({"data": {"color": "green"}}));
    maps.patch("settings", &kube::api::PatchParams::default(), &green).await.unwrap();
    cluster::pass(Duration::from_secs(61)).await;
    assert_eq!(shown(), ["settings a/color 400 green"]);
    // The token is renewed after four fifths of its hour.
    cluster::pass(Duration::from_mins(45)).await;
    assert!(shown().is_empty());
    cluster::pass(Duration::from_mins(4)).await;
    assert_eq!(shown(), ["self name 644 web", "self token 644 3 parts"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_room_is_rejected() {
    let cluster = cluster::simulated().await;
    let spec = |cpu: &str| json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]});
    cluster.create("first", spec("3")).await;
    cluster.until_phase("first", "Running").await;
    cluster.create("second", spec("2")).await;
    cluster.until_phase("second", "Failed").await;
    let status = &cluster.get("second").await.unwrap()["status"];
    assert_eq!(status["reason"], "OutOfcpu");
    let message = "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000";
    assert_eq!(status["message"], format!("Pod was rejected: {message}"));
    assert_eq!(cluster.events("second").await, format!("Warning OutOfcpu : {message}\n"));
    cluster.delete("second").await;
    cluster.until_gone("second").await;
    cluster.delete("first").await;
    cluster.until_gone("first").await;
    cluster.create("third", spec("4")).await;
    cluster.until_phase("third", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn readiness_follows_its_probe() {
    let (cluster, script) = scripted().await;
    script.set("is ready", 1);
    let probe = json!({"exec": command("is ready"), "periodSeconds": 5, "failureThreshold": 2});
    cluster.create("web", pod_of(json!({"name": "main", "readinessProbe": probe}))).await;
    let ready = |wanted: &'static str| move |pod: &Value| condition(pod, "Ready")["status"] == wanted;
    cluster.until_phase("web", "Running").await;
    assert_eq!(condition(&cluster.get("web").await.unwrap(), "Ready")["status"], "False");
    cluster::pass(Duration::from_secs(7)).await;
    script.set("is ready", 0);
    assert_eq!(cluster.until("web", ready("True")).await, 10);
    script.set("is ready", 1);
    assert_eq!(cluster.until("web", ready("False")).await, 20);
    let events = cluster.events("web").await;
    assert!(
        events.contains("Warning Unhealthy spec.containers{main}: Readiness probe failed: said so (x4)"),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_container_that_fails_its_liveness_probe_is_restarted() {
    let (cluster, script) = scripted().await;
    let probe = json!({"exec": command("is alive"), "periodSeconds": 10, "failureThreshold": 3});
    let mut spec = pod_of(json!({"name": "main", "livenessProbe": probe}));
    spec["terminationGracePeriodSeconds"] = json!(5);
    cluster.create_annotated("web", "main: forever ignores TERM", spec).await;
    cluster.until_phase("web", "Running").await;
    cluster::pass(Duration::from_secs(15)).await;
    script.set("is alive", 1);
    let restarted = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1;
    // Failures at 20, 30 and 40 seconds, and five seconds of grace.
    assert_eq!(cluster.until("web", restarted).await, 45);
    let events = cluster.events("web").await;
    assert!(
        events.contains("Warning Unhealthy spec.containers{main}: Liveness probe failed: said so (x3)"),
        "{events}"
    );
    let killing = "Normal Killing spec.containers{main}: Container main failed liveness probe, will be restarted";
    assert!(events.contains(killing), "{events}");
    let pod = cluster.get("web").await.unwrap();
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 137);
}

#[tokio::test(start_paused = true)]
async fn nothing_follows_a_sidecar_before_its_startup_probe_has_passed() {
    let (cluster, script) = scripted().await;
    script.set("has started", 1);
    let probe = json!({"exec": command("has started"), "periodSeconds": 1, "failureThreshold": 100});
    let mut spec = pod_of(json!({"name": "main"}));
    spec["initContainers"] = json!([{"name": "proxy", "restartPolicy": "Always", "startupProbe": probe}]);
    cluster.create("web", spec).await;
    cluster.until("web", |pod| state(pod, "proxy") == "running").await;
    cluster::pass(Duration::from_secs(20)).await;
    assert_eq!(state(&cluster.get("web").await.unwrap(), "main"), "waiting PodInitializing");
    script.set("has started", 0);
    cluster.until("web", |pod| state(pod, "main") == "running").await;
}

#[tokio::test(start_paused = true)]
async fn hooks_run_after_the_start_and_before_the_stop() {
    let (cluster, script) = scripted().await;
    let hooks = json!({"postStart": {"exec": command("hello")}, "preStop": {"sleep": {"seconds": 8}}});
    cluster.create("web", pod_of(json!({"name": "main", "lifecycle": hooks}))).await;
    cluster.until_phase("web", "Running").await;
    cluster.delete("web").await;
    assert_eq!(cluster.until_gone("web").await, 8);

    script.set("hello", 1);
    cluster
        .create("bad", pod_of(json!({"name": "main", "lifecycle": {"postStart": {"exec": command("hello")}}})))
        .await;
    cluster.until("bad", |pod| state(pod, "main").starts_with("waiting CrashLoopBackOff")).await;
    let events = cluster.events("bad").await;
    assert!(events.contains("Warning FailedPostStartHook spec.containers{main}: PostStartHook failed"), "{events}");
    assert!(events.contains("Normal Killing spec.containers{main}: FailedPostStartHook"), "{events}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_app_before_its_sidecars() {
    let (cluster, script) = scripted().await;
    let sidecar = |name: &str| json!({"name": name, "restartPolicy": "Always"});
    let mut spec = pod_of(json!({"name": "main", "lifecycle": {"preStop": {"exec": command("bye")}}}));
    spec["initContainers"] = json!([sidecar("first"), sidecar("second")]);
    cluster.create("web", spec).await;
    cluster.until_phase("web", "Running").await;
    cluster.node.shutdown(Duration::from_mins(1)).await;
    let reported = script.reported.lock().unwrap().join(", ");
    assert_eq!(reported, "bye in main, Term main, Term second, Term first");
    assert_eq!(cluster.get("web").await.unwrap()["status"]["phase"], "Running", "nothing is reported");
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_is_given_other_resources() {
    let (cluster, script) = scripted().await;
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    let resize = |cpu: &str| json!({"spec": {"containers": [{"name": "main", "resources": resources(cpu)}]}});
    cluster.create("web", pod_of(json!({"name": "main", "resources": resources("1")}))).await;
    cluster.create("other", pod_of(json!({"name": "main", "resources": resources("1")}))).await;
    cluster.until_phase("web", "Running").await;
    cluster.until_phase("other", "Running").await;

    cluster.patch("web", Some("resize"), resize("2")).await;
    let has = |cpu: &'static str| {
        move |pod: &Value| pod["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"] == cpu
    };
    cluster.until("web", has("2")).await;
    assert_eq!(script.limits.lock().unwrap().as_slice(), [Limits { cpu_millis: Some(2000), memory: None }]);
    assert_eq!(cluster.get("web").await.unwrap()["status"]["containerStatuses"][0]["restartCount"], 0);

    cluster.patch("web", Some("resize"), resize("3500m")).await;
    cluster.until("web", |pod| condition(pod, "PodResizePending")["reason"] == "Deferred").await;
    let pod = cluster.get("web").await.unwrap();
    let message = "Node didn't have enough resource: cpu, requested: 3500, used: 1000, capacity: 4000";
    assert_eq!(condition(&pod, "PodResizePending")["message"], message);
    assert_eq!(pod["status"]["containerStatuses"][0]["allocatedResources"]["cpu"], "2");

    cluster.patch("web", Some("resize"), resize("5")).await;
    cluster.until("web", |pod| condition(pod, "PodResizePending")["reason"] == "Infeasible").await;

    cluster.patch("web", Some("resize"), resize("3500m")).await;
    cluster.until("web", |pod| condition(pod, "PodResizePending")["reason"] == "Deferred").await;
    cluster.delete("other").await;
    cluster.until("web", has("3500m")).await;
    let pod = cluster.get("web").await.unwrap();
    assert!(condition(&pod, "PodResizePending").is_null());
    assert!(condition(&pod, "PodResizeInProgress").is_null());
    let events = cluster.events("web").await;
    let completed = r#"Normal ResizeCompleted : Pod resize completed: {"containers":[{"name":"main","resources":{"limits":{"cpu":"3500m"},"requests":{"cpu":"3500m"}}}],"generation":5}"#;
    assert!(events.contains(completed), "{events}");
}

#[tokio::test(start_paused = true)]
async fn a_script_that_cannot_be_read_is_reported_to_the_user() {
    let cluster = cluster::simulated().await;
    cluster.create_annotated("web", "main: soon", pod_of(json!({"name": "main"}))).await;
    cluster.until("web", |pod| state(pod, "main") == "waiting CreateContainerError").await;
    let events = cluster.events("web").await;
    assert!(events.contains("Error: annotation pillion.dev/simulate: `soon` of `main` is not understood"), "{events}");
}

#[tokio::test(start_paused = true)]
async fn logs_that_are_not_there_are_explained() {
    let cluster = cluster::simulated().await;
    cluster.create("web", pod_of(json!({"name": "main"}))).await;
    cluster.until_phase("web", "Running").await;
    let get = async |path: &str| -> (u16, String) {
        let request = axum::http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        let response = tower::ServiceExt::oneshot(cluster.node.kubelet(), request).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };
    assert_eq!(get("/containerLogs/default/web/main?tailLines=5").await, (200, String::new()));
    let previous = "previous terminated container \"main\" in pod \"web\" not found";
    assert_eq!(get("/containerLogs/default/web/main?previous=true").await, (400, previous.to_owned()));
    assert_eq!(get("/containerLogs/default/nobody/main").await, (404, "pod \"nobody\" does not exist".to_owned()));
    assert_eq!(get("/healthz").await, (200, "ok".to_owned()));

    let mut waiting = pod_of(json!({"name": "main"}));
    waiting["initContainers"] = json!([{"name": "setup"}]);
    cluster.create_annotated("slow", "setup: 1h", waiting).await;
    cluster.until("slow", |pod| state(pod, "main") == "waiting PodInitializing").await;
    let initializing = "container \"main\" in pod \"slow\" is waiting to start: PodInitializing";
    assert_eq!(get("/containerLogs/default/slow/main").await, (400, initializing.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_at_once_is_never_reported_as_running() {
    let (cluster, _) = scripted().await;
    let seen = cluster.until("web", |pod| {
        assert_ne!(state(pod, "main"), "running");
        pod["status"]["phase"] == "Failed"
    });
    let mut spec = pod_of(json!({"name": "main"}));
    spec["restartPolicy"] = json!("Never");
    cluster.create_annotated("web", "main: 100ms exit 1", spec).await;
    seen.await;
}
