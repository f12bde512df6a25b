//! `policy: Quota` is exact, whatever happens on the way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse as _;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use pillion_manager::Manager;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::cluster::{Cluster, Running, URL};
use crate::faults::Faults;

const PARTITION: usize = 90;
const PODS: usize = 300;

/// Three managers behind one address, whose first revision of `mesh` is pinned for 90 pods.
async fn three_managers(cluster: &Cluster, faults: Option<&Faults>) -> Vec<Running> {
    three_managers_with(cluster, faults, json!(PARTITION)).await
}

async fn three_managers_with(cluster: &Cluster, faults: Option<&Faults>, partition: Value) -> Vec<Running> {
    let client = || faults.map_or_else(|| cluster.client(), |faults| faults.client(cluster.engine.server()));
    let mut running = Vec::new();
    for name in ["a", "b", "c"] {
        let config = pillion_manager::Config { identity: Some(name.to_owned()), ..cluster.config(client()) };
        running.push(cluster.manage(config).await);
    }
    let webhooks: Arc<[Router]> = running.iter().map(|running| Manager::webhooks(&running.manager)).collect();
    let turn = Arc::new(AtomicUsize::new(0));
    let in_turn = Router::new().fallback(move |request: Request| {
        let webhook = webhooks[turn.fetch_add(1, Ordering::Relaxed) % webhooks.len()].clone();
        async move { webhook.oneshot(request).await.into_response() }
    });
    cluster.engine.server().register_webhook(URL, in_turn);
    cluster.create_set("envoy:1", json!({"updateStrategy": {"partition": partition}})).await;
    cluster.until("a revision", async || cluster.revisions().await.len() == 1).await;
    let pin = json!({"revision": {"revisionName": cluster.latest_revision().await, "policy": "Quota"}});
    let containers = json!([{"name": "proxy", "image": "envoy:2"}]);
    cluster.patch_set("mesh", json!({"spec": {"containers": containers, "injectionStrategy": pin}})).await;
    cluster.until("places", async || places(cluster).await.is_some_and(|places| places["pods"] == 0)).await;
    running
}

async fn places(cluster: &Cluster) -> Option<Value> {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "pillion-system");
    let maps = api.list(&ListParams::default()).await.unwrap();
    let map = maps
        .into_iter()
        .find(|map| map.metadata.name.as_deref().is_some_and(|name| name.starts_with("pillion-places-")));
    serde_json::from_str(map?.data?.get("places")?).ok()
}

fn pod(i: usize) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": format!("web-{i}"), "labels": {"app": "web"}},
        // What is counted is who was admitted; where the pods run does not matter.
        "spec": {"containers": [{"name": "app", "image": "app:1"}], "schedulingGates": [{"name": "test/never"}]},
    }))
    .unwrap()
}

async fn create(cluster: &Cluster, range: std::ops::Range<usize>, is_dry_run: bool) {
    let parameters = PostParams { dry_run: is_dry_run, ..PostParams::default() };
    let pods = cluster.api::<Pod>();
    let all = range.map(|i| {
        let (pods, parameters) = (pods.clone(), parameters.clone());
        tokio::spawn(async move { pods.create(&parameters, &pod(i)).await.map(drop) })
    });
    for created in all.collect::<Vec<_>>() {
        created.await.unwrap().unwrap();
    }
}

/// Sees every pod that is created, and whether more of them have the pinned revision than may have it at any moment.
async fn watch_over(cluster: &Cluster) -> (Arc<AtomicBool>, tokio::task::JoinHandle<()>) {
    let (is_broken, pods) = (Arc::new(AtomicBool::new(false)), cluster.api::<Pod>());
    let listed = pods.list(&ListParams::default()).await.unwrap();
    let version = listed.metadata.resource_version.unwrap();
    let mut old: BTreeSet<String> = listed.items.iter().filter(|pod| has_old(pod)).map(ResourceExt::name_any).collect();
    let broken = Arc::clone(&is_broken);
    let task = tokio::spawn(async move {
        let mut events = pods.watch(&WatchParams::default().timeout(290), &version).await.unwrap().boxed();
        while let Some(event) = events.next().await {
            match event.unwrap() {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) if has_old(&pod) => old.insert(pod.name_any()),
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                    old.remove(&pod.name_any())
                }
                _ => false,
            };
            if old.len() > PARTITION {
                broken.store(true, Ordering::Relaxed);
            }
        }
    });
    (is_broken, task)
}

fn has_old(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.into_iter().any(|container| container.image.as_deref() == Some("envoy:1"))
}

fn runs() -> u64 {
    std::env::var("PILLION_QUOTA_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1)
}

#[tokio::test(start_paused = true)]
async fn three_managers_and_three_hundred_pods_at_once_fill_exactly_ninety_places() {
    for run in 0..runs() {
        let cluster = Cluster::start().await;
        let managers = three_managers(&cluster, None).await;
        create(&cluster, 1000..1010, true).await;
        assert_eq!(places(&cluster).await.unwrap()["granted"], json!({}), "a dry run takes no place");
        let (is_broken, watching) = watch_over(&cluster).await;
        create(&cluster, 0..PODS, false).await;
        watching.abort();
        assert_eq!(cluster.with_image("envoy:1").await, PARTITION, "run {run}");
        cluster.until_status(json!({"matchedPods": PODS, "updatedPods": PODS - PARTITION})).await;
        assert_eq!(cluster.with_image("envoy:1").await, PARTITION, "run {run}");
        assert!(!is_broken.load(Ordering::Relaxed), "run {run}");
        let counted = places(&cluster).await.unwrap();
        assert_eq!((&counted["pods"], &counted["granted"]), (&json!(PARTITION), &json!({})), "every place was seen");
        managers.into_iter().for_each(Running::kill);
    }
}

#[tokio::test(start_paused = true)]
async fn a_percentage_is_exact_against_the_pods_that_were_admitted_before() {
    let cluster = Cluster::start().await;
    let managers = three_managers_with(&cluster, None, json!("30%")).await;
    let mut admitted = 0;
    for more in [1, 2, 7, 40, 150] {
        create(&cluster, admitted..admitted + more, false).await;
        admitted += more;
        assert_eq!(cluster.with_image("envoy:1").await, (admitted * 30).div_ceil(100), "of {admitted} pods");
    }
    cluster.until_status(json!({"matchedPods": admitted})).await;
    let is_counted = async || {
        let places = places(&cluster).await.unwrap();
        places["granted"] == json!({}) && places["passed"].is_null() && places["matched"] == admitted
    };
    cluster.until("every pod is counted", is_counted).await;
    managers.into_iter().for_each(Running::kill);
}

/// Conflicts, timeouts and lost answers.
#[tokio::test(start_paused = true)]
async fn places_whose_pods_never_came_are_given_back() {
    for seed in 0..runs() {
        never_came(7 + seed).await;
    }
}

async fn never_came(seed: u64) {
    let cluster = Cluster::start().await;
    let faults = Faults::new(seed);
    let managers = three_managers(&cluster, Some(&faults)).await;
    let (is_broken, watching) = watch_over(&cluster).await;
    faults.start();
    create(&cluster, 0..PODS, false).await;
    faults.stop();
    watching.abort();
    assert!(cluster.with_image("envoy:1").await <= PARTITION && !is_broken.load(Ordering::Relaxed));
    // Places whose answers were lost expire, and pods that come later take them.
    sleep(Duration::from_mins(5)).await;
    cluster
        .until("every place is seen or expired", async || places(&cluster).await.unwrap()["granted"] == json!({}))
        .await;
    let (is_broken, watching) = watch_over(&cluster).await;
    create(&cluster, PODS..PODS + 100, false).await;
    watching.abort();
    assert_eq!(cluster.with_image("envoy:1").await, PARTITION);
    assert!(!is_broken.load(Ordering::Relaxed));
    managers.into_iter().for_each(Running::kill);
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_when_its_pod_is_gone_and_a_lower_partition_pins_no_new_pods() {
    let cluster = Cluster::start().await;
    let managers = three_managers(&cluster, None).await;
    create(&cluster, 0..100, false).await;
    let is_counted = async || places(&cluster).await.unwrap()["granted"] == json!({});
    cluster.until("every pod is counted", is_counted).await;
    let old: Vec<String> = cluster
        .pods()
        .await
        .iter()
        .filter(|pod| crate::cluster::proxy(pod)["image"] == "envoy:1")
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(old.len(), PARTITION);
    for name in &old[..3] {
        cluster.delete_pod(name).await;
    }
    cluster.until("the pods are gone", async || places(&cluster).await.unwrap()["pods"] == PARTITION - 3).await;
    create(&cluster, 200..210, false).await;
    assert_eq!(cluster.with_image("envoy:1").await, PARTITION);
    cluster.patch_set("mesh", json!({"spec": {"updateStrategy": {"partition": 50, "maxUnavailable": "50%"}}})).await;
    create(&cluster, 300..310, false).await;
    cluster.until("pods beyond the partition are updated", async || cluster.with_image("envoy:1").await == 50).await;
    managers.into_iter().for_each(Running::kill);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_gives_the_latest_revision_and_a_warning() {
    let cluster = Cluster::start().await;
    let managers = three_managers(&cluster, None).await;
    managers.into_iter().for_each(Running::kill);
    let silent = crate::faults::silent_config_maps(cluster.engine.server());
    let _running = cluster.manage(cluster.config(silent)).await;
    let before = tokio::time::Instant::now();
    create(&cluster, 0..1, false).await;
    assert!(before.elapsed() < Duration::from_secs(2));
    assert_eq!(cluster.with_image("envoy:2").await, 1);
}
