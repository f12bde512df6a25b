//! What the recommender and the updater are made of.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
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
    /// Where usage comes from.
    pub usage: UsageSource,
    /// Between two passes of the updater.
    pub updater_interval: Duration,
    /// Which pods are updated.
    pub updater: UpdaterSettings,
    /// How quickly.
    pub rate: UpdateRate,
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
            usage: UsageSource::default(),
            updater_interval: Duration::from_mins(1),
            updater: UpdaterSettings::default(),
            rate: UpdateRate::default(),
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
