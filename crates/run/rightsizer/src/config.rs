//! What the recommender and the updater are made of.

mod prometheus;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use pillion_api::vpa::{DEFAULT_RECOMMENDER, Gates, ResourceList};
use pillion_informer::Observe;
use pillion_rightsize::update::UpdaterSettings;
use pillion_rightsize::{EstimatorSettings, RecommendationFormat, SampleSettings};

use crate::lease_name::{self, LeaseName};
use crate::metrics::Metrics;

pub use prometheus::{Prometheus, PrometheusLogin};

/// Reads the time of day.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Makes what counts the work of a controller, by its name: `updater`, `recommender` (its passes) or `recommender-writes`.
pub type Observers = Arc<dyn Fn(&'static str) -> Box<dyn Observe> + Send + Sync>;

/// What the recommender and the updater are made of. The defaults are upstream's.
#[derive(Clone)]
pub struct Config {
    /// The API server.
    pub client: Client,
    /// The same for evictions, where `client` repeats requests by itself: 429 is the answer to an eviction that a PodDisruptionBudget forbids.
    pub evicting: Option<Client>,
    /// The one clock.
    pub now: Now,
    /// The feature gates.
    pub gates: Gates,
    /// The name of this recommender: it serves the autoscalers that name it.
    pub recommender_name: String,
    /// Between two passes of the recommender.
    pub recommender_interval: Duration,
    /// How samples become history.
    pub samples: SampleSettings,
    /// How history becomes recommendations.
    pub estimator: EstimatorSettings,
    /// How recommendations are written.
    pub format: RecommendationFormat,
    /// The most that is recommended for a container whose policy has no maximum of its own.
    pub max_allowed: ResourceList,
    /// Whether CPU is rounded up to whole cores where an annotation of the autoscaler asks for it.
    pub rounds_to_whole_cores: bool,
    /// Where usage comes from.
    pub usage: UsageSource,
    /// Where the history from before a start comes from.
    pub history: HistorySource,
    /// The manager's namespace: autoscalers of SidecarSets are there.
    pub home: String,
    /// The namespaces whose autoscalers are served.
    pub namespaces: Namespaces,
    /// How many writes of the recommender are under way at once.
    pub update_workers: usize,
    /// Checkpoints that a pass could not begin to write within this time are left for the next one.
    pub checkpoints_timeout: Duration,
    /// How often orphaned checkpoints are looked for.
    pub checkpoints_gc_interval: SignedDuration,
    /// Between two passes of the updater.
    pub updater_interval: Duration,
    /// Which pods are updated.
    pub updater: UpdaterSettings,
    /// How quickly.
    pub rate: UpdateRate,
    /// Whether pods are updated only while an admission controller is alive.
    pub needs_admission: bool,
    /// The namespaces that our webhook is not called for: pods there are not evicted, since they would come back as they were.
    pub not_admitted: BTreeSet<String>,
    /// The Lease by which the updater knows that.
    pub admission_lease: LeaseName,
    /// For how long a renewal of it is good.
    pub admission_lease_timeout: SignedDuration,
    /// The Lease that our admission controller renews.
    pub status_lease: LeaseName,
    /// How often.
    pub status_lease_interval: Duration,
    /// What is counted.
    pub metrics: Metrics,
    /// What is counted of each controller.
    pub observers: Observers,
}

impl Config {
    /// The settings for a cluster.
    pub fn new(client: Client, now: Now) -> Config {
        Config {
            client,
            evicting: None,
            now,
            gates: Gates::default(),
            recommender_name: DEFAULT_RECOMMENDER.to_owned(),
            recommender_interval: Duration::from_mins(1),
            samples: SampleSettings::default(),
            estimator: EstimatorSettings::default(),
            format: RecommendationFormat::default(),
            max_allowed: ResourceList::default(),
            rounds_to_whole_cores: false,
            usage: UsageSource::default(),
            history: HistorySource::default(),
            home: String::new(),
            namespaces: Namespaces::default(),
            update_workers: 10,
            checkpoints_timeout: Duration::from_mins(1),
            checkpoints_gc_interval: SignedDuration::from_mins(10),
            updater_interval: Duration::from_mins(1),
            updater: UpdaterSettings::default(),
            rate: UpdateRate::default(),
            needs_admission: true,
            not_admitted: BTreeSet::new(),
            admission_lease: LeaseName::default(),
            admission_lease_timeout: lease_name::VALID,
            status_lease: LeaseName::default(),
            status_lease_interval: lease_name::RENEW,
            metrics: Metrics::default(),
            observers: Arc::new(|_| Box::new(())),
        }
    }

    /// The field manager of what this recommender writes. Kubernetes allows 128 characters.
    pub(crate) fn field_manager(&self) -> String {
        match self.recommender_name.as_str() {
            DEFAULT_RECOMMENDER => "pillion-recommender".to_owned(),
            name => format!("pillion-recommender-{name}").chars().take(128).collect(),
        }
    }
}

/// Where usage comes from.
#[derive(Clone, Debug, Default)]
pub enum UsageSource {
    /// The metrics API, which metrics-server serves.
    #[default]
    MetricsApi,
    /// `/metrics/resource` of every kubelet; no metrics-server is needed. The configuration says how this program proves who it is, and
    /// whose certificates it trusts.
    Kubelets(Box<kube::Config>),
}

/// How quickly pods are updated. Upstream has no limit unless one is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateRate {
    /// Evictions per second; no limit at zero.
    pub evictions: f64,
    /// Resizes per second; no limit at zero.
    pub resizes: f64,
    /// How many may be made at once after a quiet time.
    pub burst: u32,
}

impl Default for UpdateRate {
    fn default() -> UpdateRate {
        UpdateRate { evictions: 1.0, resizes: 10.0, burst: 10 }
    }
}

/// The namespaces whose autoscalers are served: all of them, unless something is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    pub only: Option<String>,
    /// All but these.
    pub ignored: BTreeSet<String>,
}

impl Namespaces {
    /// Whether the autoscalers of a namespace are served.
    pub fn has(&self, namespace: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == namespace) && !self.ignored.contains(namespace)
    }
}

/// Where the history from before a start comes from.
#[derive(Clone, Debug, Default)]
pub enum HistorySource {
    /// Checkpoints, which the recommender writes.
    #[default]
    Checkpoints,
    /// Prometheus. Checkpoints are neither read nor written.
    Prometheus(Box<Prometheus>),
}
