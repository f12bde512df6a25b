//! Events about objects, as `kubectl describe` and `kubectl get events` show them.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::Event;
//! use kube::{Api, Client};
//! use pillion_apiserver::{ApiServer, Config};
//! use pillion_events::{Recorder, reference_to};
//!
//! let server = ApiServer::new(Config::in_memory());
//! server.bootstrap().await?;
//! let client = Client::new(server.router(), "default");
//! let clock = server.clock();
//! let recorder = Recorder::new(client.clone(), move || clock.now(), "kubelet");
//! let pod = reference_to("v1", "Pod", Some("default"), "web", None);
//! recorder.warning(&pod, "BackOff", "Back-off restarting failed container");
//! recorder.warning(&pod, "BackOff", "Back-off restarting failed container");
//! recorder.flush().await;
//!
//! let events = Api::<Event>::namespaced(client, "default").list(&Default::default()).await?.items;
//! assert_eq!((events.len(), events[0].count), (1, Some(2)));
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  normal, warning ─▶ a queue ─▶ one writer ─▶ create an Event, or raise the count of the one that exists
//! ```
//!
//! # Invariants
//! - Recording never waits and never fails; events are written in the order in which they were recorded.
//! - Events about the same object with the same type, reason and message are one Event with a count.
//! - Time comes from the function that the recorder was made with.
#![forbid(unsafe_code)]

mod reference;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

pub use reference::{reference, reference_to};

/// How many events are remembered, so that their count can be raised; client-go bounds its memory likewise.
const REMEMBERED: usize = 4096;

/// Records events as one component. Clones are the same component.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::UnboundedSender<Order>,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    quiet: bool,
}

enum Order {
    Record(Box<Occurrence>),
    /// Acknowledged when everything before it is written.
    Flush(oneshot::Sender<()>),
}

struct Occurrence {
    about: ObjectReference,
    kind: &'static str,
    reason: String,
    message: String,
    at: Timestamp,
}

impl Recorder {
    /// A recorder that writes through a client, with timestamps from `now`. Call it inside a runtime.
    pub fn new(client: Client, now: impl Fn() -> Timestamp + Send + Sync + 'static, component: &str) -> Recorder {
        let (queue, orders) = mpsc::unbounded_channel();
        let source = EventSource { component: Some(component.to_owned()), host: None };
        tokio::spawn(Writer { client, source, known: HashMap::new(), number: 0 }.run(orders));
        Recorder { queue, now: Arc::new(now), quiet: false }
    }

    /// The same recorder without `Normal` events: for scale.
    #[must_use]
    pub fn quiet(mut self) -> Recorder {
        self.quiet = true;
        self
    }

    /// Records an event of type `Normal`.
    pub fn normal(&self, about: &ObjectReference, reason: &str, message: impl Into<String>) {
        if !self.quiet {
            self.record(about, "Normal", reason, message.into());
        }
    }

    /// Records an event of type `Warning`.
    pub fn warning(&self, about: &ObjectReference, reason: &str, message: impl Into<String>) {
        self.record(about, "Warning", reason, message.into());
    }

    /// Returns when everything that was recorded so far is written, or has failed to be.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        // An error means that the writer is gone, and with it what it had to write.
        if self.queue.send(Order::Flush(done)).is_ok() {
            let _ = wait.await;
        }
    }

    fn record(&self, about: &ObjectReference, kind: &'static str, reason: &str, message: String) {
        let event = Occurrence { about: about.clone(), kind, reason: reason.to_owned(), message, at: (self.now)() };
        // The writer ends with the runtime only, and then nobody reads events.
        let _ = self.queue.send(Order::Record(Box::new(event)));
    }
}

/// What makes two events the same.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    object: [Option<String>; 5],
    kind: &'static str,
    reason: String,
    message: String,
}

struct Known {
    name: String,
    count: i32,
    at: Timestamp,
}

struct Writer {
    client: Client,
    source: EventSource,
    known: HashMap<Key, Known>,
    number: u64,
}

impl Writer {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(order) = orders.recv().await {
            match order {
                Order::Record(event) => {
                    if let Err(error) = self.write(*event).await {
                        tracing::debug!(%error, "an event was not written");
                    }
                }
                Order::Flush(done) => drop(done.send(())),
            }
        }
    }

    async fn write(&mut self, new: Occurrence) -> kube::Result<()> {
        let about = new.about.clone();
        let key = Key {
            object: [about.namespace, about.kind, about.name, about.uid, about.field_path],
            kind: new.kind,
            reason: new.reason.clone(),
            message: new.message.clone(),
        };
        // Events about objects without a namespace live in `default`.
        let namespace = new.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if let Some(known) = self.known.get_mut(&key) {
            known.count += 1;
            known.at = new.at;
            let again = json!({"count": known.count, "lastTimestamp": Time(new.at)});
            match events.patch(&known.name, &PatchParams::default(), &Patch::Merge(again)).await {
                // It has expired, or somebody has deleted it.
                Err(kube::Error::Api(status)) if status.is_not_found() => drop(self.known.remove(&key)),
                other => return other.map(drop),
            }
        }
        let event = self.event(new, namespace);
        let created = events.create(&PostParams::default(), &event).await?;
        self.remember(key, created);
        Ok(())
    }

    fn event(&mut self, new: Occurrence, namespace: String) -> Event {
        self.number += 1;
        // In virtual time many events have the same nanosecond; the number keeps their names apart.
        let nanoseconds = new.at.as_nanosecond().unsigned_abs();
        let name =
            format!("{}.{:x}", new.about.name.as_deref().unwrap_or_default(), nanoseconds + u128::from(self.number));
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
            involved_object: new.about,
            type_: Some(new.kind.to_owned()),
            reason: Some(new.reason),
            message: Some(new.message),
            source: Some(self.source.clone()),
            reporting_component: self.source.component.clone(),
            reporting_instance: Some(String::new()),
            count: Some(1),
            first_timestamp: Some(Time(new.at)),
            last_timestamp: Some(Time(new.at)),
            ..Event::default()
        }
    }

    fn remember(&mut self, key: Key, event: Event) {
        if self.known.len() >= REMEMBERED {
            // The older half is forgotten: cheap on average, and a count that last rose long ago is not missed.
            let mut times: Vec<Timestamp> = self.known.values().map(|known| known.at).collect();
            let (_, middle, _) = times.select_nth_unstable(REMEMBERED / 2);
            let middle = *middle;
            self.known.retain(|_, known| known.at > middle);
        }
        let at = event.last_timestamp.map(|time| time.0).unwrap_or_default();
        self.known.insert(key, Known { name: event.metadata.name.unwrap_or_default(), count: 1, at });
    }
}
