//! A cluster that OpenKruise has served so far.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use pillion_api::sidecarset::{self, crd, hash, hash_without_image, revision};
use pillion_manager::{Config, ControllerName, Manager, Peer, WebhookAddress};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, Writes, names, pod, readyz};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
/// The configurations of OpenKruise.
const CONFIGURATIONS: [&str; 2] = [
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kruise-mutating-webhook-configuration",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kruise-validating-webhook-configuration",
];
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kruise-system/leases";
const REVISIONS: &str = "/apis/apps/v1/namespaces/kruise-system/controllerrevisions";

/// How far OpenKruise has come with its rollout.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rollout {
    /// Pods of both revisions, and nothing that holds it up.
    UnderWay,
    /// Every pod has the new revision.
    Done,
    /// Pods of both revisions, and the set is paused.
    Paused,
    /// Pods of both revisions, and as many old ones as the partition keeps.
    Partition,
}

impl Rollout {
    fn strategy(self) -> Value {
        let mut strategy = json!({"type": "RollingUpdate", "maxUnavailable": 1, "partition": 0});
        match self {
            Rollout::UnderWay | Rollout::Done => {}
            Rollout::Paused => strategy["paused"] = json!(true),
            Rollout::Partition => strategy["partition"] = json!(2),
        }
        strategy
    }
}

/// A cluster whose rollout is under way.
async fn kruise() -> Cluster {
    kruise_with(Rollout::UnderWay).await
}

/// A cluster with a SidecarSet, its revisions and its pods as OpenKruise writes them, and an OpenKruise that runs.
async fn kruise_with(rollout: Rollout) -> Cluster {
    let cluster = Cluster::new().await;
    cluster.namespace("kruise-system", json!({})).await;
    let service = json!({"namespace": "kruise-system", "name": "kruise-webhook-service", "path": "/convert"});
    let mut definition = crd::sidecarset();
    definition["spec"]["conversion"] = json!({
        "strategy": "Webhook", "webhook": {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1", "v1beta1"]},
    });
    cluster.create(DEFINITIONS, definition).await.object();
    sleep(Duration::from_secs(1)).await;

    let (old, new) = (set("envoy:1.29", rollout), set("envoy:1.30", rollout));
    let created = cluster.create(SIDECARSETS, new.clone()).await.object();
    let status = json!({"status": {"observedGeneration": 1, "matchedPods": 4, "updatedPods": 2, "readyPods": 4, "updatedReadyPods": 2}});
    cluster.merge(&format!("{SIDECARSETS}/mesh/status"), status).await.object();
    for (number, set) in [(1, &old), (2, &new)] {
        let mut decoded = sidecarset::decode(set.clone()).unwrap();
        decoded.metadata.uid = created["metadata"]["uid"].as_str().map(str::to_owned);
        cluster.create(REVISIONS, revision::new(&decoded, number, "kruise-system")).await.object();
    }
    // What the pods have that are not updated, unless all of them are.
    let (old, image) = if rollout == Rollout::Done { (&new, "envoy:1.30") } else { (&old, "envoy:1.29") };
    cluster.create(PODS, injected("current", &new, "envoy:1.30")).await.object();
    cluster.create(PODS, injected("older", old, image)).await.object();
    let mut updated = injected("updated-in-place", &new, "envoy:1.30");
    let state = json!({"mesh": {
        "revision": "mesh-6f9c", "updateTimestamp": "2025-12-01T00:00:00Z", "lastContainerStatuses": {"proxy": {"imageID": "sha256:1"}},
    }});
    updated["metadata"]["annotations"]["kruise.io/sidecarset-inplace-update-state"] = state.to_string().into();
    cluster.create(PODS, updated).await.object();
    let mut legacy = injected("legacy", old, image);
    let old_hash = &old["metadata"]["annotations"]["kruise.io/sidecarset-hash"];
    legacy["metadata"]["annotations"]["kruise.io/sidecarset-hash"] = json!({"mesh": old_hash}).to_string().into();
    cluster.create(PODS, legacy).await.object();
    for name in ["current", "older", "updated-in-place", "legacy"] {
        let status =
            |name: &str| json!({"name": name, "image": name, "imageID": "sha256:2", "ready": true, "restartCount": 0});
        let mut conditions = vec![json!({"type": "Ready", "status": "True"})];
        if name == "updated-in-place" {
            // OpenKruise sets it on the pods that it has updated.
            conditions.push(json!({"type": "SidecarSetUpgradable", "status": "True", "message": r#"{"mesh":true}"#}));
        }
        let running = json!({"status": {
            "phase": "Running", "conditions": conditions, "containerStatuses": [status("proxy"), status("app")],
        }});
        cluster.merge(&format!("{PODS}/{name}/status"), running).await.object();
    }

    let entry = |name: &str, group: &str, resource: &str| {
        json!({
            "name": name, "clientConfig": {"service": {"namespace": "kruise-system", "name": "kruise-webhook-service"}},
            "rules": [{"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["CREATE"]}],
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1", "v1beta1"],
        })
    };
    let sets = |name: &str| entry(name, "apps.kruise.io", "sidecarsets");
    let mutating = json!({
        "metadata": {"name": "kruise-mutating-webhook-configuration"},
        "webhooks": [entry("mpod.kb.io", "", "pods"), sets("msidecarset.kb.io")],
    });
    cluster.create(MUTATING, mutating).await.object();
    let validating = json!({"metadata": {"name": "kruise-validating-webhook-configuration"}, "webhooks": [sets("vsidecarset.kb.io")]});
    cluster.create(VALIDATING, validating).await.object();
    cluster.create(LEASES, json!({"metadata": {"name": "kruise-manager"}, "spec": lease(&cluster)})).await.object();
    cluster
}

fn lease(cluster: &Cluster) -> Value {
    let now = format!("{:.6}", cluster.server.clock().now());
    json!({"holderIdentity": "kruise-controller-manager-0", "leaseDurationSeconds": 15, "renewTime": now})
}

/// The SidecarSet as OpenKruise stores it: with its defaults and its hashes.
fn set(image: &str, rollout: Rollout) -> Value {
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
        "metadata": {"name": "mesh", "annotations": {}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{
                "name": "proxy", "image": image, "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "podInjectPolicy": "BeforeAppContainer", "shareVolumePolicy": {"type": "disabled"},
                "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
            }],
            "injectionStrategy": {}, "revisionHistoryLimit": 10,
            "updateStrategy": rollout.strategy(),
        },
    });
    let decoded = sidecarset::decode(set.clone()).unwrap();
    set["metadata"]["annotations"] = json!({
        "kruise.io/sidecarset-hash": hash(&decoded),
        "kruise.io/sidecarset-hash-without-image": hash_without_image(&decoded),
    });
    set
}

/// A pod as OpenKruise's webhook has left it.
fn injected(name: &str, set: &Value, image: &str) -> Value {
    let mut pod = pod(name);
    let record = |key: &str| {
        json!({"mesh": {
            "updateTimestamp": "2025-12-01T00:00:00Z", "hash": set["metadata"]["annotations"][key],
            "sidecarSetName": "mesh", "sidecarList": ["proxy"],
        }})
    };
    pod["metadata"]["annotations"] = json!({
        "kruise.io/sidecarset-hash": record("kruise.io/sidecarset-hash").to_string(),
        "kruise.io/sidecarset-hash-without-image": record("kruise.io/sidecarset-hash-without-image").to_string(),
        "kruise.io/sidecarset-injected-list": "mesh",
    });
    let proxy = json!({"name": "proxy", "image": image, "env": [{"name": "IS_INJECTED", "value": "true"}]});
    pod["spec"]["containers"].as_array_mut().unwrap().insert(0, proxy);
    pod
}

/// What a manager has written.
/// A manager as a Deployment runs it, in the cluster, whose writes are counted.
fn manage(cluster: &Cluster, take_over: &[Peer]) -> (Manager, Writes, JoinHandle<()>) {
    // A rollout that OpenKruise has begun goes on, which writes to pods: here it is somebody else's part.
    manage_parts(cluster, take_over, vec![ControllerName::Webhook, ControllerName::Repair])
}

/// The same with these parts.
fn manage_parts(
    cluster: &Cluster,
    take_over: &[Peer],
    parts: Vec<ControllerName>,
) -> (Manager, Writes, JoinHandle<()>) {
    let (client, writes) = cluster.counted_client();
    let address =
        WebhookAddress::Service { namespace: "pillion-system".into(), name: "pillion-webhook".into(), port: 443 };
    let take_over = take_over.to_vec();
    let config = Config { parts, ..cluster.config() };
    let manager = Manager::new(Config { client, address, installs_definition: false, take_over, ..config });
    cluster.server.register_webhook("https://pillion-webhook.pillion-system.svc:443", manager.webhooks());
    let running = tokio::spawn({
        let manager = manager.clone();
        async move {
            manager.start().await.unwrap();
            Box::pin(manager.run()).await.unwrap();
        }
    });
    (manager, writes, running)
}

/// OpenKruise renews its Lease for a while.
async fn run_kruise(cluster: &Cluster, seconds: u64) {
    for _ in 0..seconds / 5 {
        cluster.merge(&format!("{LEASES}/kruise-manager"), json!({"spec": lease(cluster)})).await.object();
        sleep(Duration::from_secs(5)).await;
    }
}

async fn versions(cluster: &Cluster, path: &str) -> Vec<(Value, Value)> {
    let list = cluster.get(path).await;
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| (item["metadata"]["name"].clone(), item["metadata"]["resourceVersion"].clone())).collect()
}

#[tokio::test(start_paused = true)]
async fn what_open_kruise_has_written_is_taken_over_without_a_write_to_a_pod() {
    let cluster = kruise().await;
    let before = (versions(&cluster, PODS).await, versions(&cluster, REVISIONS).await);
    let (manager, writes, running) = manage(&cluster, &[Peer::Kruise]);
    run_kruise(&cluster, 60).await;
    let (status, text) = readyz(&manager).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.starts_with("waiting: OpenKruise still serves SidecarSets; stop it: `kubectl "), "{text}");

    sleep(Duration::from_secs(30)).await;
    let (_, text) = readyz(&manager).await;
    assert!(text.starts_with("waiting: OpenKruise has stopped, but its webhooks"), "{text}");
    assert!(writes.lock().unwrap().is_empty(), "{writes:?}");

    for path in CONFIGURATIONS {
        cluster.request(Method::DELETE, path, "", None).await.object();
    }
    sleep(Duration::from_hours(1)).await;
    assert_eq!(readyz(&manager).await, (StatusCode::OK, "ok".to_owned()));
    assert_eq!((versions(&cluster, PODS).await, versions(&cluster, REVISIONS).await), before);
    assert!(!writes.lock().unwrap().iter().any(|write| write.contains("/pods")), "{writes:?}");
    let set = cluster.get(&format!("{SIDECARSETS}/mesh")).await;
    assert_eq!((&set["metadata"]["generation"], &set["status"]["missedPods"]), (&json!(1), &Value::Null));

    let new = cluster.create(PODS, pod("new")).await.object();
    assert_eq!(names(&new), ["proxy", "app"]);
    assert_eq!(new["spec"]["containers"][0]["image"], "envoy:1.30");
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn no_part_of_the_manager_writes_to_pods_that_open_kruise_has_left_as_they_should_be() {
    for rollout in [Rollout::Done, Rollout::Paused, Rollout::Partition] {
        let cluster = kruise_with(rollout).await;
        for path in CONFIGURATIONS {
            cluster.request(Method::DELETE, path, "", None).await.object();
        }
        let before = (versions(&cluster, PODS).await, versions(&cluster, REVISIONS).await);
        let (manager, writes, running) = manage_parts(&cluster, &[Peer::Kruise], ControllerName::ALL.to_vec());
        sleep(Duration::from_hours(1)).await;
        assert_eq!(readyz(&manager).await, (StatusCode::OK, "ok".to_owned()));
        let writes = writes.lock().unwrap().clone();
        assert!(!writes.iter().any(|write| write.contains("/pods")), "{rollout:?}: {writes:?}");
        let after = (versions(&cluster, PODS).await, versions(&cluster, REVISIONS).await);
        assert_eq!(after, before, "{rollout:?}");
        let set = cluster.get(&format!("{SIDECARSETS}/mesh")).await;
        let updated = if rollout == Rollout::Done { 4 } else { 2 };
        let counted = (&set["status"]["matchedPods"], &set["status"]["updatedPods"]);
        assert_eq!(counted, (&json!(4), &json!(updated)), "{rollout:?}");
        running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn without_being_asked_the_manager_leaves_a_cluster_to_open_kruise() {
    let cluster = kruise().await;
    let definition = cluster.get(&format!("{DEFINITIONS}/sidecarsets.apps.kruise.io")).await;
    let (manager, writes, running) = manage(&cluster, &[]);
    run_kruise(&cluster, 3600).await;
    let (status, text) = readyz(&manager).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.contains("then start with --take-over=kruise"), "{text}");
    // An OpenKruise that is restarted does not lose its objects meanwhile.
    sleep(Duration::from_mins(1)).await;
    assert!(readyz(&manager).await.1.contains("OpenKruise does not run, but its webhooks"));
    assert!(writes.lock().unwrap().is_empty(), "{writes:?}");
    let after = cluster.get(&format!("{DEFINITIONS}/sidecarsets.apps.kruise.io")).await;
    assert_eq!(after["metadata"]["resourceVersion"], definition["metadata"]["resourceVersion"]);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn an_open_kruise_that_is_gone_is_no_obstacle() {
    let cluster = kruise().await;
    for path in CONFIGURATIONS {
        cluster.request(Method::DELETE, path, "", None).await.object();
    }
    let (manager, _, running) = manage(&cluster, &[]);
    run_kruise(&cluster, 30).await;
    assert!(readyz(&manager).await.1.starts_with("waiting: OpenKruise serves SidecarSets"), "its controller runs");
    sleep(Duration::from_secs(30)).await;
    assert_eq!(readyz(&manager).await, (StatusCode::OK, "ok".to_owned()));
    running.abort();
}

/// Who else has written the conversion owns it: an apply alone would leave two addresses, which the API server refuses.
#[tokio::test(start_paused = true)]
async fn the_conversion_of_somebody_else_is_replaced_by_one_at_a_url_and_back() {
    let cluster = kruise().await;
    for path in CONFIGURATIONS {
        cluster.request(Method::DELETE, path, "", None).await.object();
    }
    let path = format!("{DEFINITIONS}/sidecarsets.apps.kruise.io");
    let _outside = cluster.manage(cluster.config()).await;
    let client = cluster.get(&path).await["spec"]["conversion"]["webhook"]["clientConfig"].clone();
    assert_eq!((&client["url"], &client["service"]), (&json!("https://pillion.invalid/convert"), &Value::Null));

    let other =
        json!({"spec": {"conversion": {"webhook": {"clientConfig": {"url": "https://other.invalid/convert"}}}}});
    cluster.merge(&path, other).await.object();
    let (_, _, running) = manage(&cluster, &[Peer::Kruise]);
    sleep(Duration::from_mins(1)).await;
    let client = cluster.get(&path).await["spec"]["conversion"]["webhook"]["clientConfig"].clone();
    assert_eq!((&client["url"], &client["service"]["name"]), (&Value::Null, &json!("pillion-webhook-conversion")));
    running.abort();
}

/// What OpenKruise registers and renews when it is installed.
async fn install_kruise(cluster: &Cluster) {
    let entry = |name: &str| {
        json!({
            "name": name, "clientConfig": {"service": {"namespace": "kruise-system", "name": "kruise-webhook-service"}},
            "rules": [{"apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "resources": ["sidecarsets"], "operations": ["DELETE"]}],
            "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        })
    };
    let mutating = json!({"metadata": {"name": "kruise-mutating-webhook-configuration"}, "webhooks": [entry("msidecarset.kb.io")]});
    cluster.create(MUTATING, mutating).await.object();
    cluster.create(LEASES, json!({"metadata": {"name": "kruise-manager"}, "spec": lease(cluster)})).await.object();
}

async fn our_entries(cluster: &Cluster) -> Vec<String> {
    let configuration = cluster.get(&format!("{MUTATING}/pillion")).await;
    let entries = configuration["webhooks"].as_array().unwrap().iter();
    entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn an_open_kruise_that_is_installed_later_gets_its_objects_and_they_come_back_when_it_goes() {
    let cluster = Cluster::new().await;
    for namespace in ["kruise-system", "pillion-system"] {
        cluster.namespace(namespace, json!({})).await;
    }
    cluster.create(DEFINITIONS, crd::sidecarset()).await.object();
    let (manager, writes, running) = manage(&cluster, &[]);
    sleep(Duration::from_secs(10)).await;
    let mut strict = crate::sidecarset("mesh", json!({"injectionStrategy": {"failurePolicy": "Fail"}}));
    cluster.create(SIDECARSETS, strict.clone()).await.object();
    sleep(Duration::from_secs(10)).await;
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);
    let ours = ["pods.pillion.dev", "mesh.pods.pillion.dev", "sidecarsets.pillion.dev"];
    assert_eq!(our_entries(&cluster).await, ours);

    install_kruise(&cluster).await;
    run_kruise(&cluster, 60).await;
    let (status, text) = readyz(&manager).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert!(text.starts_with("ok, but standing by: OpenKruise serves SidecarSets"), "{text}");
    // Pods are still asked about, for autoscalers and their own marks; nothing is refused, and nothing is injected.
    assert_eq!(our_entries(&cluster).await, ["pods.pillion.dev"]);
    assert_eq!(names(&cluster.create(PODS, pod("web-1")).await.object()), ["app"]);
    let events = cluster.get("/api/v1/namespaces/pillion-system/events").await;
    let reasons: Vec<&Value> = events["items"].as_array().unwrap().iter().map(|event| &event["reason"]).collect();
    assert_eq!(reasons, ["StandingBy"]);
    // Somebody else's objects are not written to, and pods without sidecars are not reported.
    writes.lock().unwrap().clear();
    strict["spec"]["containers"][0]["image"] = json!("envoy:1.31");
    cluster.merge(&format!("{SIDECARSETS}/mesh"), json!({"spec": strict["spec"]})).await.object();
    run_kruise(&cluster, 600).await;
    assert!(writes.lock().unwrap().is_empty(), "{writes:?}");

    cluster.request(Method::DELETE, CONFIGURATIONS[0], "", None).await.object();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(readyz(&manager).await, (StatusCode::OK, "ok".to_owned()));
    assert_eq!(our_entries(&cluster).await, ours);
    // Nobody has given the changed set its defaults: its containers come last.
    assert_eq!(names(&cluster.create(PODS, pod("web-2")).await.object()), ["app", "proxy"]);
    let set = cluster.get(&format!("{SIDECARSETS}/mesh")).await;
    assert_eq!(set["status"]["missedPods"], 1, "what was created meanwhile is found");
    running.abort();
}
