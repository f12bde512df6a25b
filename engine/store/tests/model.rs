//! The store beside a model that is too simple to be wrong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use pillion_store::{
    Event, EventKind, Expired, Key, ListAtError, Options, Snapshot, Store, Stored, Watch, Write, WriteError,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const RESOURCES: [&str; 2] = ["pods", "deployments.apps"];
const NAMESPACES: [&str; 3] = ["team", "team-b", "a"];
const NAMES: [&str; 3] = ["web", "web-1", "db"];

#[derive(Clone, Debug)]
enum Step {
    Create {
        key: Key,
        size: usize,
    },
    /// Of the version that is there, or of another.
    Update {
        key: Key,
        stale: bool,
        size: usize,
    },
    Delete {
        key: Key,
        stale: bool,
    },
    /// At so many versions before the newest; a negative number is the future.
    ListAt {
        resource: usize,
        namespace: Option<usize>,
        age: i64,
    },
    Watch {
        resource: usize,
        namespace: Option<usize>,
        age: i64,
    },
    /// Lets one watch see all there is.
    Drain {
        watch: prop::sample::Index,
    },
    /// Only in a durable store.
    Restart,
}

fn key() -> impl Strategy<Value = Key> {
    (0..RESOURCES.len(), 0..NAMESPACES.len(), 0..NAMES.len())
        .prop_map(|(resource, namespace, name)| Key::new(RESOURCES[resource], NAMESPACES[namespace], NAMES[name]))
}

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..RESOURCES.len(), prop::option::of(0..NAMESPACES.len()), -2_i64..14);
    prop_oneof![
        6 => (key(), 0_usize..200).prop_map(|(key, size)| Step::Create { key, size }),
        8 => (key(), prop::bool::weighted(0.1), 0_usize..200)
            .prop_map(|(key, stale, size)| Step::Update { key, stale, size }),
        3 => (key(), prop::bool::weighted(0.1)).prop_map(|(key, stale)| Step::Delete { key, stale }),
        3 => place().prop_map(|(resource, namespace, age)| Step::ListAt { resource, namespace, age }),
        2 => place().prop_map(|(resource, namespace, age)| Step::Watch { resource, namespace, age }),
        2 => any::<prop::sample::Index>().prop_map(|watch| Step::Drain { watch }),
        1 => Just(Step::Restart),
    ]
}

/// All events that ever were, and which of them the store must remember.
struct Model {
    events: Vec<Event>,
    newest: u64,
    history: usize,
    opened_at: u64,
}

type State = BTreeMap<(String, String), Stored>;

impl Model {
    /// By replaying everything, sorted by `namespace/name`.
    fn state(&self, resource: &str, namespace: Option<&str>, version: u64) -> State {
        let mut state = State::new();
        for event in self.events.iter().filter(|event| event.resource_version() <= version) {
            let key = &event.key;
            if *key.resource == *resource && namespace.is_none_or(|namespace| namespace == &*key.namespace) {
                let place = (format!("{}/", key.namespace), key.name.to_string());
                match event.kind {
                    EventKind::Deleted => state.remove(&place),
                    EventKind::Added | EventKind::Modified => state.insert(place, event.object.clone()),
                };
            }
        }
        state
    }

    /// The oldest version from which the log of a resource is whole.
    fn oldest(&self, resource: &str) -> u64 {
        let events = self.events.iter().filter(|event| &*event.key.resource == resource);
        let log: Vec<u64> = events.map(Event::resource_version).filter(|version| *version > self.opened_at).collect();
        log.len().checked_sub(self.history + 1).map_or(self.opened_at, |last_dropped| log[last_dropped])
    }
}

struct Watched {
    watch: Watch,
    resource: &'static str,
    namespace: Option<&'static str>,
    seen: u64,
}

struct Run {
    store: Option<Store>,
    folder: Option<tempfile::TempDir>,
    options: Options,
    model: Model,
    watches: Vec<Watched>,
}

impl Run {
    fn new(durable: bool, history: usize) -> Run {
        let options = Options { history, ..Options::default() };
        let folder = durable.then(|| tempfile::tempdir().unwrap());
        let model = Model { events: Vec::new(), newest: 1, history, opened_at: 1 };
        let mut run = Run { store: None, folder, options, model, watches: Vec::new() };
        run.open();
        run
    }

    fn open(&mut self) {
        self.store = Some(match &self.folder {
            Some(folder) => Store::open(folder.path(), self.options).unwrap(),
            None => Store::memory(self.options),
        });
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Create { key, size } => {
                let object = object(&key, size);
                self.write(Write::Create { key: key.clone(), object: object.clone() }, &key, Some(object), None).await;
            }
            Step::Update { key, stale, size } => {
                let (object, expected) = (object(&key, size), self.expected(&key, stale));
                let write = Write::Update { key: key.clone(), expected, object: object.clone() };
                self.write(write, &key, Some(object), Some(expected)).await;
            }
            Step::Delete { key, stale } => {
                let expected = self.expected(&key, stale);
                self.write(Write::Delete { key: key.clone(), expected }, &key, None, Some(expected)).await;
            }
            Step::ListAt { resource, namespace, age } => {
                let (resource, namespace) = (RESOURCES[resource], namespace.map(|index| NAMESPACES[index]));
                self.list_at(resource, namespace, self.model.newest.saturating_add_signed(-age));
            }
            Step::Watch { resource, namespace, age } => {
                let (resource, namespace) = (RESOURCES[resource], namespace.map(|index| NAMESPACES[index]));
                let after = self.model.newest.saturating_add_signed(-age);
                let oldest = self.model.oldest(resource);
                match self.store().watch(resource, namespace, after) {
                    Ok(watch) => {
                        assert!(after >= oldest);
                        assert!(watch.resource_version() >= after);
                        self.watches.push(Watched { watch, resource, namespace, seen: after });
                    }
                    Err(expired) => assert_eq!((expired, after < oldest), (Expired { requested: after, oldest }, true)),
                }
            }
            Step::Drain { watch } => {
                if !self.watches.is_empty() {
                    let index = watch.index(self.watches.len());
                    if !drain(&mut self.watches[index], &self.model) {
                        self.watches.swap_remove(index);
                    }
                }
            }
            Step::Restart => self.restart(),
        }
    }

    fn expected(&self, key: &Key, stale: bool) -> u64 {
        self.store().get(key).map_or(7, |stored| stored.resource_version - u64::from(stale))
    }

    /// Writes, and checks the outcome against the model's idea of it.
    async fn write(&mut self, write: Write, key: &Key, object: Option<Map<String, Value>>, expected: Option<u64>) {
        let state = self.model.state(&key.resource, Some(&key.namespace), u64::MAX);
        let current = state.get(&(format!("{}/", key.namespace), key.name.to_string())).cloned();
        let outcome = self.store().write(write).await;
        let version = self.model.newest + 1;
        let event = match (outcome, &current, expected) {
            (Err(WriteError::AlreadyExists), Some(_), None) | (Err(WriteError::NotFound), None, Some(_)) => return,
            (Err(WriteError::Conflict { current: found }), Some(current), Some(expected)) => {
                assert!(found == *current && current.resource_version != expected);
                return;
            }
            (Ok(event), None, None) => event,
            (Ok(event), Some(current), Some(expected)) if current.resource_version == expected => event,
            (outcome, ..) => panic!("{outcome:?} for {current:?} and {expected:?}"),
        };
        let kind = match (&object, &current) {
            (Some(_), None) => EventKind::Added,
            (Some(_), Some(_)) => EventKind::Modified,
            (None, _) => EventKind::Deleted,
        };
        let mut object =
            object.map_or_else(|| serde_json::from_slice(&current.as_ref().unwrap().bytes).unwrap(), Value::Object);
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let object = Stored { bytes: object.to_string().into(), resource_version: version };
        assert_eq!(*event, Event { kind, key: key.clone(), object, previous: current });
        self.model.events.push(Event::clone(&event));
        self.model.newest = version;
        assert_eq!(self.store().get(key), (kind != EventKind::Deleted).then(|| event.object.clone()));
    }

    fn list_at(&self, resource: &str, namespace: Option<&str>, version: u64) {
        let (newest, oldest) = (self.model.newest, self.model.oldest(resource));
        match self.store().list_at(resource, namespace, version) {
            Ok(list) => {
                assert!((oldest..=newest).contains(&version));
                same(&list, &self.model.state(resource, namespace, version), version);
            }
            Err(ListAtError::Future { requested, newest: found }) => {
                assert_eq!((requested, found, version > newest), (version, newest, true));
            }
            Err(ListAtError::Expired(expired)) => {
                assert_eq!((expired, version < oldest), (Expired { requested: version, oldest }, true));
            }
        }
        same(&self.store().list(resource, namespace), &self.model.state(resource, namespace, newest), newest);
    }

    fn restart(&mut self) {
        if self.folder.is_none() {
            return;
        }
        self.store = None;
        for mut watched in std::mem::take(&mut self.watches) {
            if drain(&mut watched, &self.model) {
                assert_eq!(poll(watched.watch.next()), Poll::Ready(None), "a watch ends with its store");
            }
        }
        self.open();
        self.model.opened_at = self.model.newest;
        assert_eq!(self.store().resource_version(), self.model.newest);
        for resource in RESOURCES {
            self.list_at(resource, None, self.model.newest);
        }
    }
}

fn object(key: &Key, size: usize) -> Map<String, Value> {
    let value = json!({"metadata": {"name": &*key.name, "resourceVersion": "old"}, "data": "\"\\é".repeat(size / 4)});
    serde_json::from_value(value).unwrap()
}

fn same(list: &Snapshot, state: &State, version: u64) {
    assert_eq!(list.resource_version(), version);
    assert_eq!((list.len(), list.is_empty()), (state.len(), state.is_empty()));
    let place = |namespace: &Arc<str>, name: &Arc<str>| (format!("{namespace}/"), name.to_string());
    let listed: Vec<_> = list.iter().map(|(namespace, name, stored)| (place(namespace, name), stored)).collect();
    let expected: Vec<_> = state.iter().map(|(place, stored)| (place.clone(), stored)).collect();
    assert_eq!(listed, expected);
    if let Some((namespace, name, _)) = list.iter().nth(list.len() / 2) {
        assert_eq!(list.iter_from(namespace, name).count(), list.len().div_ceil(2));
    }
}

fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes all that a watch has, checks it, and says whether the watch goes on.
fn drain(watched: &mut Watched, model: &Model) -> bool {
    let oldest = model.oldest(watched.resource);
    let expected: Vec<&Event> = model
        .events
        .iter()
        .filter(|event| *event.key.resource == *watched.resource && event.resource_version() > watched.seen)
        .collect();
    if let Some(next) = expected.first()
        && next.resource_version() <= oldest
    {
        assert!(matches!(poll(watched.watch.next()), Poll::Ready(Some(Err(expired))) if expired.oldest == oldest));
        assert_eq!(poll(watched.watch.next()), Poll::Ready(None));
        return false;
    }
    for event in expected.into_iter().filter(|event| watched.namespace.is_none_or(|only| only == &*event.key.namespace))
    {
        let Poll::Ready(Some(Ok(next))) = poll(watched.watch.next()) else { panic!("no event, but {event:?} was due") };
        assert_eq!(*next, *event);
        assert!(watched.watch.resource_version() >= event.resource_version());
    }
    let more = poll(watched.watch.next());
    assert!(matches!(more, Poll::Pending | Poll::Ready(None)), "{more:?} was not due");
    watched.seen = watched.seen.max(model.newest);
    assert_eq!(watched.watch.resource_version(), watched.seen, "a bookmark may say the newest version");
    true
}

fn run(durable: bool, history: usize, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(tokio::task::unconstrained(async {
        let mut run = Run::new(durable, history);
        for step in steps {
            run.step(step).await;
        }
        run.watches.retain_mut(|watched| drain(watched, &run.model));
        run.restart();
    }));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]
    #[test]
    fn in_memory_it_is_the_model(history in prop::sample::select(vec![1, 3, 8, 1000]), steps in prop::collection::vec(step(), 0..120)) {
        run(false, history, steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]
    #[test]
    fn on_disk_it_is_the_model(history in prop::sample::select(vec![1, 3, 8, 1000]), steps in prop::collection::vec(step(), 0..60)) {
        run(true, history, steps);
    }
}
