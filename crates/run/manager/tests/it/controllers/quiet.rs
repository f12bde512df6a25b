//! A cluster in which nothing changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{self, Next};
use kube::Client;
use pillion_api::sidecarset::crd;
use pillion_api::{probe_marker, vpa};
use pillion_manager::{Config, ControllerName, Manager};
use serde_json::json;
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, URL, asked, names, pod, readyz, sidecarset};

#[tokio::test(start_paused = true)]
async fn where_nothing_changes_nothing_but_leases_is_written() {
    let cluster = Cluster::new().await;
    for namespace in ["pillion-system", "kruise-system"] {
        cluster.namespace(namespace, json!({})).await;
    }
    let (client, writes) = cluster.counted_client();
    let config = cluster.config();
    let rightsizing = pillion_rightsizer::Config::new(client.clone(), config.now.clone());
    let manager = cluster.manage(Config { client, rightsizing, parts: ControllerName::ALL.to_vec(), ..config }).await;
    let running = tokio::spawn(async move { manager.run().await });
    // Something of everything that controllers look at.
    let own = |app: &str, spec: serde_json::Value| {
        let mut spec = spec;
        spec["selector"] = json!({"matchLabels": {"app": app}});
        sidecarset(app, spec)
    };
    cluster
        .create(SIDECARSETS, own("web", json!({"updateStrategy": {"type": "RollingUpdate", "partition": 1}})))
        .await
        .object();
    cluster.create(SIDECARSETS, own("strict", json!({"injectionStrategy": {"failurePolicy": "Fail"}}))).await.object();
    let mut bare = pod("missed");
    bare["metadata"]["labels"]["app"] = json!("late");
    cluster.create(PODS, bare).await.object();
    let repair = json!({"injectionStrategy": {"repair": {"policy": "Evict", "includeOlder": true}}});
    cluster.create(SIDECARSETS, own("late", repair)).await.object();
    for i in 0..3 {
        assert_eq!(names(&cluster.create(PODS, pod(&format!("web-{i}"))).await.object()).len(), 2);
        let status = json!({"name": "app", "image": "app:1", "imageID": "app@1", "ready": true, "restartCount": 0});
        let running = json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [status],
        }});
        cluster.merge(&format!("{PODS}/web-{i}/status"), running).await.object();
    }
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let autoscaler = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}, "spec": {"targetRef": target},
    });
    cluster.create("/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers", autoscaler).await.object();
    let newer = json!({"spec": {"containers": [{"name": "proxy", "image": "envoy:1.31"}]}});
    cluster.merge(&format!("{SIDECARSETS}/web"), newer).await.object();
    // Longer than the deadline of the rollout, whose pods do not become ready.
    sleep(Duration::from_mins(30)).await;
    assert!(writes.lock().unwrap().iter().any(|write| write.contains("/leases/")), "{writes:?}");
    assert_eq!(cluster.get(&format!("{SIDECARSETS}/late")).await["status"]["missedPods"], 1);
    writes.lock().unwrap().clear();

    sleep(Duration::from_hours(1)).await;
    let mut others = std::mem::take(&mut *writes.lock().unwrap());
    others.retain(|write| !write.contains("/leases/"));
    others.dedup();
    assert_eq!(others, [""; 0]);
    running.abort();
}

/// The requests of a replica, by what they do and where: `list /api/v1/pods`.
type Requests = Arc<Mutex<BTreeMap<String, usize>>>;

/// A client whose requests are counted.
fn counting(cluster: &Cluster) -> (Client, Requests) {
    let requests = Requests::default();
    let counted = Arc::clone(&requests);
    let count = move |request: Request, next: Next| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let verb = match *request.method() {
            Method::GET if is_watch => "watch",
            Method::GET => "read",
            _ => "write",
        };
        *counted.lock().unwrap().entry(format!("{verb} {}", request.uri().path())).or_default() += 1;
        next.run(request)
    };
    (Client::new(cluster.server.router().layer(middleware::from_fn(count)), "default"), requests)
}

/// A replica of an installation with every controller; its requests are counted.
async fn replica(cluster: &Cluster, identity: &str) -> (Manager, Requests) {
    replica_of(cluster, identity, ControllerName::ALL.to_vec()).await
}

/// The same with some of the controllers.
async fn replica_of(cluster: &Cluster, identity: &str, parts: Vec<ControllerName>) -> (Manager, Requests) {
    let serves = parts.contains(&ControllerName::Webhook);
    let (client, requests) = counting(cluster);
    let config = cluster.config();
    let rightsizing = pillion_rightsizer::Config::new(client.clone(), config.now.clone());
    let manager = Manager::new(Config {
        client,
        rightsizing,
        parts,
        identity: Some(identity.to_owned()),
        installs_definition: false,
        ..config
    });
    if serves {
        cluster.server.register_webhook(URL, manager.webhooks());
    }
    manager.start().await.unwrap();
    let running = manager.clone();
    tokio::spawn(async move { running.run().await });
    (manager, requests)
}

/// How many requests of a kind a replica sends in a minute, and which.
fn per_minute(requests: &Requests, verb: &str, minutes: usize) -> (usize, Vec<String>) {
    let requests = requests.lock().unwrap();
    let of_kind = requests.iter().filter(|(request, _)| request.starts_with(verb));
    let total = of_kind.clone().map(|(_, count)| count).sum::<usize>();
    (total.div_ceil(minutes), of_kind.map(|(request, count)| format!("{count} {request}")).collect())
}

/// A cluster on which everything is installed that a manager needs.
async fn installed() -> Cluster {
    let cluster = Cluster::new().await;
    for namespace in ["pillion-system", "kruise-system"] {
        cluster.namespace(namespace, json!({})).await;
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let all = [crd::sidecarset(), vpa::crd::vertical_pod_autoscaler(), vpa::crd::checkpoint(), probe_marker::crd()];
    for definition in all {
        cluster.create(definitions, definition).await.object();
    }
    cluster
}

/// The controllers that a replica leads.
async fn leads(manager: &Manager) -> Vec<String> {
    let metrics = asked(manager, "/metrics").await.1;
    let lines = metrics.lines().filter_map(|line| line.strip_prefix("pillion_leader{controller=\""));
    lines.filter_map(|line| line.strip_suffix("\"} 1").map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_a_replica_of_an_older_version_leads_is_not_led_before_it_gives_it_up() {
    let cluster = installed().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/pillion-system/leases";
    let spec =
        json!({"holderIdentity": "old", "leaseDurationSeconds": 1_000_000, "renewTime": "2026-01-01T00:00:00.000000Z"});
    cluster.create(leases, json!({"metadata": {"name": "pillion-rollout"}, "spec": spec})).await.object();
    let (new, _) = replica(&cluster, "a").await;
    sleep(Duration::from_mins(1)).await;
    let mut others: Vec<&str> =
        ControllerName::ALL.iter().map(|part| part.name()).filter(|name| *name != "rollout").collect();
    others.sort_unstable();
    let mut led = leads(&new).await;
    led.sort_unstable();
    assert_eq!(led, others);
    assert_eq!(readyz(&new).await.1, "ok");

    let released = json!({"spec": {"holderIdentity": ""}});
    cluster.merge(&format!("{leases}/pillion-rollout"), released).await.object();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(leads(&new).await.len(), ControllerName::ALL.len());
    // An older replica sees a holder that has not expired.
    let held = cluster.get(&format!("{leases}/pillion-rollout")).await["spec"].clone();
    assert_eq!((&held["holderIdentity"], &held["leaseDurationSeconds"]), (&json!("a@pillion-webhook"), &json!(180)));
}

/// As `pillion install --separate` has it.
#[tokio::test(start_paused = true)]
async fn controllers_in_processes_of_their_own_hold_a_lease_each() {
    let cluster = installed().await;
    let mut managers = Vec::new();
    for part in ControllerName::ALL {
        managers.push(replica_of(&cluster, part.name(), vec![part]).await.0);
    }
    let (other, _) = replica_of(&cluster, "other", vec![ControllerName::Rollout]).await;
    sleep(Duration::from_mins(1)).await;
    let held = async || {
        let leases = cluster.get("/apis/coordination.k8s.io/v1/namespaces/pillion-system/leases").await;
        let of = |lease: &serde_json::Value| {
            let text = |pointer: &str| lease.pointer(pointer).unwrap().as_str().unwrap().to_owned();
            let holder = text("/spec/holderIdentity");
            (text("/metadata/name"), (holder, lease["spec"]["leaseDurationSeconds"].as_u64().unwrap()))
        };
        leases["items"].as_array().unwrap().iter().map(of).collect::<BTreeMap<_, _>>()
    };
    let mut expected: BTreeMap<_, _> =
        ControllerName::ALL.map(|part| (part.lease().to_owned(), (part.name().to_owned(), 15))).into();
    assert_eq!(held().await, expected);
    for (part, manager) in ControllerName::ALL.iter().zip(&managers) {
        assert_eq!(leads(manager).await, [part.name()]);
    }
    // One that ends is followed, and the others go on.
    managers[ControllerName::ALL.iter().position(|part| *part == ControllerName::Rollout).unwrap()].stop();
    sleep(Duration::from_secs(10)).await;
    expected.insert(ControllerName::Rollout.lease().to_owned(), ("other".to_owned(), 15));
    assert_eq!(held().await, expected);
    assert_eq!(leads(&other).await, [ControllerName::Rollout.name()]);
}

#[tokio::test(start_paused = true)]
async fn an_installation_at_rest_asks_for_next_to_nothing() {
    const MINUTES: u32 = 10;
    let cluster = installed().await;
    let (leader, of_leader) = replica(&cluster, "a").await;
    sleep(Duration::from_mins(2)).await;
    let (_other, of_other) = replica(&cluster, "b").await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    assert_eq!(names(&cluster.create(PODS, pod("web-0")).await.object()), ["proxy", "app"]);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let autoscaler = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}, "spec": {"targetRef": target},
    });
    cluster.create("/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers", autoscaler).await.object();
    sleep(Duration::from_mins(30)).await;
    for requests in [&of_leader, &of_other] {
        requests.lock().unwrap().clear();
    }
    sleep(Duration::from_mins(1) * MINUTES).await;
    let (mut writes, mut reads, mut requests_of_all) = (0, 0, Vec::new());
    for requests in [&of_leader, &of_other] {
        for (verb, total) in [("write", &mut writes), ("read", &mut reads)] {
            let (count, which) = per_minute(requests, verb, usize::try_from(MINUTES).unwrap());
            *total += count;
            requests_of_all.extend(which);
        }
    }
    assert!(writes <= 30, "{writes} writes a minute: {requests_of_all:#?}");
    assert!(reads <= 5, "{reads} reads a minute: {requests_of_all:#?}");
    // One of them leads everything.
    assert_eq!(leads(&leader).await.len(), ControllerName::ALL.len());
}
