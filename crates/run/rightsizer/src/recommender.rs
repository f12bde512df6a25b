//! The recommender: samples of usage and OOM kills become recommendations and checkpoints.
//!
//! ```text
//!  a pass: checkpoints of new autoscalers, or their history in Prometheus ▸ pods ▸ usage ▸ recommendations ▸ statuses that moved ▸ checkpoints that are due
//!  an OOM kill or an eviction for memory, at once: recommendation, status and checkpoint of its workload
//! ```

mod checkpoints;
mod cleaning;
mod evictions;
mod history;
mod horizontal;
mod kubelets;
mod loading;
mod metrics_api;
mod past;
mod prometheus;
mod samples;
mod status;
mod support;
mod template;
mod writing;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt as _;
use jiff::Timestamp;
use pillion_api::vpa::{RecommendedPodResources, VerticalPodAutoscaler};
use pillion_informer::Change;
use pillion_pods::CachedPod;
use pillion_rightsize::{MemoryEviction, Missing, Stored, Workload, new_ooms};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::history::History;
use self::horizontal::Horizontal;
use self::kubelets::Kubelets;
use crate::cluster::{Cluster, Targets};
use crate::config::{Config, UsageSource};
use crate::definition::defined;
use crate::owners::Scales;

/// How many changes of pods are looked at together.
const BATCH: usize = 1000;

/// Recommends until `stopping`; what is not stored yet is stored then.
pub async fn recommend(cluster: &Cluster, config: &Config, stopping: impl Future<Output = ()>) {
    let mut recommender = Recommender::new(cluster, config);
    let ready = async {
        defined(&config.client).await;
        cluster.synced().await;
        recommender.idle().await;
        cluster.synced_with_pods().await
    };
    tokio::pin!(stopping);
    let pods = tokio::select! {
        pods = ready => pods,
        () = &mut stopping => return,
    };
    let changes = pods.cache().updates();
    let mut changes = changes.ready_chunks(BATCH).boxed();
    let mut evictions = evictions::evictions(&config.client);
    let mut passes = interval(config.recommender_interval);
    passes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = passes.tick() => recommender.pass().await,
            Some(batch) = changes.next() => recommender.follow(batch).await,
            Some(evicted) = evictions.next() => recommender.learn(&evicted).await,
            () = &mut stopping => break,
        }
    }
    recommender.store_all().await;
}

/// An autoscaler by its name.
type Key = (String, String);

struct Recommender<'a> {
    cluster: &'a Cluster,
    config: &'a Config,
    history: History,
    kubelets: Option<Kubelets>,
    /// When statuses were last written, or first looked at after this start.
    written: HashMap<Key, Timestamp>,
    /// What the checkpoints have in them, by namespace and name.
    stored: HashMap<Key, Stored>,
    /// The workloads whose checkpoints have been read, and of which autoscaler.
    loaded: HashMap<Workload, String>,
    /// Those whose pods have not been looked at since.
    unseen: Vec<Workload>,
    /// What was recommended before this start, until history has caught up: after a whole memory window at most.
    before: HashMap<Key, (RecommendedPodResources, Timestamp)>,
    scales: Scales,
    horizontal: Horizontal,
    missing: Missing,
    /// When orphans were last looked for; the first time is one interval after the first autoscaler, when what was restored together is
    /// there.
    cleaned: Timestamp,
    /// When HorizontalPodAutoscalers were last looked at.
    compared: Option<Timestamp>,
}

impl Drop for Recommender<'_> {
    /// Another replica may lead now, and its numbers are the ones that count.
    fn drop(&mut self) {
        self.config.metrics.holds(0, 0, 0);
    }
}

impl<'a> Recommender<'a> {
    fn new(cluster: &'a Cluster, config: &'a Config) -> Recommender<'a> {
        let kubelets = match &config.usage {
            UsageSource::MetricsApi => None,
            UsageSource::Kubelets(config) => Some(Kubelets::new((**config).clone())),
        };
        Recommender {
            cluster,
            config,
            history: History::new(config),
            kubelets,
            written: HashMap::new(),
            stored: HashMap::new(),
            loaded: HashMap::new(),
            unseen: Vec::new(),
            before: HashMap::new(),
            scales: Scales::default(),
            horizontal: Horizontal::new(config),
            missing: Missing::default(),
            cleaned: (config.now)(),
            compared: None,
        }
    }

    async fn pass(&mut self) {
        let start = Instant::now();
        self.refuse_untargeted().await;
        let targets = self.targets();
        if targets.is_empty() && self.stored.is_empty() {
            self.clean_if_due((self.config.now)()).await;
            return;
        }
        // The policies decide what the past and the OOM kills of new pods amount to.
        self.history.set_policies(&targets);
        self.load(&targets).await;
        let now = (self.config.now)();
        let ready: Targets = targets.iter().filter(|(it, _)| self.loaded.contains_key(*it)).map(clone).collect();
        let mut urgent = HashSet::new();
        for (workload, oom) in self.history.bind(self.cluster.pods_of(&ready, self.config), now) {
            self.config.metrics.oom();
            tracing::info!(?workload, container = oom.container, "a container was OOM killed");
            urgent.insert((*workload).clone());
        }
        self.look_at_templates().await;
        let sampled = self.sample().await;
        self.settle(&ready, &urgent, false).await;
        self.clean_if_due(now).await;
        let is_due = |last: Timestamp| now.duration_since(last) >= self.config.checkpoints_gc_interval;
        if self.compared.is_none_or(is_due) {
            self.compared = Some(now);
            self.horizontal.look(&self.config.client, ready.values().flatten()).await;
        }
        let autoscalers = ready.values().map(Vec::len).sum();
        self.config.metrics.sampled(sampled);
        self.config.metrics.holds(autoscalers, self.history.containers(), self.history.usage.size());
        self.config.metrics.passed("recommender", start.elapsed());
    }

    /// OOM kills are looked at when they are reported; everything else waits for the next pass.
    async fn follow(&mut self, changes: Vec<Change<CachedPod>>) {
        let now = (self.config.now)();
        let mut urgent = HashSet::new();
        for change in changes {
            let of = |pod: Option<Arc<CachedPod>>| pod.and_then(|pod| pod.sized.clone());
            let (Some(old), Some(new)) = (of(change.old), of(change.new)) else { continue };
            if new_ooms(Some(&old.view), &new.view, self.config.gates, |_| None).is_empty() {
                continue;
            }
            for workload in self.history.rebind(&new, now) {
                self.config.metrics.oom();
                urgent.insert(workload);
            }
        }
        self.settle_now(urgent).await;
    }

    /// Pods were evicted for the memory that they used.
    async fn learn(&mut self, evicted: &[MemoryEviction]) {
        let learned: HashSet<Workload> = evicted.iter().flat_map(|it| self.history.evicted(it)).collect();
        for workload in &learned {
            self.config.metrics.oom();
            tracing::info!(?workload, "a pod was evicted for its use of memory");
        }
        self.settle_now(learned).await;
    }

    /// Writes what these workloads have learned, at once.
    async fn settle_now(&mut self, urgent: HashSet<Workload>) {
        if !urgent.is_empty() {
            let targets: Targets = self.targets().iter().filter(|(it, _)| urgent.contains(*it)).map(clone).collect();
            self.settle(&targets, &urgent, false).await;
        }
    }

    fn targets(&self) -> Targets {
        let name = &self.config.recommender_name;
        self.cluster.targets(self.config, |autoscaler| autoscaler.is_for_recommender(name))
    }

    /// Adds the usage of now. Returns how many samples counted.
    async fn sample(&mut self) -> u64 {
        let client = &self.config.client;
        let history = &mut self.history;
        let mut counted = 0;
        let read = match &mut self.kubelets {
            Some(kubelets) => match kubelets.read(client).await {
                Ok(texts) => {
                    kubelets.parse(&texts, |sample| counted += u64::from(history.add(&sample)));
                    Ok(())
                }
                Err(error) => Err(error),
            },
            None => match metrics_api::read(client).await {
                Ok(text) => metrics_api::parse(&text, |sample| counted += u64::from(history.add(&sample)))
                    .map_err(|error| format!("the answer of the metrics API cannot be read: {error}")),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = read {
            self.config.metrics.usage_failed();
            tracing::warn!(error, "there are no new samples of usage");
        }
        counted
    }
}

fn clone(
    (workload, autoscalers): (&Workload, &Vec<Arc<VerticalPodAutoscaler>>),
) -> (Workload, Vec<Arc<VerticalPodAutoscaler>>) {
    (workload.clone(), autoscalers.clone())
}
