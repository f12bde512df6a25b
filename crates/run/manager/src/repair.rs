//! Finds pods that have been created without their sidecars, reports them and, where the SidecarSet says so, evicts them.
//!
//! ```text
//!  pods, view ─▶ repair::missed_by ─▶ Missed (by set) ─▶ status, condition, event, metric
//!                                                    └─▶ repair::Evictions ─▶ evictions
//! ```

mod answering;
mod missed;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use pillion_admission::Snapshot;
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use pillion_events::Recorder;
use pillion_informer::{Cache, Change};
use pillion_repair::{Candidate, Evictions, Next};
use serde_json::{Map, json};
use tokio::time::Instant;

use self::answering::{Answering, SETTLING};
use self::missed::Missed;
use crate::cluster::View;
use crate::condition::{condition, write};
use crate::config::excluded_namespaces;
use crate::error::Error;
use crate::metrics::Eviction;
use crate::pods::CachedPod;
use crate::reference;
use crate::state::Inner;

/// Who writes the status.
const CONTROLLER: &str = "pillion-repair";
/// Changes are batched: the least time between two passes.
const PAUSE: Duration = Duration::from_secs(1);
/// How many changes are looked at together.
const BATCH: usize = 10_000;
/// How many pods are named in a status, and how many get an event at once.
const NAMED: usize = 10;
/// How many evictions of one set are attempted before the other sets have their turn.
const ATTEMPTS: usize = 10;
/// What could not be written is tried again after this time.
const RETRY: Duration = Duration::from_secs(10);

/// Runs until dropped.
pub(crate) async fn run(inner: &Inner) {
    let ((), pods) = tokio::join!(inner.filled(), inner.pods.watched());
    let now = inner.config.now.clone();
    let recorder = Recorder::new(inner.config.client.clone(), move || now(), "pillion");
    let repair = Repair {
        inner,
        recorder,
        missed: Missed::default(),
        evictions: HashMap::new(),
        answering: Answering::default(),
        reported: HashMap::new(),
    };
    repair.run(pods.cache()).await;
}

struct Repair<'a> {
    inner: &'a Inner,
    recorder: Recorder,
    missed: Missed,
    /// By SidecarSet.
    evictions: HashMap<String, Evictions>,
    answering: Answering,
    /// What was last written about a set.
    reported: HashMap<String, Reported>,
}

/// What was written about a set.
struct Reported {
    message: String,
    /// How many pods are not evicted because evicting had no effect.
    in_vain: usize,
}

impl Drop for Repair<'_> {
    /// Another replica may lead now, and its numbers are the ones that count.
    fn drop(&mut self) {
        self.inner.config.metrics.no_missed();
    }
}

impl Repair<'_> {
    async fn run(mut self, cache: &Cache<CachedPod>) {
        let mut views = self.inner.views.subscribe();
        let mut view = views.borrow_and_update().clone();
        let (held, changes) = cache.subscribe();
        let mut changes = changes.ready_chunks(BATCH).boxed();
        let excluded = excluded_namespaces(&self.inner.config.namespace);
        for change in held {
            self.missed.follow(&change, &view.snapshot, excluded);
        }
        let mut touched: BTreeSet<String> = self.missed.sets().map(str::to_owned).collect();
        // What an earlier leader reported may be over.
        touched.extend(view.reported.iter().cloned());
        let mut wake_at: Option<Instant> = None;
        loop {
            let again = self.act(&view, std::mem::take(&mut touched)).await;
            wake_at = [wake_at, again].into_iter().flatten().min();
            tokio::time::sleep(PAUSE).await;
            let wake = async {
                match wake_at {
                    Some(again) => tokio::time::sleep_until(again).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(changes) = changes.next() => {
                    for change in changes {
                        touched.extend(self.follow(&change, &view.snapshot, excluded));
                    }
                }
                changed = views.changed() => if changed.is_err() { return },
                () = wake => {}
            }
            // Whatever came first: what is due is due.
            if wake_at.is_some_and(|at| at <= Instant::now()) {
                wake_at = None;
                touched.extend(self.missed.sets().map(str::to_owned));
            }
            if views.has_changed().unwrap_or(false) || !Arc::ptr_eq(&view, &views.borrow()) {
                view = views.borrow_and_update().clone();
                while let Some(Some(more)) = changes.next().now_or_never() {
                    for change in more {
                        touched.extend(self.follow(&change, &view.snapshot, excluded));
                    }
                }
                touched.extend(self.missed.look_again(cache, &view.snapshot, excluded).await);
                touched.extend(view.reported.iter().cloned());
            }
        }
    }

    /// Follows a pod. Returns the sets whose missed pods are others now, or may be evicted again.
    fn follow(&mut self, change: &Change<CachedPod>, snapshot: &Snapshot, excluded: [&str; 2]) -> BTreeSet<String> {
        let mut touched = self.missed.follow(change, snapshot, excluded);
        if let (None, Some(pod)) = (&change.old, &change.new) {
            for set in pod.0.injected.iter().filter(|set| set.is_there) {
                if self.evictions.get_mut(&*set.name).is_some_and(|evictions| evictions.injected(&pod.0)) {
                    touched.insert(set.name.to_string());
                }
            }
        }
        touched
    }

    /// Reports and repairs what has changed. Returns when to look again.
    async fn act(&mut self, view: &View, touched: BTreeSet<String>) -> Option<Instant> {
        let mut again: Option<Instant> = None;
        let mut sooner = |time: Instant| again = Some(again.map_or(time, |again| again.min(time)));
        for name in touched {
            let Some(set) = view.snapshot.catalog.get(&name) else {
                self.inner.config.metrics.missed(&name, None);
                self.inner.config.metrics.no_evictions(&name);
                self.evictions.remove(&name);
                self.reported.remove(&name);
                continue;
            };
            let pods = self.missed.of(&name);
            let evictions = self.evictions.entry(name.clone()).or_default();
            let next = evictions.next(&set, &pods, (self.inner.config.now)());
            if let Err(error) = self.report(&set, &pods, next.in_vain).await {
                tracing::warn!(%error, cause = error.cause(), "missed pods are not reported; trying again");
                sooner(Instant::now() + RETRY);
            }
            if let Some(at) = self.evict(&set, &pods, next).await {
                let left = Duration::try_from(at.duration_since((self.inner.config.now)())).unwrap_or_default();
                sooner(Instant::now() + left.max(PAUSE));
            }
        }
        again
    }

    /// Status, condition, event and metric, if there is something new.
    async fn report(&mut self, set: &SidecarSet, pods: &[Candidate], in_vain: usize) -> Result<(), Error> {
        let metrics = &self.inner.config.metrics;
        let before = set.status.as_ref().and_then(|status| status.missed_pods);
        let count = i32::try_from(pods.len()).unwrap_or(i32::MAX);
        if count == 0 && before.unwrap_or(0) == 0 {
            self.reported.remove(set.name());
            metrics.missed(set.name(), None);
            return Ok(());
        }
        metrics.missed(set.name(), Some(pods.len()));
        let message = message(pods, in_vain);
        let reported = self.reported.get(set.name());
        // An earlier leader has not seen what this one evicted in vain.
        let is_new = before != Some(count) || reported.map_or(in_vain > 0, |reported| reported.message != message);
        let more_in_vain = in_vain > reported.map_or(0, |reported| reported.in_vain);
        if !is_new {
            return Ok(());
        }
        let said = (if count == 0 { "AllInjected" } else { "PodsMissed" }, message.clone());
        let condition = condition(set, names::PODS_INJECTED, count == 0, said, (self.inner.config.now)());
        let status = Map::from_iter([("missedPods".to_owned(), json!(count))]);
        write(&self.inner.config, set.name(), CONTROLLER, status, &[condition]).await?;
        if count > before.unwrap_or(0) {
            self.recorder.warning(&reference::set(set), "PodsMissed", &message);
            for pod in pods.iter().take(NAMED) {
                let text = format!("the pod has been created without the sidecars of SidecarSet {:?}", set.name());
                self.recorder.warning(&pod_reference(pod), "SidecarsMissed", text);
            }
        }
        if more_in_vain {
            self.recorder.warning(&reference::set(set), "EvictionInVain", left(in_vain));
        }
        self.reported.insert(set.name().to_owned(), Reported { message, in_vain });
        Ok(())
    }

    /// Evicts the pods that may be evicted now. Returns when to look again.
    async fn evict(&mut self, set: &SidecarSet, pods: &[Candidate], mut next: Next) -> Option<Timestamp> {
        let config = &self.inner.config;
        let evictions = self.evictions.entry(set.name().to_owned()).or_default();
        if next.evict.is_some() && !self.answering.has_settled(config).await {
            return (config.now)().checked_add(SETTLING).ok();
        }
        for _ in 0..ATTEMPTS {
            let Some(pod) = next.evict.and_then(|i| pods.get(i)) else { return next.again };
            let client = config.evicting.as_ref().unwrap_or(&config.client);
            let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
            let this_one = Preconditions { uid: Some(pod.uid.to_string()), resource_version: None };
            let delete = DeleteParams { preconditions: Some(this_one), ..DeleteParams::default() };
            let parameters = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
            let evicted = api.evict(&pod.name, &parameters).await;
            let now = (config.now)();
            match evicted {
                Ok(_) => {
                    let text =
                        format!("evicted, so that its successor gets the sidecars of SidecarSet {:?}", set.name());
                    self.recorder.normal(&pod_reference(pod), "EvictedForSidecars", text);
                    config.metrics.evicted(set.name(), Eviction::Evicted);
                    evictions.evicted(pod, pods, now);
                }
                // It is gone, or another pod has its name.
                Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => {
                    evictions.blocked(pod, now);
                }
                Err(kube::Error::Api(answer)) if answer.code == 429 => {
                    config.metrics.evicted(set.name(), Eviction::Blocked);
                    evictions.blocked(pod, now);
                }
                Err(error) => {
                    tracing::warn!(pod = %pod.name, namespace = %pod.namespace, %error, "a pod could not be evicted");
                    config.metrics.evicted(set.name(), Eviction::Failed);
                    evictions.blocked(pod, now);
                }
            }
            next = evictions.next(set, pods, now);
        }
        if next.evict.is_some() { Some((config.now)()) } else { next.again }
    }
}

/// What is said about pods that are not evicted any more.
fn left(in_vain: usize) -> String {
    let (pods, have) = if in_vain == 1 { ("pod", "has") } else { ("pods", "have") };
    format!(
        "{in_vain} {pods} in place of evicted ones {have} no sidecars either; no more pods of their controllers are evicted until a new one \
         has the sidecars or the SidecarSet changes"
    )
}

fn message(pods: &[Candidate], in_vain: usize) -> String {
    if pods.is_empty() {
        return "every pod that should have the sidecars has them".to_owned();
    }
    let named: Vec<String> = pods.iter().take(NAMED).map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
    let more = pods.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let (count, s) = (pods.len(), if pods.len() == 1 { "" } else { "s" });
    let left = if in_vain == 0 { String::new() } else { format!("; {}", left(in_vain)) };
    format!("{count} pod{s} without the sidecars: {}{more}{left}", named.join(", "))
}

fn pod_reference(pod: &Candidate) -> ObjectReference {
    reference::pod(&pod.namespace, &pod.name, &pod.uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_ten_pods_at_most() {
        let pod = |i: usize| Candidate {
            namespace: "shop".into(),
            name: format!("web-{i}").into(),
            uid: "".into(),
            owner: None,
        };
        let pods: Vec<Candidate> = (0..12).map(pod).collect();
        assert_eq!(message(&pods[..1], 0), "1 pod without the sidecars: shop/web-0");
        assert!(message(&pods, 0).starts_with("12 pods without the sidecars: shop/web-0, shop/web-1"));
        assert!(message(&pods, 0).ends_with("shop/web-9 and 2 more"));
    }
}
