//! Hours in milliseconds: controllers, leases, bookmarks and timeouts, each at its exact time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher::{self, watcher};
use kube::{Client, Resource as _, ResourceExt as _};
use pillion_clock::Clock;
use pillion_scenarios::TestCluster;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

const BEGINNING: &str = "2026-01-01T00:00:00Z";

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"value": value}})).unwrap()
}

/// What a reconciler works with.
struct Context {
    client: Client,
    clock: Clock,
    reconciled: Mutex<Vec<Timestamp>>,
}

/// Every ConfigMap has a Secret of the same content; looked at again after five minutes.
async fn reconcile(owner: Arc<ConfigMap>, context: Arc<Context>) -> kube::Result<Action> {
    context.reconciled.lock().unwrap().push(context.clock.now());
    let secret = Secret {
        metadata: kube::api::ObjectMeta {
            name: owner.metadata.name.clone(),
            owner_references: owner.controller_owner_ref(&()).map(|reference| vec![reference]),
            ..kube::api::ObjectMeta::default()
        },
        string_data: owner.data.clone(),
        ..Secret::default()
    };
    let secrets: Api<Secret> = Api::default_namespaced(context.client.clone());
    secrets.patch(&owner.name_any(), &PatchParams::apply("copier").force(), &Patch::Apply(secret)).await?;
    Ok(Action::requeue(minutes(5)))
}

#[tokio::test(start_paused = true)]
async fn a_controller_of_kube_reconciles_to_the_second_for_seven_hours() {
    let started = std::time::Instant::now();
    let cluster = TestCluster::embedded().await.unwrap();
    let client = cluster.client();
    let clock = cluster.server().unwrap().clock();
    let context = Arc::new(Context { client: client.clone(), clock, reconciled: Mutex::default() });
    let config_maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let secrets: Api<Secret> = Api::default_namespaced(client);
    config_maps.create(&PostParams::default(), &config_map("settings", "one")).await.unwrap();
    let controller = Controller::new(config_maps.clone(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default())
        .run(reconcile, |_, error, _| panic!("{error}"), context.clone())
        .for_each(|outcome| async { drop(outcome.unwrap()) });
    let running = tokio::spawn(controller);

    sleep(minutes(42)).await;
    secrets.delete("settings", &DeleteParams::default()).await.unwrap();
    sleep(minutes(58)).await;
    config_maps
        .patch("settings", &PatchParams::default(), &Patch::Merge(json!({"data": {"value": "two"}})))
        .await
        .unwrap();
    sleep(minutes(319)).await;
    running.abort();

    // A reconciliation that writes the Secret is followed by one that sees it and writes nothing. 42 minutes in the Secret
    // is deleted, 58 minutes later the ConfigMap changes; five minutes are counted from the last reconciliation.
    let expected = [0, 0].into_iter().chain((5..42).step_by(5)).chain([42, 42]).chain((47..100).step_by(5));
    let expected = expected.chain([100, 100]).chain((105..420).step_by(5));
    let start: Timestamp = BEGINNING.parse().unwrap();
    let expected: Vec<Timestamp> = expected.map(|minute| start + SignedDuration::from_mins(minute)).collect();
    assert_eq!(*context.reconciled.lock().unwrap(), expected);
    let secret = secrets.get("settings").await.unwrap();
    assert_eq!(secret.data.unwrap()["value"], ByteString(b"two".to_vec()));
    assert_eq!(secret.metadata.creation_timestamp.unwrap().0, start + SignedDuration::from_mins(42));
    println!("seven hours took {:?}", started.elapsed());
}

fn managed_by(name: &str) -> PostParams {
    PostParams { field_manager: Some(name.to_owned()), ..PostParams::default() }
}

/// Holds a Lease of 15 seconds as soon as it can, and renews it every 10 until it is dropped.
async fn lead(client: Client, clock: Clock, name: &str) -> kube::Result<()> {
    let leases: Api<Lease> = Api::default_namespaced(client);
    loop {
        let lease = leases.get("leader").await?;
        let spec = lease.spec.clone().unwrap_or_default();
        let now = clock.now();
        let held_until = spec.renew_time.as_ref().map(|time| time.0 + SignedDuration::from_secs(15));
        let is_mine = spec.holder_identity.as_deref() == Some(name);
        if !is_mine && held_until.is_some_and(|until| now < until) {
            sleep(Duration::from_secs(1)).await;
            continue;
        }
        let acquired = if is_mine { spec.acquire_time.clone() } else { Some(MicroTime(now)) };
        let transitions = spec.lease_transitions.unwrap_or_default() + i32::from(!is_mine);
        let spec = LeaseSpec {
            holder_identity: Some(name.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(transitions),
            acquire_time: acquired,
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        };
        match leases.replace("leader", &managed_by(name), &Lease { spec: Some(spec), ..lease }).await {
            Ok(_) => sleep(Duration::from_secs(10)).await,
            Err(kube::Error::Api(status)) if status.is_conflict() => sleep(Duration::from_secs(1)).await,
            Err(error) => return Err(error),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_by_the_clock_of_the_server_and_taken_over_when_it_ends() {
    let cluster = TestCluster::embedded().await.unwrap();
    let (client, clock) = (cluster.client(), cluster.server().unwrap().clock());
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    let lease = json!({"metadata": {"name": "leader"}, "spec": {"leaseDurationSeconds": 15}});
    leases.create(&managed_by("test"), &serde_json::from_value(lease).unwrap()).await.unwrap();
    let first = timeout(Duration::from_secs(605), lead(client.clone(), clock, "first"));
    let second = timeout(Duration::from_secs(1206), lead(client.clone(), clock, "second"));
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_err() && second.is_err(), "the candidates end when their time is over: {first:?} {second:?}");

    let lease = leases.get("leader").await.unwrap();
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("second"));
    assert_eq!(spec.lease_transitions, Some(2));
    let start: Timestamp = BEGINNING.parse().unwrap();
    // The first renewed at 600 s for the last time; the second, which looks every second, took over 15 s later.
    assert_eq!(spec.acquire_time.unwrap().0, start + SignedDuration::from_secs(615));
    assert_eq!(spec.renew_time.unwrap().0, start + SignedDuration::from_secs(1205));
    assert_eq!(lease.metadata.creation_timestamp.unwrap().0, start);
    let times = lease.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.time);
    assert_eq!(times.map(|time| time.0).max(), Some(start + SignedDuration::from_secs(1205)));
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_has_a_bookmark_every_minute_and_ends_when_it_said() {
    let cluster = TestCluster::embedded().await.unwrap();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let before = config_maps.create(&PostParams::default(), &config_map("settings", "one")).await.unwrap();
    let started = Instant::now();
    let version = before.resource_version().unwrap();
    let watch = config_maps.watch(&WatchParams::default().timeout(242), &version).await.unwrap();
    // A write to another resource: the bookmarks carry the watch past it.
    let lease: Lease = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    let leases: Api<Lease> = Api::default_namespaced(cluster.client());
    let newest = leases.create(&PostParams::default(), &lease).await.unwrap().resource_version().unwrap();
    let seen: Vec<(u64, String)> = watch
        .map_ok(|event| match event {
            WatchEvent::Bookmark(bookmark) => (started.elapsed().as_secs(), bookmark.metadata.resource_version),
            other => panic!("{other:?} is no bookmark"),
        })
        .try_collect()
        .await
        .unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(242));
    assert_eq!(seen, [60, 120, 180, 240].map(|second| (second, newest.clone())));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_resumes_after_each_timeout_and_misses_nothing() {
    let cluster = TestCluster::embedded().await.unwrap();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let name = format!("counter-{:?}", config.initial_list_strategy).to_lowercase();
        config_maps.create(&PostParams::default(), &config_map(&name, "0")).await.unwrap();
        let counting = async {
            for count in 1..=400 {
                // Thirteen times in each watch of ten seconds, and sometimes just as it ends.
                sleep(Duration::from_millis(750)).await;
                let patch = Patch::Merge(json!({"data": {"value": count.to_string()}}));
                config_maps.patch(&name, &PatchParams::default(), &patch).await.unwrap();
            }
        };
        let config = config.timeout(10).fields(&format!("metadata.name={name}"));
        let watching = watcher(config_maps.clone(), config)
            .map(|event| match event.unwrap() {
                watcher::Event::Init => "begin".to_owned(),
                watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                    object.data.unwrap()["value"].clone()
                }
                watcher::Event::InitDone => "watch".to_owned(),
                watcher::Event::Delete(object) => panic!("nobody deleted {object:?}"),
            })
            .take(3 + 400)
            .collect::<Vec<String>>();
        let ((), seen) = tokio::join!(counting, watching);
        let numbers = (0..=400).map(|count: u32| count.to_string());
        let mut expected: Vec<String> = ["begin".to_owned()].into_iter().chain(numbers).collect();
        expected.insert(2, "watch".to_owned());
        assert_eq!(seen, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_in_this_process_is_given_up_after_its_timeout() {
    let cluster = TestCluster::embedded().await.unwrap();
    let server = cluster.server().unwrap();
    let answer = async || {
        sleep(minutes(60)).await;
        "too late"
    };
    server.register_webhook("https://slow.example.com/", Router::new().route("/answer", post(answer)));
    let configuration: ValidatingWebhookConfiguration = serde_json::from_value(json!({
        "metadata": {"name": "slow"},
        "webhooks": [{
            "name": "slow.example.com", "clientConfig": {"url": "https://slow.example.com/answer"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 7,
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]
        }]
    }))
    .unwrap();
    Api::all(cluster.client()).create(&PostParams::default(), &configuration).await.unwrap();
    let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let started = Instant::now();
    let refused = config_maps.create(&PostParams::default(), &config_map("settings", "one")).await.unwrap_err();
    assert_eq!(started.elapsed(), Duration::from_secs(7));
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(
        status.message,
        "Internal error occurred: failed calling webhook \"slow.example.com\": failed to call webhook: \
         Post \"https://slow.example.com/answer?timeout=7s\": context deadline exceeded"
    );
}
