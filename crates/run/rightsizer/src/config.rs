//! What the recommender and the updater are made of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use pillion_api::vpa::{DEFAULT_RECOMMENDER, Gates, ResourceList};
use pillion_rightsize::update::UpdaterSettings;
use pillion_rightsize::{EstimatorSettings, RecommendationFormat, SampleSettings};

use crate::metrics::Metrics;

/// Reads the time of day.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What the recommender and the updater are made of. The defaults are upstream's.
#[derive(Clone)]
pub struct Config {
    /// The API server.
    pub client: Client,
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
    /// What is counted.
    pub metrics: Metrics,
}

impl Config {
    /// The settings for a cluster.
    pub fn new(client: Client, now: Now) -> Config {
        Config {
            client,
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
            checkpoints_gc_interval: SignedDuration::from_mins(10),
            updater_interval: Duration::from_mins(1),
            updater: UpdaterSettings::default(),
            rate: UpdateRate::default(),
            needs_admission: true,
            metrics: Metrics::default(),
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
    /// How many more at once after a quiet time.
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
    /// Only this one.
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

/// How Prometheus is asked. The defaults are upstream's.
#[derive(Clone, Debug, PartialEq)]
pub struct Prometheus {
    /// `--prometheus-address`.
    pub address: String,
    /// `--prometheus-insecure`: certificates are not checked.
    pub insecure: bool,
    /// How this program proves who it is.
    pub login: PrometheusLogin,
    /// `--prometheus-query-timeout`.
    pub query_timeout: SignedDuration,
    /// `--history-length`.
    pub length: SignedDuration,
    /// `--history-resolution`.
    pub resolution: SignedDuration,
    /// `--prometheus-cadvisor-job-name`.
    pub cadvisor_job: String,
    /// `--history-cpu-metric`.
    pub cpu_metric: String,
    /// `--history-memory-metric`.
    pub memory_metric: String,
    /// `--container-namespace-label`.
    pub container_namespace_label: String,
    /// `--container-pod-name-label`.
    pub container_pod_label: String,
    /// `--container-name-label`.
    pub container_name_label: String,
    /// `--metric-for-pod-labels`.
    pub pod_labels_metric: String,
    /// `--pod-label-prefix`.
    pub pod_label_prefix: String,
    /// `--pod-namespace-label`.
    pub pod_namespace_label: String,
    /// `--pod-name-label`.
    pub pod_name_label: String,
}

impl Default for Prometheus {
    fn default() -> Prometheus {
        let text = str::to_owned;
        Prometheus {
            address: text("http://prometheus.monitoring.svc"),
            insecure: false,
            login: PrometheusLogin::None,
            query_timeout: SignedDuration::from_mins(5),
            length: SignedDuration::from_hours(8 * 24),
            resolution: SignedDuration::from_hours(1),
            cadvisor_job: text("kubernetes-cadvisor"),
            cpu_metric: text("container_cpu_usage_seconds_total"),
            memory_metric: text("container_memory_working_set_bytes"),
            container_namespace_label: text("namespace"),
            container_pod_label: text("pod_name"),
            container_name_label: text("name"),
            pod_labels_metric: text(r#"up{job="kubernetes-pods"}"#),
            pod_label_prefix: text("pod_label_"),
            pod_namespace_label: text("kubernetes_namespace"),
            pod_name_label: text("kubernetes_pod_name"),
        }
    }
}

/// How the recommender proves to Prometheus who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum PrometheusLogin {
    /// It does not.
    None,
    /// By a token.
    Bearer(String),
    /// By a password.
    Basic {
        /// Whose.
        username: String,
        /// The password.
        password: String,
    },
}

impl std::fmt::Debug for PrometheusLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PrometheusLogin::None => "None",
            PrometheusLogin::Bearer(_) => "Bearer(…)",
            PrometheusLogin::Basic { .. } => "Basic(…)",
        })
    }
}
