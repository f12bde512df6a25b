//! The recommender: samples of usage and OOM kills become recommendations and checkpoints.
//!
//! ```text
//!  a pass: checkpoints of new autoscalers, or their history in Prometheus ▸ pods ▸ usage ▸ recommendations ─┐
//!  an OOM kill or an eviction for memory, at once: the recommendation of its workload ─────────────────────┤
//!                                                                                                          ▼
//!                       each on its own: statuses that moved, and then the checkpoints of each autoscaler that are due
//! ```

mod batches;
mod checkpoints;
mod cleaning;
mod evictions;
mod history;
mod horizontal;
mod kubelets;
mod learned;
mod loading;
mod metrics_api;
mod past;
mod prometheus;
mod samples;
mod status;
mod support;
mod template;
mod writer;
mod writing;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::channel::mpsc;
use jiff::Timestamp;
use pillion_api::vpa::{RecommendedPodResources, VerticalPodAutoscaler};
use pillion_informer::{NamespacedName, with_deadlines};
use pillion_pods::SizedPod;
use pillion_rightsize::{MemoryEviction, Missing, Workload};
use tokio::time::Instant;

use self::horizontal::Horizontal;
use self::kubelets::Kubelets;
use self::writer::Writer;
use crate::cluster::{Cluster, Targets};
use crate::config::{Config, UsageSource};
use crate::definition::defined;
use crate::owners::Scales;

/// Recommends until `stopping`; what is not stored yet is stored then.
pub async fn recommend(cluster: &Cluster, config: &Config, stopping: impl Future<Output = ()>) {
    let config = &Config { client: with_deadlines(&config.client), ..config.clone() };
    // The reconciler always takes keys out, also while requests hang, and holds each key once.
    let (due, writes) = mpsc::unbounded();
    let writer = Writer::new(cluster, config, due);
    let mut recommender = Recommender::new(cluster, config, &writer);
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
    let recommending = async {
        let recommender = tokio::sync::Mutex::new(recommender);
        tokio::select! {
            () = batches::run(&recommender, pods.cache(), config) => {}
            () = stopping => {}
        }
        recommender.into_inner().store_all().await;
    };
    tokio::select! {
        () = writer.run(writes) => {}
        () = recommending => {}
    }
}

struct Recommender<'a> {
    cluster: &'a Cluster,
    config: &'a Config,
    /// Has what was learned, and writes what follows from it.
    writer: &'a Writer<'a>,
    kubelets: Option<Kubelets>,
    /// The workloads whose checkpoints have been read, and of which autoscaler.
    loaded: HashMap<Workload, String>,
    /// Those whose pods have not been looked at since.
    unseen: Vec<Workload>,
    /// What was recommended before this start, until history has caught up: after a whole memory window at most.
    before: HashMap<NamespacedName, (RecommendedPodResources, Timestamp)>,
    scales: Arc<Scales>,
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
    fn new(cluster: &'a Cluster, config: &'a Config, writer: &'a Writer<'a>) -> Recommender<'a> {
        let kubelets = match &config.usage {
            UsageSource::MetricsApi => None,
            UsageSource::Kubelets(config) => Some(Kubelets::new((**config).clone())),
        };
        Recommender {
            cluster,
            config,
            writer,
            kubelets,
            loaded: HashMap::new(),
            unseen: Vec::new(),
            before: HashMap::new(),
            scales: Arc::default(),
            horizontal: Horizontal::new(config),
            missing: Missing::default(),
            cleaned: (config.now)(),
            compared: None,
        }
    }

    async fn pass(&mut self) {
        let start = Instant::now();
        self.refuse_untargeted();
        let targets = self.targets();
        if targets.is_empty() && self.writer.learned().stored.is_empty() {
            self.clean_if_due((self.config.now)()).await;
            return;
        }
        // The policies decide what the past and the OOM kills of new pods amount to.
        self.writer.learned().history.set_policies(&targets);
        self.load(&targets).await;
        let now = (self.config.now)();
        let ready: Targets = targets.iter().filter(|(it, _)| self.loaded.contains_key(*it)).map(clone).collect();
        let mut urgent = HashSet::new();
        let kills = self.writer.learned().history.bind(self.cluster.pods_of(&ready, self.config), now);
        for (workload, oom) in kills {
            self.config.metrics.oom();
            tracing::info!(?workload, container = oom.container, "a container was OOM killed");
            urgent.insert((*workload).clone());
        }
        self.look_at_templates().await;
        let sampled = self.sample().await;
        self.settle(&ready, &urgent).await;
        self.clean_if_due(now).await;
        let is_due = |last: Timestamp| now.duration_since(last) >= self.config.checkpoints_gc_interval;
        if self.compared.is_none_or(is_due) {
            self.compared = Some(now);
            self.horizontal.look(&self.config.client, ready.values().flatten()).await;
        }
        let autoscalers = ready.values().map(Vec::len).sum();
        self.config.metrics.sampled(sampled);
        {
            let history = &self.writer.learned().history;
            self.config.metrics.holds(autoscalers, history.containers(), history.usage.size());
        }
        self.config.metrics.passed("recommender", start.elapsed());
    }

    /// Pods had containers OOM killed.
    async fn follow(&mut self, killed: &[Arc<SizedPod>]) {
        let now = (self.config.now)();
        let mut urgent = HashSet::new();
        for pod in killed {
            let learned = self.writer.learned().history.rebind(pod, now);
            for workload in learned {
                self.config.metrics.oom();
                urgent.insert(workload);
            }
        }
        self.settle_now(urgent).await;
    }

    /// Pods were evicted for the memory that they used.
    async fn learn(&mut self, evicted: &[MemoryEviction]) {
        let learned: HashSet<Workload> = {
            let history = &mut self.writer.learned().history;
            evicted.iter().flat_map(|it| history.evicted(it)).collect()
        };
        for workload in &learned {
            self.config.metrics.oom();
            tracing::info!(?workload, "a pod was evicted for its use of memory");
        }
        self.settle_now(learned).await;
    }

    /// Has written what these workloads have learned, at once.
    async fn settle_now(&mut self, urgent: HashSet<Workload>) {
        if !urgent.is_empty() {
            let targets: Targets = self.targets().iter().filter(|(it, _)| urgent.contains(*it)).map(clone).collect();
            self.settle(&targets, &urgent).await;
        }
    }

    fn targets(&self) -> Targets {
        let name = &self.config.recommender_name;
        self.cluster.targets(self.config, |autoscaler| autoscaler.is_for_recommender(name))
    }

    /// Adds the usage of now. Returns how many samples counted.
    async fn sample(&mut self) -> u64 {
        let client = &self.config.client;
        let mut counted = 0;
        let read = match &mut self.kubelets {
            Some(kubelets) => kubelets.read(client).await.map(|texts| {
                let history = &mut self.writer.learned().history;
                kubelets.parse(&texts, |sample| counted += u64::from(history.add(&sample)));
            }),
            None => metrics_api::read(client).await.and_then(|text| {
                let history = &mut self.writer.learned().history;
                metrics_api::parse(&text, |sample| counted += u64::from(history.add(&sample)))
                    .map_err(|error| format!("the answer of the metrics API cannot be read: {error}"))
            }),
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
