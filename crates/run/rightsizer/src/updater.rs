//! The updater: running pods are brought to what is recommended, in place or by eviction.
//!
//! ```text
//!  every interval: the pods of each workload ─▶ Reconciler ─▶ rightsize::update::Pass ─▶ resizes, evictions, events
//!  evictions are stopped, or go on ─────────────────┘  ▲ └──▶ condition of the autoscaler
//!                                                      │
//!         after an error, and while a successor is awaited
//! ```

mod answers;
mod brakes;
mod group;
mod key;
mod progress;
mod quotas;
mod stops;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::channel::mpsc::{self, UnboundedSender};
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_events::Recorder;
use pillion_informer::{Backoff, Outcome, Reconciler, with_deadlines};
use pillion_rightsize::update::{Disrupted, Infeasible, RateLimit, Skips, stopped};
use pillion_rightsize::{PodView, is_refused};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::brakes::Brakes;
use self::key::{Key, PodsKey};
use self::progress::Progress;
use self::quotas::Quotas;
use crate::admission_lease::{self, Admission};
use crate::cluster::{Cluster, Followed, Targets};
use crate::config::Config;
use crate::definition::defined;
use crate::references::name_of;

/// So often in one interval the updater looks whether the successor of an evicted pod is back.
const LOOKS: u32 = 12;
/// How many workloads are updated at the same time. The rate limits apply to all of them together. The others wait only if the requests of
/// this many hang.
const AT_ONCE: usize = 8;
/// How long the pods of a workload wait after an error. After this time, the cache has what was done with those that were updated.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_mins(1), is_strict: true };
/// The pods of all workloads are looked up at most this often, since each lookup goes over all pods of the cluster. A workload whose pods
/// were updated waits as long, so that it does not see them as they were before.
const FRESH: Duration = Duration::from_secs(1);

/// Updates pods until dropped.
pub async fn update(cluster: &Cluster, config: &Config) {
    defined(&config.client).await;
    cluster.synced().await;
    // Nobody's pods are read where there is nothing to update.
    cluster.any_autoscaler().await;
    let _pods = cluster.synced_with_pods().await;
    let (client, evicting) = (with_deadlines(&config.client), config.evicting.as_ref().map(with_deadlines));
    let config = &Config { client, evicting, ..config.clone() };
    // The reconciler always takes keys out, also while requests hang, and holds each key once.
    let (due, keys) = mpsc::unbounded();
    let updater = Updater::new(cluster, config, due);
    let reconciler = Reconciler::new("updater").on(updater.ticks()).on(keys).concurrency(AT_ONCE).backoff(BACKOFF);
    let reconciler = reconciler.observed_by((config.observers)("updater"));
    reconciler.run(|key| updater.reconcile(key).boxed()).await;
}

struct Updater<'a> {
    cluster: &'a Cluster,
    config: &'a Config,
    recorder: Recorder,
    /// A group locks it while it waits for its next eviction, so that all groups get theirs in turn.
    evictions: tokio::sync::Mutex<RateLimit>,
    /// The same for resizes.
    resizes: tokio::sync::Mutex<RateLimit>,
    quotas: Quotas,
    /// Whether the API server serves `pods/resize`, as far as this pass knows.
    serves_resize: AtomicBool,
    state: Mutex<State>,
    /// The pods, while there is something to do. Locked before `state`.
    known: Mutex<Option<Arc<Known>>>,
    /// Takes the autoscalers whose evictions were stopped or resumed.
    due: UnboundedSender<Key>,
}

/// What is known of the passes before.
#[derive(Default)]
struct State {
    brakes: Brakes,
    infeasible: Infeasible,
    skips: Skips,
    /// What was done with each group in this pass.
    groups: HashMap<PodsKey, Done>,
    progress: Progress,
    /// Until when pods may be updated, unless it is found before that they may not.
    until: Option<Instant>,
    /// Whether the log says that there is no admission controller.
    is_waiting: bool,
    /// Whose webhook sizes new pods.
    admission: Admission,
}

/// What was done with a group in one pass.
#[derive(Default)]
struct Done {
    /// How many pods were evicted.
    disrupted: Disrupted,
    /// Whether some wait until the successor of the first one that was evicted is back.
    is_awaiting: bool,
}

/// The autoscalers that have anything for the updater to do, and their pods.
struct Known {
    at: Instant,
    targets: Targets,
    pods: BTreeMap<PodsKey, Vec<Followed>>,
}

impl Drop for Updater<'_> {
    /// Another replica may lead now, and its numbers are the ones that count.
    fn drop(&mut self) {
        self.config.metrics.stopped(0);
    }
}

impl<'a> Updater<'a> {
    fn new(cluster: &'a Cluster, config: &'a Config, due: UnboundedSender<Key>) -> Updater<'a> {
        let now = config.now.clone();
        let limit = |rate: f64| tokio::sync::Mutex::new(RateLimit::new(rate, config.rate.burst, now()));
        Updater {
            cluster,
            config,
            evictions: limit(config.rate.evictions),
            resizes: limit(config.rate.resizes),
            quotas: Quotas::new(due.clone()),
            serves_resize: AtomicBool::new(true),
            state: Mutex::default(),
            known: Mutex::default(),
            due,
            recorder: Recorder::new(config.client.clone(), move || now(), "vpa-updater"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be reconciled in each interval. A group that was not reached in an earlier one still waits, before the others.
    fn ticks(&self) -> impl Stream<Item = Key> + Send + '_ {
        let mut passes = interval(self.config.updater_interval);
        passes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ticks = stream::unfold(passes, move |mut passes| async move {
            self.cluster.any_autoscaler().await;
            passes.tick().await;
            Some((self.tick().await, passes))
        });
        ticks.flat_map(stream::iter)
    }

    /// Begins a pass: does what concerns all groups, and names them.
    async fn tick(&self) -> Vec<Key> {
        let start = Instant::now();
        self.quotas.forget();
        *self.known_before() = None;
        let known = self.known();
        {
            let mut state = self.lock();
            state.brakes.retain(&known.targets);
            state.groups.clear();
        }
        let mut keys = self.outdated_stops();
        let may_update = !known.targets.is_empty() && (!self.config.needs_admission || self.is_admission_alive().await);
        // The Lease may be read more slowly the next time.
        self.lock().until = may_update.then(|| start + 2 * self.config.updater_interval);
        if !may_update || known.pods.is_empty() {
            self.passed(start);
            return keys;
        }
        self.forget_pods(&known);
        self.serves_resize.store(true, Ordering::Relaxed);
        self.lock().progress.begin(known.pods.keys().cloned().collect(), start);
        keys.extend(known.pods.keys().cloned().map(Key::Pods));
        keys
    }

    /// The autoscalers that have been switched off since an earlier pass wrote that evictions are stopped.
    fn outdated_stops(&self) -> Vec<Key> {
        let views = self.cluster.autoscalers().list();
        let autoscalers = views.iter().map(|view| &view.0).filter(|autoscaler| {
            stopped(autoscaler).is_some()
                && !autoscaler.update_mode().updates_running_pods()
                && self.config.namespaces.has(autoscaler.namespace())
        });
        autoscalers.map(|autoscaler| Key::Status(name_of(autoscaler))).collect()
    }

    fn forget_pods(&self, known: &Known) {
        let views: HashMap<&str, &PodView> =
            known.pods.values().flatten().map(|it| (it.pod.view.uid.as_str(), &it.pod.view)).collect();
        let autoscalers = known.targets.values().flatten();
        let uids: HashSet<&str> = autoscalers.filter_map(|it| it.metadata.uid.as_deref()).collect();
        let mut state = self.lock();
        state.infeasible.retain(&views, (self.config.now)());
        state.skips.retain(|uid| views.contains_key(uid) || uids.contains(uid));
    }

    /// A pass is over that has begun at this time.
    fn passed(&self, began: Instant) {
        self.config.metrics.passed("updater", began.elapsed());
        self.config.metrics.stopped(self.lock().brakes.stopped());
        *self.known_before() = None;
    }

    async fn reconcile(&self, key: Key) -> Outcome {
        match key {
            Key::Status(name) => self.say_whether_stopped(&name).await,
            Key::Pods(key) => {
                let Some(outcome) = self.update_pods(&key).await else { return Outcome::Done(None) };
                let began = self.lock().progress.done(&key);
                if let Some(began) = began {
                    self.passed(began);
                }
                outcome
            }
        }
    }

    /// Whether pods may be updated: the last pass has found that they may.
    fn may_update(&self) -> bool {
        self.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// The autoscalers that have anything for the updater to do.
    fn targets(&self) -> Targets {
        self.cluster.targets(self.config, |autoscaler| is_wanted(self.config, autoscaler))
    }

    fn known_before(&self) -> MutexGuard<'_, Option<Arc<Known>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The autoscalers and their pods, as they were a moment ago.
    fn known(&self) -> Arc<Known> {
        let mut known = self.known_before();
        if let Some(known) = known.as_ref().filter(|known| known.at.elapsed() < FRESH) {
            return Arc::clone(known);
        }
        let targets = self.targets();
        let pods = self.pods_of(&targets);
        Arc::clone(known.insert(Arc::new(Known { at: Instant::now(), targets, pods })))
    }

    /// The pods of autoscalers that run or start. An entry without any is left where pods were evicted and are not back.
    fn pods_of(&self, targets: &Targets) -> BTreeMap<PodsKey, Vec<Followed>> {
        let mut pods: BTreeMap<PodsKey, Vec<Followed>> = BTreeMap::new();
        for followed in self.cluster.pods_of(targets, self.config) {
            let pod = &followed.pod;
            if !pod.has_ended && !pod.is_being_deleted {
                let namespace = pod.view.namespace.as_str().into();
                let key = PodsKey { workload: Arc::clone(&followed.workload), namespace };
                pods.entry(key).or_default().push(followed);
            }
        }
        for (autoscaler, namespace) in self.lock().brakes.awaiting() {
            let is_of = |other: &Arc<VerticalPodAutoscaler>| {
                other.namespace() == &*autoscaler.namespace && other.name() == &*autoscaler.name
            };
            for (workload, _) in targets.iter().filter(|(_, autoscalers)| autoscalers.iter().any(is_of)) {
                let key = PodsKey { workload: Arc::new(workload.clone()), namespace: Arc::clone(namespace) };
                pods.entry(key).or_default();
            }
        }
        pods
    }

    async fn is_admission_alive(&self) -> bool {
        let (lease, timeout) = (&self.config.admission_lease, self.config.admission_lease_timeout);
        let alive = match admission_lease::alive(&self.config.client, lease, timeout, (self.config.now)()).await {
            Ok(alive) => alive,
            Err(error) => {
                tracing::warn!(%error, "cannot read whether an admission controller is alive");
                return false;
            }
        };
        let mut state = self.lock();
        if alive.is_none() && !state.is_waiting {
            tracing::warn!(
                lease = lease.name,
                namespace = lease.namespace,
                "no admission controller renews its Lease: evicted pods would come back as they were"
            );
        }
        state.is_waiting = alive.is_none();
        state.admission = alive.unwrap_or(state.admission);
        alive.is_some()
    }
}

/// Whether an autoscaler has anything for the updater to do.
fn is_wanted(config: &Config, autoscaler: &VerticalPodAutoscaler) -> bool {
    let boosts = config.gates.cpu_startup_boost && autoscaler.has_cpu_boost();
    (autoscaler.update_mode().updates_running_pods() || boosts) && !is_refused(autoscaler)
}
