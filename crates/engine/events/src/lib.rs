//! Events that tell users what the engine does to their objects: what `kubectl describe` and `kubectl get events` show.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use k8s_openapi::api::core::v1::{Event, ObjectReference};
//! use kube::{Api, Client};
//! use pillion_apiserver::{ApiServer, Config};
//! use pillion_events::Recorder;
//!
//! let server = ApiServer::new(Config::in_memory());
//! server.bootstrap().await?;
//! let client = Client::new(server.router(), "default");
//! let recorder = Recorder::new(client.clone(), server.clock(), "kubelet");
//! let pod = ObjectReference {
//!     kind: Some("Pod".into()), namespace: Some("default".into()), name: Some("web".into()), ..ObjectReference::default()
//! };
//! recorder.warning(&pod, "BackOff", "Back-off restarting failed container");
//! recorder.warning(&pod, "BackOff", "Back-off restarting failed container");
//! recorder.written().await;
//!
//! let events = Api::<Event>::namespaced(client, "default").list(&Default::default()).await?.items;
//! assert_eq!((events.len(), events[0].count), (1, Some(2)));
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  normal, warning ─▶ a queue ─▶ one writer ─▶ create, or count up what was told before
//! ```
//!
//! # Invariants
//! - Telling never waits and never fails; events are written in the order in which they were told.
//! - The same words about the same object are one event with a count.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use pillion_clock::Clock;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

/// So many events can still be counted up; the memory for them is bounded, as client-go's is.
const REMEMBERED: usize = 4096;

/// Tells events as one component. Clones are the same component.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::UnboundedSender<Order>,
    clock: Clock,
    quiet: bool,
}

enum Order {
    Tell(Box<Told>),
    /// Answered when everything before it is written.
    Flush(oneshot::Sender<()>),
}

struct Told {
    about: ObjectReference,
    kind: &'static str,
    reason: String,
    message: String,
    at: Timestamp,
}

impl Recorder {
    /// A recorder that writes through a client. Call it inside a runtime.
    pub fn new(client: Client, clock: Clock, component: &str) -> Recorder {
        let (queue, orders) = mpsc::unbounded_channel();
        let source = EventSource { component: Some(component.to_owned()), host: None };
        tokio::spawn(Writer { client, source, told: HashMap::new(), number: 0 }.run(orders));
        Recorder { queue, clock, quiet: false }
    }

    /// The same recorder without news of what went as it should: for scale.
    #[must_use]
    pub fn quiet(mut self) -> Recorder {
        self.quiet = true;
        self
    }

    /// Tells that something went as it should.
    pub fn normal(&self, about: &ObjectReference, reason: &str, message: impl Into<String>) {
        if !self.quiet {
            self.tell(about, "Normal", reason, message.into());
        }
    }

    /// Tells that something did not.
    pub fn warning(&self, about: &ObjectReference, reason: &str, message: impl Into<String>) {
        self.tell(about, "Warning", reason, message.into());
    }

    /// Returns when everything that was told so far is written, or has failed to be.
    pub async fn written(&self) {
        let (done, wait) = oneshot::channel();
        // An error means that the writer is gone, and with it what it had to write.
        if self.queue.send(Order::Flush(done)).is_ok() {
            let _ = wait.await;
        }
    }

    fn tell(&self, about: &ObjectReference, kind: &'static str, reason: &str, message: String) {
        let told = Told { about: about.clone(), kind, reason: reason.to_owned(), message, at: self.clock.now() };
        // The writer ends with the runtime only, and then nobody reads events.
        let _ = self.queue.send(Order::Tell(Box::new(told)));
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
    told: HashMap<Key, Known>,
    number: u64,
}

impl Writer {
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(order) = orders.recv().await {
            match order {
                Order::Tell(told) => {
                    if let Err(error) = self.write(*told).await {
                        tracing::debug!(%error, "an event was not written");
                    }
                }
                Order::Flush(done) => drop(done.send(())),
            }
        }
    }

    async fn write(&mut self, told: Told) -> kube::Result<()> {
        let about = told.about.clone();
        let key = Key {
            object: [about.namespace, about.kind, about.name, about.uid, about.field_path],
            kind: told.kind,
            reason: told.reason.clone(),
            message: told.message.clone(),
        };
        // Events about objects without a namespace live in `default`.
        let namespace = told.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let events: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if let Some(known) = self.told.get_mut(&key) {
            known.count += 1;
            known.at = told.at;
            let again = json!({"count": known.count, "lastTimestamp": Time(told.at)});
            match events.patch(&known.name, &PatchParams::default(), &Patch::Merge(again)).await {
                // It has expired, or somebody has deleted it.
                Err(kube::Error::Api(status)) if status.is_not_found() => drop(self.told.remove(&key)),
                other => return other.map(drop),
            }
        }
        let event = self.event(told, namespace);
        let created = events.create(&PostParams::default(), &event).await?;
        self.remember(key, created);
        Ok(())
    }

    fn event(&mut self, told: Told, namespace: String) -> Event {
        self.number += 1;
        // In virtual time many events have the same nanosecond; the number keeps their names apart.
        let nanoseconds = told.at.as_nanosecond().unsigned_abs();
        let name =
            format!("{}.{:x}", told.about.name.as_deref().unwrap_or_default(), nanoseconds + u128::from(self.number));
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
            involved_object: told.about,
            type_: Some(told.kind.to_owned()),
            reason: Some(told.reason),
            message: Some(told.message),
            source: Some(self.source.clone()),
            reporting_component: self.source.component.clone(),
            reporting_instance: Some(String::new()),
            count: Some(1),
            first_timestamp: Some(Time(told.at)),
            last_timestamp: Some(Time(told.at)),
            ..Event::default()
        }
    }

    fn remember(&mut self, key: Key, event: Event) {
        if self.told.len() >= REMEMBERED {
            // The older half goes: cheap on average, and nobody misses a count that went up long ago.
            let mut times: Vec<Timestamp> = self.told.values().map(|known| known.at).collect();
            let (_, middle, _) = times.select_nth_unstable(REMEMBERED / 2);
            let middle = *middle;
            self.told.retain(|_, known| known.at > middle);
        }
        let at = event.last_timestamp.map(|time| time.0).unwrap_or_default();
        self.told.insert(key, Known { name: event.metadata.name.unwrap_or_default(), count: 1, at });
    }
}
