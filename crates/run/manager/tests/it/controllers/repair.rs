//! Pods that were created while the webhook was down.

use std::time::Duration;

use axum::http::Method;
use pillion_manager::{Config, ControllerName, Manager, WebhookAddress};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, URL, asked, names, pod, sidecarset};

const MESH: &str = "/apis/apps.kruise.io/v1beta1/sidecarsets/mesh";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// A pod of a ReplicaSet.
fn owned(name: &str) -> Value {
    let mut pod = pod(name);
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod
}

/// A cluster whose webhook is down for pods for a while, with the set `mesh`.
async fn missed(strategy: Value, pods: &[Value]) -> Cluster {
    let (cluster, manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({"injectionStrategy": strategy}))).await.object();
    cluster.server.register_webhook(URL, axum::Router::new());
    for pod in pods {
        assert_eq!(names(&cluster.create(PODS, pod.clone()).await.object()), ["app"]);
    }
    cluster.server.register_webhook(URL, manager.webhooks());
    tokio::spawn(async move { manager.run().await });
    sleep(Duration::from_secs(3)).await;
    cluster
}

fn condition<'a>(set: &'a Value, condition_type: &str) -> &'a Value {
    let conditions = set["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == condition_type).unwrap()
}

async fn reasons(cluster: &Cluster) -> Vec<String> {
    let events = cluster.get(EVENTS).await;
    let events = events["items"].as_array().unwrap();
    events.iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn missed_pods_are_reported_until_they_are_gone() {
    let mut opted_out = pod("opted-out");
    opted_out["metadata"]["annotations"] = json!({"pillion.dev/inject": "false"});
    let cluster = missed(json!({}), &[pod("web-0"), owned("web-1"), opted_out]).await;
    let set = cluster.get(MESH).await;
    assert_eq!(set["status"]["missedPods"], 2);
    let reported = condition(&set, "PodsInjected");
    assert_eq!((&reported["status"], &reported["reason"]), (&json!("False"), &json!("PodsMissed")));
    assert_eq!(reported["message"], "2 pods without the sidecars: default/web-0, default/web-1");
    assert_eq!(reasons(&cluster).await, ["PodsMissed", "SidecarsMissed", "SidecarsMissed"]);
    let version = set["metadata"]["resourceVersion"].clone();
    sleep(Duration::from_mins(30)).await;
    assert_eq!(cluster.get(MESH).await["metadata"]["resourceVersion"], version, "nothing new is nothing written");

    cluster.create(PODS, pod("web-2")).await.object();
    for name in ["web-0", "web-1"] {
        cluster.request(Method::DELETE, &format!("{PODS}/{name}?gracePeriodSeconds=0"), "", None).await.object();
    }
    sleep(Duration::from_secs(3)).await;
    let set = cluster.get(MESH).await;
    assert_eq!((&set["status"]["missedPods"], &condition(&set, "PodsInjected")["status"]), (&json!(0), &json!("True")));
}

#[tokio::test(start_paused = true)]
async fn missed_pods_are_evicted_at_the_given_rate_but_bare_ones_and_those_of_jobs_are_not() {
    let repair = json!({"repair": {"policy": "Evict", "maxPerMinute": 2}});
    let mut of_job = owned("of-job");
    of_job["metadata"]["ownerReferences"][0]["kind"] = json!("Job");
    let pods: Vec<Value> = (0..5).map(|i| owned(&format!("web-{i}"))).chain([pod("bare"), of_job]).collect();
    let cluster = missed(repair, &pods).await;
    let left = async || cluster.get(PODS).await["items"].as_array().unwrap().len();
    assert_eq!(left().await, 6);
    sleep(Duration::from_secs(31)).await;
    assert_eq!(left().await, 5);
    sleep(Duration::from_mins(5)).await;
    assert_eq!(pod_names(&cluster).await, ["bare", "of-job"]);
}

/// Creates a pod while the webhook is down.
async fn create_missed(cluster: &Cluster, manager: &Manager, name: &str) {
    cluster.server.register_webhook(URL, axum::Router::new());
    assert_eq!(names(&cluster.create(PODS, owned(name)).await.object()), ["app"]);
    cluster.server.register_webhook(URL, manager.webhooks());
}

async fn pod_names(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.get(PODS).await;
    let items = pods["items"].as_array().unwrap().iter();
    items.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn every_outage_is_repaired_but_what_had_no_effect_is_not_repeated() {
    let (cluster, manager) = Cluster::managed().await;
    let repair = json!({"injectionStrategy": {"repair": {"policy": "Evict"}}});
    cluster.create(SIDECARSETS, sidecarset("mesh", repair)).await.object();
    tokio::spawn({
        let manager = manager.clone();
        async move { manager.run().await }
    });
    for outage in ["first", "second"] {
        create_missed(&cluster, &manager, &format!("missed-{outage}")).await;
        sleep(Duration::from_secs(5)).await;
        assert!(!pod_names(&cluster).await.contains(&format!("missed-{outage}")), "the {outage} outage is repaired");
        // The ReplicaSet replaces it.
        cluster.create(PODS, owned(&format!("replaced-{outage}"))).await.object();
        sleep(Duration::from_secs(5)).await;
    }
    // The webhook is down for pods again and again.
    create_missed(&cluster, &manager, "missed-third").await;
    sleep(Duration::from_secs(5)).await;
    create_missed(&cluster, &manager, "missed-again").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(pod_names(&cluster).await, ["missed-again", "replaced-first", "replaced-second"]);
    let set = cluster.get(MESH).await;
    let message = condition(&set, "PodsInjected")["message"].as_str().unwrap();
    assert!(message.contains("1 pod in place of evicted ones has no sidecars either"), "{message}");
    let events = reasons(&cluster).await;
    assert_eq!(events.iter().filter(|reason| *reason == "EvictionInVain").count(), 1, "{events:?}");
    assert!(asked(&manager, "/metrics").await.1.contains("pillion_missed_pods{sidecarset=\"mesh\"} 1"));

    // One that has its sidecars is an effect.
    cluster.create(PODS, owned("replaced-third")).await.object();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(pod_names(&cluster).await, ["replaced-first", "replaced-second", "replaced-third"]);
    assert_eq!(cluster.get(MESH).await["status"]["missedPods"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_leads_no_more_reports_no_missed_pods() {
    let (cluster, manager) = Cluster::managed().await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let running = tokio::spawn({
        let manager = manager.clone();
        async move { manager.run().await }
    });
    create_missed(&cluster, &manager, "missed").await;
    sleep(Duration::from_secs(5)).await;
    let metrics = asked(&manager, "/metrics").await.1;
    assert!(metrics.contains("pillion_missed_pods{sidecarset=\"mesh\"} 1"), "{metrics}");
    running.abort();
    assert!(running.await.is_err_and(|error| error.is_cancelled()));
    let metrics = asked(&manager, "/metrics").await.1;
    assert!(!metrics.contains("pillion_missed_pods{"), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn older_pods_are_missed_only_where_the_set_says_so() {
    let (cluster, manager) = Cluster::managed().await;
    cluster.create(PODS, pod("old")).await.object();
    sleep(Duration::from_secs(5)).await;
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    tokio::spawn(async move { manager.run().await });
    sleep(Duration::from_secs(5)).await;
    assert!(cluster.get(MESH).await["status"]["missedPods"].as_i64().unwrap_or(0) == 0);
    let older = json!({"spec": {"injectionStrategy": {"repair": {"includeOlder": true}}}});
    cluster.merge(MESH, older).await.object();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(cluster.get(MESH).await["status"]["missedPods"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_protects_missed_pods() {
    let (cluster, manager) = Cluster::managed().await;
    let budget =
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1}});
    cluster.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget).await.object();
    let repair = json!({"injectionStrategy": {"repair": {"policy": "Evict"}}});
    cluster.create(SIDECARSETS, sidecarset("mesh", repair)).await.object();
    cluster.server.register_webhook(URL, axum::Router::new());
    cluster.create(PODS, owned("web-0")).await.object();
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    cluster.merge(&format!("{PODS}/web-0/status"), running).await.object();
    cluster.server.register_webhook(URL, manager.webhooks());
    tokio::spawn(async move { manager.run().await });
    sleep(Duration::from_mins(10)).await;
    assert_eq!(cluster.get(PODS).await["items"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_set_that_must_not_be_missed_says_whether_that_is_so() {
    let cluster = missed(json!({"failurePolicy": "Fail"}), &[]).await;
    let set = cluster.get(MESH).await;
    assert_eq!(condition(&set, "FailurePolicyEnforced")["status"], "True");
    let open = json!({"spec": {"injectionStrategy": {"failurePolicy": "Ignore"}}});
    cluster.merge(MESH, open).await.object();
    sleep(Duration::from_secs(3)).await;
    let set = cluster.get(MESH).await;
    let mut conditions = set["status"]["conditions"].as_array().into_iter().flatten();
    assert!(!conditions.any(|condition| condition["type"] == "FailurePolicyEnforced"), "{}", set["status"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_before_the_api_server_can_call_the_webhooks() {
    let cluster = Cluster::new().await;
    cluster.namespace("pillion-system", json!({})).await;
    let address =
        WebhookAddress::Service { namespace: "pillion-system".into(), name: "pillion-webhook".into(), port: 443 };
    let manager = Manager::new(Config { address, ..cluster.config() });
    // Nobody answers yet, though the manager runs.
    manager.start().await.unwrap();
    cluster.server.register_webhook("https://pillion-webhook-conversion.pillion-system.svc:443", manager.webhooks());
    tokio::spawn({
        let manager = manager.clone();
        async move { manager.run().await }
    });
    let slices = "/apis/discovery.k8s.io/v1/namespaces/pillion-system/endpointslices";
    let slice = |is_ready: bool| {
        let metadata =
            json!({"name": "pillion-webhook-1", "labels": {"kubernetes.io/service-name": "pillion-webhook"}});
        let endpoint = json!({"addresses": ["10.0.0.1"], "conditions": {"ready": is_ready}});
        json!({"metadata": metadata, "addressType": "IPv4", "ports": [], "endpoints": [endpoint]})
    };
    cluster.create(slices, slice(false)).await.object();
    sleep(Duration::from_secs(5)).await;
    cluster.server.register_webhook("https://pillion-webhook.pillion-system.svc:443", manager.webhooks());
    let strategy = json!({"injectionStrategy": {"repair": {"policy": "Evict"}}});
    cluster.create(SIDECARSETS, sidecarset("mesh", strategy)).await.object();
    cluster.server.register_webhook("https://pillion-webhook.pillion-system.svc:443", axum::Router::new());
    assert_eq!(names(&cluster.create(PODS, owned("web-0")).await.object()), ["app"]);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(cluster.get(PODS).await["items"].as_array().unwrap().len(), 1);

    cluster.merge(&format!("{slices}/pillion-webhook-1"), slice(true)).await.object();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(cluster.get(PODS).await["items"].as_array().unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_where_no_program_has_registered_the_webhooks() {
    let cluster = Cluster::new().await;
    let repair = Manager::new(Config { parts: vec![ControllerName::Repair], ..cluster.config() });
    repair.start().await.unwrap();
    cluster.create(PODS, owned("web-0")).await.object();
    let strategy = json!({"injectionStrategy": {"repair": {"policy": "Evict", "includeOlder": true}}});
    cluster.create(SIDECARSETS, sidecarset("mesh", strategy)).await.object();
    tokio::spawn(async move { repair.run().await });
    sleep(Duration::from_mins(2)).await;
    assert_eq!(cluster.get(MESH).await["status"]["missedPods"], 1);
    assert_eq!(pod_names(&cluster).await, ["web-0"]);

    cluster.manage(cluster.config()).await;
    sleep(Duration::from_mins(2)).await;
    assert!(pod_names(&cluster).await.is_empty());
}
