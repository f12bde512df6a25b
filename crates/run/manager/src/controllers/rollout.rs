//! The rollout of SidecarSets: keeps their revisions, updates running pods in place, and reports how that is going.
//!
//! ```text
//!  triggers: sets, pods, revisions, namespaces ─▶ Reconciler: which sets are due
//!                                                        │
//!       ┌────────────────────────────────────────────────┘
//!       ▼
//!  rollout::plan(set, revisions, pods, now) ─▶ revisions, written and trimmed ─▶ status, events ─▶ pods
//!                                                                              │
//!                caches ◀──────────── what the API server answered ◀───────────┘
//! ```
//!
//! Each pass starts from what the cluster says. A replica that takes over in the middle goes on where the other one ended.

mod changes;
mod explanations;
mod places;
mod revisions;
mod triggers;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use pillion_api::sidecarset::{SidecarSet, SidecarSetStatus};
use pillion_events::Recorder;
use pillion_informer::{Backoff, Cache, Outcome, Watched};
use pillion_note::{Note, Severity};
use pillion_pods::{CachedPod, PodPart};
use pillion_rollout::{
    BLOCKED, COMPLETE, PROGRESSING, Places, Plan, PodName, PodView, Refusals, Snapshot, StoredRevision, Target,
    missing_pin, plan,
};
use pillion_selector::Selector;
use serde_json::{Map, Value};

use self::explanations::Explanations;
use self::revisions::Collisions;
use crate::caches::revision_view::{RevisionView, holds, pinnable_by};
use crate::controllers::{condition, reference};
use crate::error::Error;
use crate::lock::lock;
use crate::metrics::RolloutPods;
use crate::state::Inner;

/// Who writes.
const CONTROLLER: &str = "pillion-rollout";
/// Changes are batched: the least time between two passes over a set.
const PAUSE: Duration = Duration::from_secs(1);
/// What could not be counted is counted again after this time.
const RETRY: Duration = Duration::from_secs(10);
/// How many sets are worked on at the same time.
const SETS: usize = 8;
/// After a failed write, a set waits even if something happens to it: the change may be the reason for the error.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_mins(1), is_strict: true };

/// Runs until dropped.
pub(crate) async fn run(inner: &Inner) {
    let ((), pods) = tokio::join!(inner.filled(), inner.pods.watched(PodPart::Rollout));
    let rollout = Rollout {
        inner,
        pods: pods.cache(),
        recorder: inner.config.recorder(),
        refusals: Mutex::default(),
        collisions: Mutex::default(),
        uncounted: Mutex::default(),
        explanations: Explanations::default(),
    };
    tokio::join!(rollout.run(), rollout.count_when_pods_go());
}

struct Rollout<'a> {
    inner: &'a Inner,
    pods: &'a Cache<CachedPod>,
    recorder: Recorder,
    /// By SidecarSet, the pods that cannot be updated.
    refusals: Mutex<HashMap<String, Refusals>>,
    /// By SidecarSet, what has the name that one of its revisions should have.
    collisions: Mutex<Collisions>,
    /// The SidecarSets with a pin whose places are not counted, and of which no count is stored.
    uncounted: Mutex<HashSet<String>>,
    explanations: Explanations,
}

impl Drop for Rollout<'_> {
    /// Another replica may lead now, and its numbers are the ones that count.
    fn drop(&mut self) {
        self.inner.config.metrics.no_rollouts();
    }
}

impl Rollout<'_> {
    async fn run(&self) {
        let (held, touched) = triggers::triggers(&self.inner.caches, self.pods);
        let sets = stream::iter(held).chain(touched.flat_map(stream::iter));
        let reconciler = self.inner.config.reconciler("rollout").on(sets).concurrency(SETS).backoff(BACKOFF);
        reconciler.run(|set| self.pass(set).boxed()).await;
    }

    /// One pass over a set: plans, and does what is planned.
    async fn pass(&self, set: String) -> Outcome {
        self.look_at(&set).await.and_pause(PAUSE)
    }

    async fn look_at(&self, name: &str) -> Outcome {
        let config = &self.inner.config;
        let set = self.inner.caches.sets.get("", name).and_then(|view| view.of_rollout());
        let Some(set) = set.filter(|set| set.metadata.deletion_timestamp.is_none()) else {
            lock(&self.refusals).remove(name);
            lock(&self.uncounted).remove(name);
            lock(&self.collisions).remove(name);
            config.metrics.rollout(name, None);
            return Outcome::Done(None);
        };
        let target = Target::new(Arc::new(set));
        let done = async {
            let (plan, again) = self.plan_with_all(&target).await?;
            config.metrics.rollout(name, Some(&pods_of(&plan)));
            Ok::<_, Error>(self.execute(&target, &plan).await?.and_again(again))
        };
        done.await.unwrap_or_else(|error| Outcome::failed(&error))
    }

    /// Plans with what is in no cache as well, where the plan depends on it. Returns when to plan again if nothing changes before.
    async fn plan_with_all(&self, target: &Target) -> Result<(Plan, Option<Duration>), Error> {
        let set = target.set();
        let mut plan = self.plan(target, &[], None);
        let mut read = Vec::new();
        if !plan.unexplained.is_empty() && self.explain(target, &plan).await {
            plan = self.plan(target, &[], None);
        }
        if plan.status.not_upgradable_pods.is_some() {
            // What differs is said in the status, and only the revisions themselves have it.
            read = self.read_revisions(set.name()).await?;
            plan = self.plan(target, &read, None);
        }
        // Pods may be on their way with a revision that is no longer pinned.
        let places = if plan.trimmed.is_empty() { None } else { self.read_places(set).await? };
        let Some(places) = places else { return Ok((plan, None)) };
        let trimmed = plan.trimmed.len();
        plan = self.plan(target, &read, Some(&places));
        let again = (plan.trimmed.len() < trimmed).then_some(RETRY);
        Ok((plan, again))
    }

    /// Asks why containers of updated pods do not start. Returns whether there is an answer.
    async fn explain(&self, target: &Target, plan: &Plan) -> bool {
        let view_of = |pod: &PodName| {
            let view = self.pods.get(&pod.namespace, &pod.name)?.rollout.clone()?;
            (*view.uid == *pod.uid).then(|| PodView::clone(&view))
        };
        self.explanations.ask(&self.inner.config.client, target, &plan.unexplained, view_of).await
    }

    /// Plans with what is known of the set's revisions, and with the revisions and places that have been read.
    fn plan(&self, target: &Target, read: &[Value], places: Option<&Places>) -> Plan {
        let (caches, set) = (&self.inner.caches, target.set());
        let pods = self.pods_of(set.name());
        let data = |known: &RevisionView| {
            let read = read.iter().find(|whole| whole["metadata"]["name"] == known.name());
            read.filter(|whole| holds(whole, known.digest)).map(|whole| &whole["data"])
        };
        let known = caches.revisions.in_group(set.name());
        let foreign = lock(&self.collisions).of(set.name());
        let known = known.iter().map(|known| known.stored(data(known)));
        let revisions: Vec<StoredRevision<'_>> =
            known.chain(foreign.iter().map(|object| StoredRevision::of(object))).collect();
        let refusals = self.refusals_of(set.name(), &pods);
        let now = (self.inner.config.now)();
        let is_used_elsewhere = |revision: &str| {
            let mut sets = caches.sets.names_in_group(revision).into_iter();
            sets.any(|other| *other.name != *set.name()) || places.is_some_and(|places| places.uses(revision, now))
        };
        let scope = set.spec.namespace_selector.as_ref().map(Selector::from_label_selector);
        let is_in_scope = |namespace: &str| match &scope {
            None => true,
            Some(Ok(selector)) => {
                let known = caches.namespaces.get("", namespace);
                known.is_some_and(|known| selector.matches(|key| known.0.label(key)))
            }
            Some(Err(_)) => false,
        };
        let snapshot = Snapshot {
            target,
            revisions: &revisions,
            is_used_elsewhere: &is_used_elsewhere,
            is_in_scope: &is_in_scope,
            refusals: &refusals,
            system_namespace: &self.inner.config.revisions_namespace,
        };
        let explained = self.explanations.of(set.name(), pods.iter().map(AsRef::as_ref));
        let pods = pods.iter().map(|pod| explained.get(&*pod.uid).unwrap_or(pod));
        let mut plan = plan(&snapshot, pods, now);
        let pinnable = pinnable_by(set, &caches.revisions, &self.inner.config.revisions_namespace);
        plan.report_pin(set, pinnable.missing_for(set).as_deref(), now);
        plan
    }

    /// The pods that a set was injected into.
    fn pods_of(&self, set: &str) -> Vec<Arc<PodView>> {
        self.pods.in_group(set).iter().filter_map(|pod| pod.rollout.clone()).collect()
    }

    /// The refusals of a set, without those of pods that are gone.
    fn refusals_of(&self, set: &str, pods: &[Arc<PodView>]) -> Refusals {
        let mut all = lock(&self.refusals);
        let Some(refusals) = all.get_mut(set) else { return Refusals::default() };
        let exist: HashSet<&str> = pods.iter().map(|pod| &*pod.uid).collect();
        refusals.retain(|uid| exist.contains(uid));
        if refusals.is_empty() {
            all.remove(set);
            return Refusals::default();
        }
        refusals.clone()
    }

    /// Writes what is planned, in an order in which nothing refers to what is not there.
    async fn execute(&self, target: &Target, plan: &Plan) -> Result<Outcome, Error> {
        let set = target.set();
        for write in &plan.revisions {
            self.write_revision(set, write).await?;
        }
        // Whoever waits for the status to be about this generation counts the revisions next.
        let trimmed = self.trim_revisions(&plan.trimmed).await;
        let count_again = self.count_places(target).await.unwrap_or_else(|error| {
            // Running pods do not depend on it.
            tracing::warn!(%error, cause = error.cause(), "places are not counted; trying again");
            Some(RETRY)
        });
        if plan.is_status_changed {
            self.write_status(set, plan).await?;
        }
        self.report(set, plan);
        let outcome = self.change_pods(target, &plan.updates).await;
        trimmed?;
        let requeue = plan.requeue_after.map(|after| Duration::try_from(after).unwrap_or_default());
        Ok(outcome.and_again(requeue).and_again(count_again))
    }

    async fn write_status(&self, set: &SidecarSet, plan: &Plan) -> Result<(), Error> {
        let mut status = match serde_json::to_value(&plan.status) {
            Ok(Value::Object(status)) => status,
            _ => Map::new(),
        };
        status.remove("conditions");
        let written =
            condition::write(&self.inner.config, set.name(), CONTROLLER, status, &plan.status.conditions).await?;
        if let Some(written) = written.as_ref().and_then(Watched::of) {
            self.inner.caches.sets.written(written);
        }
        Ok(())
    }

    /// Events about what is new.
    fn report(&self, set: &SidecarSet, plan: &Plan) {
        let about = reference::set(set);
        for Note { severity, reason, message, .. } in &plan.notes {
            match severity {
                Severity::Warning => self.recorder.warning(&about, &reason.to_string(), message),
                Severity::Info => self.recorder.normal(&about, &reason.to_string(), message),
            }
        }
        let is_complete = |status: &SidecarSetStatus| {
            status.condition(PROGRESSING).is_some_and(|progressing| progressing.reason == COMPLETE)
        };
        let was_rolling = set.status.as_ref().is_some_and(|before| !is_complete(before));
        if was_rolling && is_complete(&plan.status) {
            let message = plan.status.condition(PROGRESSING).map(|it| it.message.clone()).unwrap_or_default();
            self.recorder.normal(&about, "RolloutComplete", message);
        }
    }
}

fn pods_of(plan: &Plan) -> RolloutPods {
    let status = &plan.status;
    RolloutPods {
        matched: status.matched_pods,
        updated: status.updated_pods,
        ready: status.ready_pods,
        updated_ready: status.updated_ready_pods.unwrap_or_default(),
        not_upgradable: status.not_upgradable_pods.unwrap_or_default(),
        is_blocked: status.condition(BLOCKED).is_some_and(|blocked| blocked.status == "True"),
        is_pin_missing: missing_pin(status).is_some(),
    }
}
