//! What is written, each object on its own: one that hangs or fails delays neither the others nor the next pass.
//!
//! ```text
//!  a pass ─▶ wishes: statuses that moved, the containers whose checkpoints are due ─▶ Reconciler ─▶ API server
//!                                   ▲                                                     │
//!                                   └───── until written, or wanted no more ◀─────────────┘
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender};
use pillion_api::vpa::{VerticalPodAutoscaler, VerticalPodAutoscalerStatus};
use pillion_informer::{Backoff, NamespacedName, Outcome, Reconciler};
use pillion_rightsize::{Workload, is_fetching_history, is_status_due};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::learned::{Learned, key_of};
use super::{checkpoints, status};
use crate::cluster::Cluster;
use crate::config::Config;
use crate::metrics::Written;
use crate::references::name_of;

/// How long an object waits that could not be written. The next pass comes in any case.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_mins(5), is_strict: false };

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Write {
    /// The status of an autoscaler.
    Status(NamespacedName),
    /// The checkpoints of an autoscaler.
    Checkpoints(NamespacedName),
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Status(name) => write!(f, "status of VerticalPodAutoscaler {name}"),
            Write::Checkpoints(name) => write!(f, "checkpoints of VerticalPodAutoscaler {name}"),
        }
    }
}

/// A status that is wanted, and the autoscaler that it was computed from.
struct DesiredStatus {
    autoscaler: Arc<VerticalPodAutoscaler>,
    status: VerticalPodAutoscalerStatus,
}

/// The checkpoints of an autoscaler that are wanted. What is in them is computed when they are written.
struct DesiredCheckpoints {
    workload: Workload,
    /// By container, whether the checkpoint is urgent.
    containers: BTreeMap<String, bool>,
    /// `None` if there is no limit on time, or the first of them was tried already.
    batch: Option<Arc<Batch>>,
}

/// Checkpoints that were wished together. Those that cannot be begun in time are left for the next pass; every worker writes those of one
/// autoscaler at least.
pub(super) struct Batch {
    timeout: Duration,
    began: OnceLock<Instant>,
    begun: AtomicUsize,
    is_late: AtomicBool,
}

impl Batch {
    pub(super) fn new(timeout: Duration) -> Arc<Batch> {
        let (begun, is_late) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Batch { timeout, began: OnceLock::new(), begun, is_late })
    }

    /// Begins with those of one more autoscaler. Returns whether there is time.
    fn begin(&self, workers: usize) -> bool {
        let began = *self.began.get_or_init(Instant::now);
        let is_first = self.begun.fetch_add(1, Ordering::Relaxed) < workers;
        let is_in_time = is_first || began.elapsed() < self.timeout;
        if !is_in_time && !self.is_late.swap(true, Ordering::Relaxed) {
            tracing::warn!("checkpoints could not be written in time; they come first in the next pass");
        }
        is_in_time
    }
}

/// Writes what the passes wish.
pub(super) struct Writer<'a> {
    cluster: &'a Cluster,
    config: &'a Config,
    learned: Mutex<Learned>,
    desired: Mutex<Desired>,
    /// Takes what is to be written.
    due: UnboundedSender<Write>,
    /// Whether nothing is tried again, since the recommender ends.
    is_ending: AtomicBool,
    /// Something was written, or is not wanted any more.
    is_done: Notify,
}

#[derive(Default)]
struct Desired {
    statuses: HashMap<NamespacedName, Arc<DesiredStatus>>,
    /// What is being written has an entry without containers.
    checkpoints: HashMap<NamespacedName, DesiredCheckpoints>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(cluster: &'a Cluster, config: &'a Config, due: UnboundedSender<Write>) -> Writer<'a> {
        Writer {
            cluster,
            config,
            learned: Mutex::new(Learned::new(config)),
            desired: Mutex::default(),
            due,
            is_ending: AtomicBool::new(false),
            is_done: Notify::new(),
        }
    }

    /// What was learned. Not to be held while something is waited for.
    pub(super) fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn desired(&self) -> MutexGuard<'_, Desired> {
        self.desired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs until dropped.
    pub(super) async fn run(&self, due: UnboundedReceiver<Write>) {
        let reconciler = Reconciler::new("recommender-writes").on(due).backoff(BACKOFF).concurrency(self.workers());
        let reconciler = reconciler.observed_by((self.config.observers)("recommender-writes"));
        reconciler.run(|write| self.write(write).boxed()).await;
    }

    fn queue(&self, write: Write) {
        // Nothing is written any more after the receiver is gone.
        let _ = self.due.unbounded_send(write);
    }

    fn workers(&self) -> usize {
        self.config.update_workers.max(1)
    }

    /// Wishes a status, or that none is written.
    pub(super) fn wish_status(
        &self,
        autoscaler: &Arc<VerticalPodAutoscaler>,
        status: Option<VerticalPodAutoscalerStatus>,
    ) {
        let mut desired = self.desired();
        let name = name_of(autoscaler);
        let Some(status) = status else {
            desired.statuses.remove(&name);
            return;
        };
        let wish = DesiredStatus { autoscaler: Arc::clone(autoscaler), status };
        desired.statuses.insert(name.clone(), Arc::new(wish));
        drop(desired);
        self.queue(Write::Status(name));
    }

    pub(super) fn wish_checkpoints(
        &self,
        autoscaler: &VerticalPodAutoscaler,
        workload: &Workload,
        containers: impl IntoIterator<Item = String>,
        is_urgent: bool,
        batch: Option<&Arc<Batch>>,
    ) {
        let name = name_of(autoscaler);
        let mut desired = self.desired();
        let new = || DesiredCheckpoints { workload: workload.clone(), containers: BTreeMap::new(), batch: None };
        let wish = desired.checkpoints.entry(name.clone()).or_insert_with(new);
        if wish.workload != *workload {
            *wish = new();
        }
        wish.add(containers.into_iter().map(|container| (container, is_urgent)));
        wish.batch = batch.cloned();
        drop(desired);
        self.queue(Write::Checkpoints(name));
    }

    /// The checkpoints of an autoscaler are not to be written.
    pub(super) fn forget_checkpoints(&self, autoscaler: &VerticalPodAutoscaler) {
        if let Some(wish) = self.desired().checkpoints.get_mut(&name_of(autoscaler)) {
            wish.containers.clear();
        }
    }

    /// Tries everything that is wished once more, and returns when that is done.
    pub(super) async fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        {
            let desired = self.desired();
            desired.checkpoints.keys().cloned().map(Write::Checkpoints).for_each(|write| self.queue(write));
            desired.statuses.keys().cloned().map(Write::Status).for_each(|write| self.queue(write));
        }
        while !self.desired().is_empty() {
            self.is_done.notified().await;
        }
    }

    async fn write(&self, write: Write) -> Outcome {
        let is_last = self.is_ending.load(Ordering::Relaxed);
        let outcome = match &write {
            Write::Status(name) => self.write_status(name, is_last).await,
            Write::Checkpoints(name) => self.write_checkpoints(name, is_last).await,
        };
        self.is_done.notify_one();
        match outcome {
            Outcome::Failed { error, .. } if is_last => {
                tracing::warn!(object = %write, error, "what was to be stored at the end cannot be written");
                Outcome::Done(None)
            }
            outcome => outcome,
        }
    }

    async fn write_status(&self, name: &NamespacedName, is_last: bool) -> Outcome {
        let Some(wish) = self.desired().statuses.get(name).cloned() else { return Outcome::Done(None) };
        let outcome = if self.is_wanted(name, &wish) { self.put_status(&wish).await } else { Outcome::Done(None) };
        let is_over = is_last || !matches!(outcome, Outcome::Failed { .. });
        let mut desired = self.desired();
        // Another one may have been wished meanwhile.
        if is_over && desired.statuses.get(name).is_some_and(|now| Arc::ptr_eq(now, &wish)) {
            desired.statuses.remove(name);
        }
        outcome
    }

    /// Whether a status is still to be written: the autoscaler is served as before, and does not have it already.
    fn is_wanted(&self, name: &NamespacedName, wish: &DesiredStatus) -> bool {
        let Some(view) = self.cluster.autoscalers().get(&name.namespace, &name.name) else { return false };
        let current = &view.0;
        let since = self.learned().since_write(current, (self.config.now)());
        current.spec.target_ref == wish.autoscaler.spec.target_ref
            && current.is_for_recommender(&self.config.recommender_name)
            && is_status_due(&current.status, &wish.status, since)
    }

    async fn put_status(&self, DesiredStatus { autoscaler, status }: &DesiredStatus) -> Outcome {
        let now = (self.config.now)();
        match status::write(&self.config.client, self.config.field_manager(), autoscaler, status).await {
            Ok(written) => {
                self.config.metrics.wrote(Written::Status);
                self.learned().written.insert(name_of(autoscaler), now);
                self.cluster.autoscalers().written(written);
                Outcome::Done(None)
            }
            // It was deleted meanwhile.
            Err(kube::Error::Api(error)) if error.is_not_found() => Outcome::Done(None),
            // Another client has written it meanwhile. The status is computed anew in the next pass, which sees that change.
            Err(kube::Error::Api(error)) if error.is_conflict() => {
                let (name, namespace) = (autoscaler.name(), autoscaler.namespace());
                tracing::debug!(autoscaler = name, namespace, "a recommendation waits for the next pass: conflict");
                Outcome::Done(None)
            }
            Err(error) => Outcome::failed(&error),
        }
    }

    async fn write_checkpoints(&self, name: &NamespacedName, is_last: bool) -> Outcome {
        let Some((workload, containers)) = self.begin_checkpoints(name) else { return Outcome::Done(None) };
        let (mut failed, mut has_progressed) = (BTreeMap::new(), false);
        let mut first_error = None;
        for (container, is_urgent) in containers {
            match self.write_checkpoint(&workload, &name.name, &container, is_urgent).await {
                Ok(()) => has_progressed = true,
                Err(error) => {
                    failed.insert(container, is_urgent);
                    first_error.get_or_insert(error);
                }
            }
        }
        let again = if is_last { BTreeMap::new() } else { failed };
        self.end_checkpoints(name, &workload, again);
        match first_error.map(|error| Outcome::failed(&error)) {
            Some(Outcome::Failed { error, .. }) => Outcome::Failed { error, has_progressed },
            _ => Outcome::Done(None),
        }
    }

    /// Takes what is wished of an autoscaler, if there is time for it and it is still wanted.
    fn begin_checkpoints(&self, name: &NamespacedName) -> Option<(Workload, BTreeMap<String, bool>)> {
        let view = self.cluster.autoscalers().get(&name.namespace, &name.name);
        let is_wanted = view.is_some_and(|view| !is_fetching_history(&view.0.status.conditions));
        let mut desired = self.desired();
        let wish = desired.checkpoints.get_mut(name)?;
        let may_begin =
            is_wanted && !wish.containers.is_empty() && wish.batch.take().is_none_or(|it| it.begin(self.workers()));
        if !may_begin {
            desired.checkpoints.remove(name);
            return None;
        }
        Some((wish.workload.clone(), std::mem::take(&mut wish.containers)))
    }

    /// What could not be written is still wished; something else may be by now.
    fn end_checkpoints(&self, name: &NamespacedName, workload: &Workload, again: BTreeMap<String, bool>) {
        let mut desired = self.desired();
        let Some(wish) = desired.checkpoints.get_mut(name) else { return };
        if wish.workload == *workload {
            wish.add(again);
        }
        if wish.containers.is_empty() {
            desired.checkpoints.remove(name);
        }
    }

    async fn write_checkpoint(
        &self,
        workload: &Workload,
        autoscaler: &str,
        container: &str,
        is_urgent: bool,
    ) -> Result<(), kube::Error> {
        let now = (self.config.now)();
        let checkpoint = self.learned().checkpoint(workload, autoscaler, container, is_urgent, now);
        let Some((content, stored)) = checkpoint else { return Ok(()) };
        checkpoints::write(&self.config.client, &workload.namespace, autoscaler, container, content).await?;
        self.config.metrics.wrote(Written::Checkpoint);
        self.learned().stored.insert(key_of(workload, autoscaler, container), stored);
        Ok(())
    }
}

impl DesiredCheckpoints {
    fn add(&mut self, containers: impl IntoIterator<Item = (String, bool)>) {
        for (container, is_urgent) in containers {
            *self.containers.entry(container).or_default() |= is_urgent;
        }
    }
}

impl Desired {
    fn is_empty(&self) -> bool {
        self.statuses.is_empty() && self.checkpoints.is_empty()
    }
}
