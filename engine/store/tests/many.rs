//! Many writers, many watches.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::path::Path;
use std::sync::Arc;

use pillion_store::{Event, EventKind, Expired, Key, Options, Store, Write, WriteError};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

fn counter(count: u64) -> Map<String, Value> {
    serde_json::from_value(json!({"metadata": {"name": "counter"}, "count": count})).unwrap()
}

fn count(bytes: &[u8]) -> u64 {
    serde_json::from_slice::<Value>(bytes).unwrap()["count"].as_u64().unwrap()
}

async fn create(store: &Store, key: &Key) -> Arc<Event> {
    store.write(Write::Create { key: key.clone(), object: counter(0) }).await.unwrap()
}

async fn increment(store: &Store, key: &Key) {
    let mut current = store.get(key).unwrap();
    loop {
        let object = counter(count(&current.bytes) + 1);
        match store.write(Write::Update { key: key.clone(), expected: current.resource_version, object }).await {
            Ok(_) => return,
            Err(WriteError::Conflict { current: found }) => current = found,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Writers that all want the same object lose no update, and every watch sees every one of them.
async fn contend(store: Store) {
    const WRITERS: u64 = 8;
    const INCREMENTS: u64 = 50;
    const WATCHES: usize = 20;
    let key = Key::new("counters", "default", "counter");
    let begin = store.resource_version();
    create(&store, &key).await;

    let mut watches = JoinSet::new();
    for _ in 0..WATCHES {
        let mut watch = store.watch("counters", Some("default"), begin).unwrap();
        watches.spawn(async move {
            let mut versions = Vec::new();
            while versions.len() < usize::try_from(WRITERS * INCREMENTS).unwrap() + 1 {
                let event = watch.next().await.unwrap().unwrap();
                assert_eq!(count(&event.object.bytes), versions.len() as u64);
                versions.push(event.resource_version());
            }
            versions
        });
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (store, key) = (store.clone(), key.clone());
        writers.spawn(async move {
            let own = Key::new("others", "default", format!("other-{writer}"));
            create(&store, &own).await;
            for _ in 0..INCREMENTS {
                increment(&store, &key).await;
                increment(&store, &own).await;
            }
        });
    }
    writers.join_all().await;
    assert_eq!(count(&store.get(&key).unwrap().bytes), WRITERS * INCREMENTS);
    assert_eq!(store.resource_version(), begin + 1 + WRITERS + 2 * WRITERS * INCREMENTS);
    let seen = watches.join_all().await;
    assert!(seen.iter().all(|versions| *versions == seen[0] && versions.is_sorted()));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_update_is_lost_in_memory() {
    contend(Store::memory(Options::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_update_is_lost_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    contend(Store::open(folder.path(), Options::default()).unwrap()).await;
}

/// What a list says and what a watch from its version says fit together, whatever is written meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_and_the_watch_after_it_have_no_gap() {
    let store = Store::memory(Options::default());
    let key = Key::new("counters", "default", "counter");
    create(&store, &key).await;
    let writer = tokio::spawn({
        let (store, key) = (store.clone(), key.clone());
        async move {
            for _ in 0..2000 {
                increment(&store, &key).await;
                tokio::task::consume_budget().await;
            }
        }
    });
    while !writer.is_finished() {
        let list = store.list("counters", None);
        let (_, _, listed) = list.iter().next().unwrap();
        assert!(listed.resource_version <= list.resource_version());
        let mut watch = store.watch("counters", None, list.resource_version()).unwrap();
        if count(&listed.bytes) < 2000 {
            let event = watch.next().await.unwrap().unwrap();
            assert_eq!(count(&event.object.bytes), count(&listed.bytes) + 1);
            assert_eq!(event.previous.as_ref(), Some(listed));
        }
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn a_slow_watch_expires_once_and_a_quick_one_does_not() {
    let store = Store::memory(Options { history: 10, ..Options::default() });
    let key = Key::new("counters", "default", "counter");
    create(&store, &key).await;
    let begin = store.resource_version();
    let mut slow = store.watch("counters", None, begin).unwrap();
    let mut quick = store.watch("counters", None, begin).unwrap();
    let other = store.watch("others", None, begin).unwrap();
    for count in 1..=25 {
        increment(&store, &key).await;
        assert_eq!(quick.next().await.unwrap().unwrap().resource_version(), begin + count);
    }
    let expired = Expired { requested: begin, oldest: begin + 15 };
    assert_eq!(slow.next().await.unwrap().unwrap_err(), expired);
    assert!(slow.next().await.is_none());
    assert_eq!(store.watch("counters", None, begin + 14).unwrap_err().oldest, begin + 15);
    assert_eq!(store.list_at("counters", None, begin + 15).unwrap().len(), 1);
    assert_eq!(other.resource_version(), begin + 25, "nothing of its resource was missed");
    assert!(store.watch("others", None, begin).is_ok(), "the log of another resource has not moved");
}

/// A paused clock runs ahead as soon as a runtime has nothing to do. Then the timer would win.
#[tokio::test]
async fn in_memory_a_write_is_done_at_its_first_poll() {
    let store = Store::memory(Options::default());
    let key = Key::new("counters", "default", "counter");
    tokio::select! {
        biased;
        _ = create(&store, &key) => {}
        () = std::future::ready(()) => panic!("the write was pending"),
    }
    increment(&store, &key).await;
    let current = store.get(&key).unwrap();
    let deleted = store.write(Write::Delete { key, expected: current.resource_version }).await.unwrap();
    assert_eq!(deleted.kind, EventKind::Deleted);
    assert_eq!(deleted.object.bytes, r#"{"metadata":{"name":"counter","resourceVersion":"4"},"count":1}"#);
}

#[tokio::test]
async fn a_version_is_never_given_twice_even_if_its_object_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let open = |folder: &Path| Store::open(folder, Options::default()).unwrap();
    let key = Key::new("counters", "", "counter");
    let mut newest = 1;
    for _ in 0..3 {
        let store = open(folder.path());
        assert_eq!(store.resource_version(), newest);
        assert!(store.list("counters", None).is_empty());
        assert_eq!(create(&store, &key).await.resource_version(), newest + 1);
        store.write(Write::Delete { key: key.clone(), expected: newest + 1 }).await.unwrap();
        newest += 2;
    }
}
