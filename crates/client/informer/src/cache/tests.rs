use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams, PostParams, WatchParams};
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt as _};
use pillion_apiserver::{ApiServer, Config};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn pod(name: &str, version: u32, owner: &str) -> Pod {
    let reference =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true});
    let owners = if owner.is_empty() { json!([]) } else { json!([reference]) };
    let metadata = json!({
        "name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string(), "ownerReferences": owners,
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    });
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn watched<V: View>(events: impl IntoIterator<Item = Event<V::Object>>) -> Cache<V> {
    let cache = Cache::new();
    for event in events {
        cache.apply(event);
    }
    cache
}

fn names(pods: &[Arc<Pod>]) -> Vec<String> {
    pods.iter().map(|pod| pod.name_any()).collect()
}

/// What a stream of changes has reported so far.
fn reported<V>(changes: impl Stream<Item = Change<V>>) -> Vec<(String, bool, bool)> {
    let mut changes = std::pin::pin!(changes);
    let next = || changes.next().now_or_never().flatten();
    std::iter::from_fn(next)
        .map(|change| (change.name.to_string(), change.old.is_some(), change.new.is_some()))
        .collect()
}

/// A pod that belongs to the groups that its label names.
struct Grouped(String);

impl View for Grouped {
    type Object = Pod;

    fn of(pod: Pod) -> Option<Grouped> {
        Some(Grouped(pod.labels().get("groups").cloned().unwrap_or_default()))
    }

    fn groups(&self) -> Vec<Arc<str>> {
        self.0.split('-').map(Arc::from).collect()
    }
}

#[test]
fn objects_are_found_by_their_groups_as_they_change() {
    let grouped = |name: &str, version, groups: &str| {
        let mut pod = pod(name, version, "");
        pod.labels_mut().insert("groups".to_owned(), groups.to_owned());
        pod
    };
    let cache: Cache<Grouped> = watched([Event::Apply(grouped("a", 1, "x-y")), Event::Apply(grouped("b", 2, "y"))]);
    let sizes = || ["x", "y", "z"].map(|group| cache.in_group(group).len());
    assert_eq!(sizes(), [1, 2, 0]);
    cache.written(grouped("a", 3, "y-z"));
    assert_eq!(sizes(), [0, 2, 1]);
    cache.apply(Event::Delete(grouped("b", 4, "y")));
    assert_eq!((sizes(), cache.version()), ([0, 1, 1], 4));
}

#[test]
fn objects_are_found_by_their_controller_and_without_one() {
    let cache: Cache<Pod> =
        watched([Event::Apply(pod("a", 1, "set")), Event::Apply(pod("b", 2, "")), Event::Apply(pod("c", 3, "set"))]);
    assert_eq!(names(&cache.owned_by("set")), ["a", "c"]);
    assert_eq!(names(&cache.orphans("default")), ["b"]);
    cache.written(pod("a", 4, ""));
    assert_eq!(
        (names(&cache.owned_by("set")), names(&cache.orphans("default"))),
        (vec!["c".into()], vec!["a".into(), "b".into()])
    );
    assert_eq!(names(&cache.in_namespace("default")), ["a", "b", "c"]);
    assert_eq!(names(&cache.in_namespace("defaul")), [""; 0]);
    assert_eq!((names(&cache.list()), cache.len()), (names(&cache.in_namespace("default")), 3));
}

#[test]
fn a_write_is_seen_at_once_unless_the_watch_knows_something_newer() {
    let cache: Cache<Pod> = watched([Event::Apply(pod("a", 5, ""))]);
    cache.written(pod("new", 6, ""));
    assert!(cache.get("default", "new").is_some());
    // Created and deleted while the response was under way.
    cache.written(pod("late", 4, ""));
    assert!(cache.get("default", "late").is_none());
    cache.written(pod("a", 3, "set"));
    assert_eq!(names(&cache.owned_by("set")), [""; 0]);
}

#[test]
fn a_deletion_does_not_remove_the_next_object_of_the_name() {
    let mut next = pod("a", 7, "");
    next.metadata.uid = Some("next".into());
    let cache: Cache<Pod> = watched([Event::Apply(pod("a", 5, ""))]);
    cache.written(next);
    cache.apply(Event::Delete(pod("a", 6, "")));
    assert_eq!(cache.get("default", "a").and_then(|pod| pod.uid()).as_deref(), Some("next"));
}

#[test]
fn a_new_list_removes_what_is_gone_and_every_subscriber_hears_of_it() {
    let cache: Cache<Pod> = watched([Event::Apply(pod("gone", 1, "")), Event::Apply(pod("kept", 2, ""))]);
    let changes = cache.changes();
    for event in [Event::Init, Event::InitApply(pod("kept", 2, "")), Event::InitDone] {
        cache.apply(event);
    }
    let expected = [("default/gone", false, true), ("default/kept", false, true), ("default/gone", true, false)];
    assert_eq!(reported(changes), expected.map(|(name, old, new)| (name.to_owned(), old, new)));
}

#[test]
fn an_object_is_held_without_its_managed_fields() {
    let cache: Cache<Pod> = watched([Event::Apply(pod("a", 1, ""))]);
    assert_eq!(cache.get("default", "a").unwrap().metadata.managed_fields, None);
}

/// The owner's name of each pod, and nothing of pods without one.
#[derive(Debug)]
struct OwnerName(String);

impl View for OwnerName {
    type Object = Pod;

    fn of(pod: Pod) -> Option<OwnerName> {
        crate::controller_of(&pod).map(|owner| OwnerName(owner.name.clone()))
    }

    fn is_same(&self, old: &OwnerName) -> bool {
        self.0 == old.0
    }
}

#[test]
fn a_compact_view_is_found_as_an_object_is_and_reports_only_what_it_shows() {
    let cache: Cache<OwnerName> = watched([Event::Apply(pod("a", 1, "set")), Event::Apply(pod("b", 2, ""))]);
    let owners = |views: Vec<Arc<OwnerName>>| views.iter().map(|view| view.0.clone()).collect::<Vec<_>>();
    assert_eq!((owners(cache.list()), owners(cache.owned_by("set"))), (vec!["set".into()], vec!["set".into()]));
    let (held, changes) = cache.subscribe();
    assert_eq!(held.len(), 1);
    cache.written(pod("a", 3, "set"));
    cache.written(pod("a", 4, "other"));
    // Version 3 was applied although nobody saw it, so that version 2 is old.
    cache.written(pod("a", 2, "set"));
    cache.written(pod("a", 5, ""));
    let expected = [("default/a", true, true), ("default/a", true, false)];
    assert_eq!(reported(changes), expected.map(|(name, old, new)| (name.to_owned(), old, new)));
    assert!(cache.is_empty());
}

/// A pod's name, and its owner if that part is included.
struct Parted {
    owner: Option<String>,
}

impl View for Parted {
    type Object = Pod;

    fn of(pod: Pod) -> Option<Parted> {
        Parted::with_parts(pod, 0)
    }

    fn with_parts(pod: Pod, parts: u32) -> Option<Parted> {
        let owner = crate::controller_of(&pod).map(|owner| owner.name.clone());
        Some(Parted { owner: owner.filter(|_| parts & 1 != 0) })
    }
}

#[test]
fn a_part_that_is_included_later_comes_with_the_next_list_and_is_reported() {
    let cache: Cache<Parted> = watched([Event::Apply(pod("a", 1, "set"))]);
    let owner = || cache.get("default", "a").and_then(|view| view.owner.clone());
    let list = || [Event::Init, Event::InitApply(pod("a", 1, "set")), Event::InitDone].map(|event| cache.apply(event));
    cache.include(1);
    assert_eq!(owner(), None);
    let changes = cache.updates();
    list();
    assert_eq!(owner().as_deref(), Some("set"));
    list();
    assert_eq!(
        reported(changes),
        [("default/a".to_owned(), true, true)],
        "only the first list is about a further part"
    );
}

proptest! {
    /// Whatever the order of events, the indexes agree with the objects, and the changes lead to them.
    #[test]
    fn indexes_and_changes_agree_with_the_objects(steps in prop::collection::vec((0..4_u8, 0..4_u8, 0..3_u8), 0..40)) {
        let cache: Cache<Pod> = Cache::new();
        let mut changes = Box::pin(cache.changes());
        for (version, (step, name, owner)) in (1..).zip(steps) {
            let pod = pod(&format!("p{name}"), version, ["", "x", "y"][usize::from(owner)]);
            match step {
                0 => cache.written(pod),
                1 => drop(cache.apply(Event::Delete(pod))),
                2 => for event in [Event::Init, Event::InitApply(pod), Event::InitDone] {
                    cache.apply(event);
                },
                _ => drop(cache.apply(Event::Apply(pod))),
            }
        }
        let mut followed = std::collections::BTreeMap::new();
        while let Some(change) = changes.next().now_or_never().flatten() {
            let old = match &change.new {
                Some(new) => followed.insert(change.name.clone(), Arc::clone(new)),
                None => followed.remove(&change.name),
            };
            prop_assert_eq!(old.map(|old| Arc::as_ptr(&old)), change.old.map(|old| Arc::as_ptr(&old)));
        }
        let all = cache.list();
        prop_assert_eq!(names(&all), names(&followed.into_values().collect::<Vec<_>>()));
        let of = |owner: &str| names(&all.iter().filter(|pod| {
            crate::controller_of(pod.as_ref()).map_or("", |owner| owner.uid.as_str()) == owner
        }).cloned().collect::<Vec<_>>());
        prop_assert_eq!(names(&cache.owned_by("x")), of("x"));
        prop_assert_eq!(names(&cache.owned_by("y")), of("y"));
        prop_assert_eq!(names(&cache.orphans("default")), of(""));
    }
}

async fn client() -> Client {
    let server = ApiServer::new(Config::in_memory());
    server.bootstrap().await.unwrap();
    Client::new(server.router(), "default")
}

fn config_map(name: &str, color: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"color": color}}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_watch_fills_the_cache_with_what_it_selects_and_follows_it() {
    let maps: Api<ConfigMap> = Api::namespaced(client().await, "default");
    for (name, color) in [("a", "red"), ("b", "blue")] {
        maps.create(&PostParams::default(), &config_map(name, color)).await.unwrap();
    }
    let cache: Cache<ConfigMap> = Cache::new();
    assert_eq!(cache.state(), State::Syncing);
    tokio::spawn(cache.clone().run(maps.clone(), watcher::Config::default().labels("color=red")));
    cache.synced().await;
    let mut changes = Box::pin(cache.changes());
    maps.create(&PostParams::default(), &config_map("c", "red")).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let change = changes.next().await.unwrap();
        seen.push((change.name.name.to_string(), change.new.is_some()));
    }
    assert_eq!(seen, [("a".into(), true), ("c".into(), true), ("a".into(), false)]);
    assert_eq!(cache.list().iter().map(|map| map.name_any()).collect::<Vec<_>>(), ["c"]);
}

/// A view that cannot be made of an object named `bad`.
struct Fragile;

impl View for Fragile {
    type Object = ConfigMap;

    fn of(map: ConfigMap) -> Option<Fragile> {
        assert_ne!(map.name_any(), "bad");
        Some(Fragile)
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_or_is_dropped_is_stopped_until_it_runs_again() {
    let maps: Api<ConfigMap> = Api::namespaced(client().await, "default");
    let cache: Cache<Fragile> = Cache::new();
    let run = || tokio::spawn(cache.clone().run(maps.clone(), watcher::Config::default()));
    let dropped = run();
    cache.synced().await;
    dropped.abort();
    cache.stopped().await;
    let panicked = run();
    cache.synced().await;
    maps.create(&PostParams::default(), &config_map("bad", "red")).await.unwrap();
    cache.stopped().await;
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!([State::Synced, cache.state()].into_iter().min(), Some(State::Stopped));
    maps.delete("bad", &DeleteParams::default()).await.unwrap();
    run();
    cache.synced().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_is_visible_until_it_is_accepted_again() {
    let server = ApiServer::new(Config::in_memory());
    server.bootstrap().await.unwrap();
    let is_refused = Arc::new(AtomicBool::new(false));
    let refuse = {
        let is_refused = Arc::clone(&is_refused);
        move |request: Request, next: Next| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let is_refused = is_watch && is_refused.load(Ordering::Relaxed);
            async move { if is_refused { StatusCode::FORBIDDEN.into_response() } else { next.run(request).await } }
        }
    };
    let client = Client::new(server.router().layer(axum::middleware::from_fn(refuse)), "default");
    let cache: Cache<ConfigMap> = Cache::new();
    let maps = Api::all(cache.client(&client));
    let running = tokio::spawn(cache.clone().run(maps, watcher::Config::default()));
    cache.synced().await;
    // The API server ends a watch after five minutes.
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert_eq!(cache.failure(), None);
    is_refused.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(10)).await;
    let failure = cache.failure().unwrap();
    assert!(failure.since.elapsed() > Duration::from_mins(3), "{failure:?}");
    assert_eq!(failure.refused, Some(failure.since));
    assert_eq!(cache.state(), State::Synced);
    // Nothing changes, and all the same it is known that the watch works.
    is_refused.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(cache.failure(), None);
    running.abort();
}

/// How long somebody waits for a watch that the API server answers after this time.
async fn waits_for_a_watch(answered_after: Duration) -> Duration {
    let server = ApiServer::new(Config::in_memory());
    server.bootstrap().await.unwrap();
    let slow = move |request: Request, next: Next| async move {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            tokio::time::sleep(answered_after).await;
        }
        next.run(request).await
    };
    let client = Client::new(server.router().layer(axum::middleware::from_fn(slow)), "default");
    let cache: Cache<ConfigMap> = Cache::new();
    let running = tokio::spawn(cache.clone().run(Api::all(cache.client(&client)), watcher::Config::default()));
    cache.synced().await;
    let start = Instant::now();
    cache.uninterrupted(Duration::from_secs(2)).await;
    let waited = start.elapsed();
    tokio::time::sleep(Duration::from_mins(2)).await;
    // Whoever comes later does not wait.
    assert!(cache.uninterrupted(Duration::from_secs(2)).now_or_never().is_some());
    running.abort();
    waited
}

#[tokio::test(start_paused = true)]
async fn whoever_needs_what_is_newest_waits_for_the_watch_but_not_for_long() {
    for (answered_after, expected) in [(0, 0), (500, 500), (60_000, 2000)] {
        let waited = waits_for_a_watch(Duration::from_millis(answered_after)).await;
        assert_eq!(waited.as_millis(), expected, "{answered_after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_goes_on_where_another_ended_has_a_moment_to_expire() {
    let (contact, longest) = (Contact::default(), Duration::from_secs(2));
    let server = ApiServer::new(Config::in_memory());
    server.bootstrap().await.unwrap();
    let maps: Api<ConfigMap> = Api::all(contact.of(&Client::new(server.router(), "default")));
    let mut waited = Vec::new();
    for is_listed in [false, true] {
        let start = Instant::now();
        contact.interrupted();
        let waiting = contact.clone();
        let waiting = tokio::spawn(async move { waiting.uninterrupted(longest).await });
        if is_listed {
            maps.list(&ListParams::default()).await.unwrap();
        }
        drop(maps.watch(&WatchParams::default(), "1").await.unwrap());
        waiting.await.unwrap();
        waited.push(start.elapsed().as_millis());
    }
    assert_eq!(waited, [50, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_counts_from_when_the_api_server_is_reachable_again() {
    let contact = Contact::default();
    let failed = async |is_refused: bool| {
        contact.failed("no".to_owned(), is_refused);
        tokio::time::sleep(Duration::from_mins(1)).await;
        let failure = contact.failure().unwrap();
        [Some(failure.since), failure.refused].map(|at| at.map(|at| at.elapsed().as_secs() / 60))
    };
    assert_eq!(failed(false).await, [Some(1), None]);
    assert_eq!(failed(true).await, [Some(2), Some(1)]);
    assert_eq!(failed(true).await, [Some(3), Some(2)]);
    assert_eq!(failed(false).await, [Some(4), None]);
    assert_eq!(failed(true).await, [Some(5), Some(1)]);
    contact.succeeded();
    assert_eq!(failed(true).await, [Some(1), Some(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_defined_any_more_is_forgotten_until_it_is_defined_again() {
    let maps: Api<ConfigMap> = Api::namespaced(client().await, "default");
    maps.create(&PostParams::default(), &config_map("a", "red")).await.unwrap();
    let cache: Cache<ConfigMap> = Cache::new();
    let definition = Sender::new(false);
    let is = |wanted: bool| {
        let definition = definition.subscribe();
        move || {
            let mut definition = definition.clone();
            async move { drop(definition.wait_for(|defined| *defined == wanted).await) }
        }
    };
    let running =
        tokio::spawn(cache.clone().run_while_defined(maps.clone(), watcher::Config::default(), is(true), is(false)));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!((cache.state(), cache.len()), (State::Syncing, 0));
    for _ in 0..2 {
        definition.send_replace(true);
        cache.synced().await;
        let changes = cache.changes();
        assert_eq!(cache.len(), 1);
        definition.send_replace(false);
        cache.syncing().await;
        assert_eq!((cache.len(), cache.failure()), (0, None));
        let expected = [("default/a", false, true), ("default/a", true, false)];
        assert_eq!(reported(changes), expected.map(|(name, old, new)| (name.to_owned(), old, new)));
    }
    running.abort();
    cache.stopped().await;
}
