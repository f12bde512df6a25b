//! Finds pods that have been created without their sidecars, reports them and, where the SidecarSet says so, evicts them.
//!
//! ```text
//!  pods, view ─▶ repair::missed_by ─▶ Missed (by set) ─▶ Reconciler ─▶ status, condition, event, metric
//!                                                            └─▶ repair::Evictions ─▶ evictions
//! ```

mod answering;
mod missed;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use pillion_events::Recorder;
use pillion_informer::{Backoff, Cache, Change, Outcome};
use pillion_pods::{CachedPod, PodPart, evict};
use pillion_repair::{Candidate, Evictions, Next};
use serde_json::{Map, json};
use tokio::sync::watch::Receiver;

use self::answering::{Answering, SETTLING};
use self::missed::Missed;
use crate::caches::cluster::View;
use crate::config::excluded_namespaces;
use crate::controllers::condition::{condition, write};
use crate::controllers::reference;
use crate::error::Error;
use crate::lock::lock;
use crate::metrics::Eviction;
use crate::state::Inner;

/// Who writes the status.
const CONTROLLER: &str = "pillion-repair";
/// Changes are batched: the least time between two looks at what has changed, and between two at a set.
const PAUSE: Duration = Duration::from_secs(1);
/// How many changes are looked at together.
const BATCH: usize = 10_000;
/// How many pods are named in a status, and how many get an event at once.
const NAMED: usize = 10;
/// How many evictions of one set are attempted before the other sets have their turn.
const ATTEMPTS: usize = 10;
/// How many sets are worked on at the same time.
const SETS: usize = 8;
/// How long a set waits whose status could not be written.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_mins(1), is_strict: false };

/// Runs until dropped.
pub(crate) async fn run(inner: &Inner) {
    let ((), pods) = tokio::join!(inner.filled(), inner.pods.watched(PodPart::Rollout));
    let repair = Repair {
        inner,
        recorder: inner.config.recorder(),
        missed: tokio::sync::Mutex::default(),
        evictions: Mutex::default(),
        answering: Answering::default(),
        reported: Mutex::default(),
    };
    let sets = repair.touched(pods.cache()).await.flat_map(stream::iter);
    let reconciler = inner.config.reconciler("repair").on(sets).concurrency(SETS).backoff(BACKOFF);
    reconciler.run(|set| repair.reconcile(set).boxed()).await;
}

struct Repair<'a> {
    inner: &'a Inner,
    recorder: Recorder,
    missed: tokio::sync::Mutex<Missed>,
    /// By SidecarSet.
    evictions: Mutex<HashMap<String, Arc<Mutex<Evictions>>>>,
    answering: Answering,
    /// What was last written about a set.
    reported: Mutex<HashMap<String, Reported>>,
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

/// What of the cluster has been looked at.
struct Seen<'r> {
    repair: &'r Repair<'r>,
    cache: &'r Cache<CachedPod>,
    changes: BoxStream<'static, Vec<Change<CachedPod>>>,
    views: Receiver<Arc<View>>,
    view: Arc<View>,
}

impl Repair<'_> {
    /// The sets whose missed pods are others now, or may be evicted again: at first all that have some.
    async fn touched<'r>(&'r self, cache: &'r Cache<CachedPod>) -> BoxStream<'r, BTreeSet<String>> {
        let mut views = self.inner.views.subscribe();
        let view = views.borrow_and_update().clone();
        let (held, changes) = cache.subscribe();
        let changes = changes.ready_chunks(BATCH).boxed();
        let mut touched = self.follow(held, &view).await;
        // What an earlier leader reported may be over.
        touched.extend(view.reported.iter().cloned());
        let seen = Seen { repair: self, cache, changes, views, view };
        stream::once(std::future::ready(touched)).chain(stream::unfold(seen, Seen::next)).boxed()
    }

    /// Follows pods. Returns the sets whose missed pods are others now, or may be evicted again.
    async fn follow(&self, changes: Vec<Change<CachedPod>>, view: &View) -> BTreeSet<String> {
        let excluded = excluded_namespaces(&self.inner.config.namespace);
        let (mut missed, mut touched) = (self.missed.lock().await, BTreeSet::new());
        for change in changes {
            touched.extend(missed.follow(&change, &view.snapshot, excluded));
            let (None, Some(pod)) = (&change.old, change.new.and_then(|pod| pod.rollout.clone())) else { continue };
            for set in pod.injected.iter().filter(|set| set.is_there) {
                let evictions = lock(&self.evictions).get(&*set.name).cloned();
                if evictions.is_some_and(|evictions| lock(&evictions).injected(&pod)) {
                    touched.insert(set.name.to_string());
                }
            }
        }
        touched
    }

    /// Reports and repairs what has changed about a set.
    async fn reconcile(&self, name: String) -> Outcome {
        let (config, view) = (&self.inner.config, self.inner.views.borrow().clone());
        let Some(set) = view.snapshot.catalog.get(&name) else {
            config.metrics.missed(&name, None);
            config.metrics.no_evictions(&name);
            lock(&self.evictions).remove(&name);
            lock(&self.reported).remove(&name);
            return Outcome::Done(None);
        };
        let pods = self.missed.lock().await.of(&name);
        let evictions = Arc::clone(lock(&self.evictions).entry(name).or_default());
        let next = lock(&evictions).next(&set, &pods, (config.now)());
        let reported = self.report(&set, &pods, next.in_vain).await;
        let again = self.evict(&set, &pods, &evictions, next).await;
        let again = again.map(|at| Duration::try_from(at.duration_since((config.now)())).unwrap_or_default());
        match reported {
            Ok(()) => Outcome::Done(again).and_pause(PAUSE),
            Err(error) => Outcome::failed(&error),
        }
    }

    /// Status, condition, event and metric, if there is something new.
    async fn report(&self, set: &SidecarSet, pods: &[Candidate], in_vain: usize) -> Result<(), Error> {
        let metrics = &self.inner.config.metrics;
        let before = set.status.as_ref().and_then(|status| status.missed_pods);
        let count = i32::try_from(pods.len()).unwrap_or(i32::MAX);
        if count == 0 && before.unwrap_or(0) == 0 {
            lock(&self.reported).remove(set.name());
            metrics.missed(set.name(), None);
            return Ok(());
        }
        metrics.missed(set.name(), Some(pods.len()));
        let message = message(pods, in_vain);
        let (is_new, more_in_vain) = {
            let all = lock(&self.reported);
            let reported = all.get(set.name());
            // An earlier leader has not seen what this one evicted in vain.
            let is_new = before != Some(count) || reported.map_or(in_vain > 0, |reported| reported.message != message);
            (is_new, in_vain > reported.map_or(0, |reported| reported.in_vain))
        };
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
        lock(&self.reported).insert(set.name().to_owned(), Reported { message, in_vain });
        Ok(())
    }

    /// Evicts the pods that may be evicted now. Returns when to look again.
    async fn evict(
        &self,
        set: &SidecarSet,
        pods: &[Candidate],
        evictions: &Mutex<Evictions>,
        mut next: Next,
    ) -> Option<Timestamp> {
        let config = &self.inner.config;
        if next.evict.is_some() && !self.answering.has_settled(config).await {
            return (config.now)().checked_add(SETTLING).ok();
        }
        for _ in 0..ATTEMPTS {
            let Some(pod) = next.evict.and_then(|i| pods.get(i)) else { return next.again };
            let client = config.evicting.as_ref().unwrap_or(&config.client);
            let evicted = evict(client, &pod.namespace, &pod.name, &pod.uid).await;
            let now = (config.now)();
            match evicted {
                Ok(()) => {
                    let text =
                        format!("evicted, so that its successor gets the sidecars of SidecarSet {:?}", set.name());
                    self.recorder.normal(&pod_reference(pod), "EvictedForSidecars", text);
                    config.metrics.evicted(set.name(), Eviction::Evicted);
                    lock(evictions).evicted(pod, pods, now);
                }
                // It is gone, or another pod has its name.
                Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => {
                    lock(evictions).blocked(pod, now);
                }
                Err(kube::Error::Api(answer)) if answer.code == 429 => {
                    config.metrics.evicted(set.name(), Eviction::Blocked);
                    lock(evictions).blocked(pod, now);
                }
                Err(error) => {
                    tracing::warn!(pod = %pod.name, namespace = %pod.namespace, %error, "a pod could not be evicted");
                    config.metrics.evicted(set.name(), Eviction::Failed);
                    lock(evictions).blocked(pod, now);
                }
            }
            next = lock(evictions).next(set, pods, now);
        }
        if next.evict.is_some() { Some((config.now)()) } else { next.again }
    }
}

impl<'r> Seen<'r> {
    /// Waits until something has changed, and follows it.
    async fn next(mut self) -> Option<(BTreeSet<String>, Seen<'r>)> {
        tokio::time::sleep(PAUSE).await;
        let mut touched = BTreeSet::new();
        tokio::select! {
            Some(changes) = self.changes.next() => touched = self.repair.follow(changes, &self.view).await,
            changed = self.views.changed() => changed.ok()?,
        }
        let view = self.views.borrow_and_update().clone();
        if !Arc::ptr_eq(&view, &self.view) {
            self.view = view;
            while let Some(Some(more)) = self.changes.next().now_or_never() {
                touched.extend(self.repair.follow(more, &self.view).await);
            }
            let excluded = excluded_namespaces(&self.repair.inner.config.namespace);
            let mut missed = self.repair.missed.lock().await;
            touched.extend(missed.look_again(self.cache, &self.view.snapshot, excluded).await);
            touched.extend(self.view.reported.iter().cloned());
        }
        Some((touched, self))
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
