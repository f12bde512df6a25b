//! Events are kept for an hour after they were last written, as etcd's leases keep them elsewhere.

use std::collections::{BTreeSet, HashMap};

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Preconditions};
use kube::runtime::watcher;
use pillion_informer::watch;

use crate::context::Context;

const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// Deletes events whose time is over, until dropped.
pub(crate) async fn run(context: Context) {
    let all: Api<Event> = Api::all(context.client.clone());
    let mut changes = std::pin::pin!(watch(all, watcher::Config::default()));
    let mut expiry = Expiry::default();
    loop {
        let wait = expiry.next().map(|at| at.duration_since(context.clock.now()));
        let wait = wait.map(|wait| std::time::Duration::try_from(wait).unwrap_or_default());
        tokio::select! {
            change = changes.next() => match change {
                Some(watcher::Event::Apply(event) | watcher::Event::InitApply(event)) => {
                    expiry.keep(&event, context.clock.now());
                }
                Some(watcher::Event::Delete(event)) => expiry.forget(&event),
                Some(watcher::Event::Init | watcher::Event::InitDone) => {}
                None => return,
            },
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {
                for event in expiry.remove_expired(context.clock.now()) {
                    let events: Api<Event> = Api::namespaced(context.client.clone(), &event.namespace);
                    let preconditions = Preconditions { uid: Some(event.uid), resource_version: None };
                    let how = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                    // Somebody else may have deleted it.
                    let _ = events.delete(&event.name, &how).await;
                }
            }
        }
    }
}

/// An event that can be deleted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ExpiringEvent {
    namespace: String,
    name: String,
    uid: String,
}

/// When each event goes.
#[derive(Default)]
struct Expiry {
    by_uid: HashMap<String, Timestamp>,
    in_order: BTreeSet<(Timestamp, ExpiringEvent)>,
}

impl Expiry {
    /// An event was written; it cannot be known when, if not now.
    fn keep(&mut self, event: &Event, now: Timestamp) {
        self.forget(event);
        let written = [
            event.last_timestamp.as_ref().map(|time| time.0),
            event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0),
            event.event_time.as_ref().map(|time| time.0),
            event.creation_timestamp().map(|time| time.0),
        ];
        let written = written.into_iter().flatten().max().unwrap_or(now);
        let Ok(at) = written.checked_add(KEPT) else { return };
        let kept = kept(event);
        self.by_uid.insert(kept.uid.clone(), at);
        self.in_order.insert((at, kept));
    }

    fn forget(&mut self, event: &Event) {
        let kept = kept(event);
        if let Some(at) = self.by_uid.remove(&kept.uid) {
            self.in_order.remove(&(at, kept));
        }
    }

    /// When the first one goes.
    fn next(&self) -> Option<Timestamp> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// Removes those whose time is over, and returns them.
    fn remove_expired(&mut self, now: Timestamp) -> Vec<ExpiringEvent> {
        let mut over = Vec::new();
        while self.next().is_some_and(|at| at <= now) {
            if let Some((_, kept)) = self.in_order.pop_first() {
                self.by_uid.remove(&kept.uid);
                over.push(kept);
            }
        }
        over
    }
}

fn kept(event: &Event) -> ExpiringEvent {
    ExpiringEvent {
        namespace: event.namespace().unwrap_or_default(),
        name: event.name_any(),
        uid: event.uid().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::test_cluster::{TestCluster, settle};

    #[tokio::test(start_paused = true)]
    async fn an_event_goes_an_hour_after_it_was_last_recorded() {
        let cluster = TestCluster::start().await;
        let about = json!({"kind": "Pod", "name": "p", "namespace": "default"});
        let event = |name: &str, last: &str| {
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about,
                "type": "Normal", "reason": "R", "message": name, "lastTimestamp": last,
            })
        };
        cluster.create(event("early", "2026-01-01T00:00:00Z")).await;
        cluster.create(event("late", "2026-01-01T00:10:00Z")).await;
        settle(3590).await;
        assert_eq!(cluster.events("p").await.len(), 2);
        settle(20).await;
        assert_eq!(cluster.events("p").await, ["Normal R late"]);
        settle(600).await;
        assert!(cluster.events("p").await.is_empty());
    }
}
