//! Watchers survive what happens to them: lost connections, refusals, and a history that is gone.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::reflector::{self, Store};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt as _, reflector as reflect};
use pillion_scenarios::TestCluster;
use pillion_scenarios::faults::{Count, Faults};
use serde_json::json;
use tokio::time::{sleep, timeout};

/// Two seconds after every error; kube's own backoff draws lots.
struct TwoSeconds;

impl Iterator for TwoSeconds {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_secs(2))
    }
}

impl Backoff for TwoSeconds {
    fn reset(&mut self) {}
}

fn configs() -> [watcher::Config; 2] {
    [watcher::Config::default(), watcher::Config::default().streaming_lists()]
}

/// Changes twenty objects by chance, one change every 100 ms. Gives name and version of each change, in their order.
async fn churn(config_maps: &Api<ConfigMap>, start: u64, changes: u32) -> Vec<(String, String)> {
    let mut random = fastrand::Rng::with_seed(start);
    let mut log = Vec::new();
    for change in 0..changes {
        sleep(Duration::from_millis(100)).await;
        let name = format!("object-{}", random.u8(0..20));
        let is_there = config_maps.get_opt(&name).await.unwrap().is_some();
        let changed = if is_there && random.u8(0..4) == 0 {
            config_maps.delete(&name, &DeleteParams::default()).await.unwrap();
            None
        } else {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"change": change.to_string()}
            });
            let apply = PatchParams::apply("churn");
            Some(config_maps.patch(&name, &apply, &Patch::Apply(object)).await.unwrap())
        };
        log.push((name, changed.and_then(|object| object.resource_version()).unwrap_or_default()));
    }
    log
}

fn versions<'a>(objects: impl IntoIterator<Item = &'a ConfigMap>) -> BTreeMap<String, Option<String>> {
    objects.into_iter().map(|object| (object.name_any(), object.resource_version())).collect()
}

fn held(store: &Store<ConfigMap>) -> BTreeMap<String, Option<String>> {
    versions(store.state().iter().map(AsRef::as_ref))
}

#[tokio::test(start_paused = true)]
async fn in_a_storm_a_watcher_sees_every_change_once_and_in_order() {
    for (start, config) in (1..).zip(configs()) {
        let cluster = TestCluster::embedded().await.unwrap();
        let faults = Faults::storm(start);
        let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let through_the_storm: Api<ConfigMap> = Api::default_namespaced(faults.client(cluster.server().unwrap()));
        let (inits, mut seen) = (std::cell::Cell::new(0), Vec::new());
        let mut watching =
            Box::pin(watcher(through_the_storm, config).backoff(TwoSeconds).filter_map(async |event| match event {
                Ok(Event::InitDone) => {
                    inits.set(inits.get() + 1);
                    None
                }
                Ok(Event::Apply(object)) => Some((object.name_any(), object.resource_version().unwrap())),
                Ok(Event::Delete(object)) => Some((object.name_any(), String::new())),
                Ok(Event::Init | Event::InitApply(_)) | Err(_) => None,
            }));
        // The list of nothing has to come through first, so that every change is an event.
        while inits.get() == 0 {
            let _ = timeout(Duration::from_secs(1), watching.next()).await;
        }
        let changing = churn(&config_maps, start, 600);
        tokio::pin!(changing);
        let made = loop {
            tokio::select! {
                made = &mut changing => break made,
                event = watching.next() => seen.extend(event),
            }
        };
        faults.cease();
        while seen.len() < made.len() {
            seen.extend(timeout(Duration::from_mins(10), watching.next()).await.unwrap());
        }
        assert_eq!(seen, made);
        assert_eq!(inits.get(), 1, "a history that is long enough is never listed again");
        let Count { refused, failed, throttled, cut } = faults.count();
        assert!([refused, failed, throttled, cut].iter().all(|count| *count > 3), "too fair: {:?}", faults.count());
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_storm_a_reflector_with_a_short_history_ends_at_what_is_there() {
    for (start, config) in (1..).zip(configs().into_iter().cycle().take(4)) {
        let history = pillion_store::Options { history: 8, ..pillion_store::Options::default() };
        let cluster = TestCluster::embedded_with(history).await.unwrap();
        let faults = Faults::storm(start);
        let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let through_the_storm: Api<ConfigMap> = Api::default_namespaced(faults.client(cluster.server().unwrap()));
        let (store, writer) = reflector::store();
        let mut gone = 0;
        let mut watching = Box::pin(
            reflect(writer, watcher(through_the_storm, config))
                .inspect_err(|error| {
                    gone += u32::from(matches!(error, watcher::Error::WatchError(status) if status.code == 410));
                })
                .backoff(TwoSeconds),
        );
        let changing = churn(&config_maps, start, 600);
        tokio::pin!(changing);
        loop {
            tokio::select! {
                _ = &mut changing => break,
                event = watching.next() => drop(event.unwrap()),
            }
        }
        faults.cease();
        let listed = versions(&config_maps.list(&ListParams::default()).await.unwrap().items);
        while held(&store) != listed {
            let event = timeout(Duration::from_mins(10), watching.next()).await;
            drop(event.unwrap_or_else(|_| panic!("{start}: {:?} is held, {listed:?} is there", held(&store))));
        }
        drop(watching);
        assert!(gone > 3, "{start}: the history was gone {gone} times");
        assert!(faults.count().cut > 3, "{start}: {:?}", faults.count());
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_looked_away_for_too_long_lists_again() {
    for config in configs() {
        let history = pillion_store::Options { history: 8, ..pillion_store::Options::default() };
        let cluster = TestCluster::embedded_with(history).await.unwrap();
        let config_maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let (store, writer) = reflector::store();
        let mut watching = Box::pin(reflect(writer, watcher(config_maps.clone(), config)));
        churn(&config_maps, 1, 30).await;
        while !matches!(watching.next().await.unwrap(), Ok(Event::InitDone)) {}
        for start in 2..5 {
            churn(&config_maps, start, 30).await;
            let error = watching.next().await.unwrap().unwrap_err();
            assert!(
                matches!(&error, watcher::Error::WatchError(status) if status.code == 410 && status.reason == "Expired"),
                "{error}"
            );
            while !matches!(watching.next().await.unwrap(), Ok(Event::InitDone)) {}
            assert_eq!(held(&store), versions(&config_maps.list(&ListParams::default()).await.unwrap().items));
        }
    }
}
