//! What is counted, by the names that Prometheus sees. docs/metrics.md describes each of them.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upstream's buckets: a pass takes milliseconds in a small cluster.
const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Labels with one key.
type Label<V> = [(&'static str, V); 1];

/// What is counted. Clones count together.
#[derive(Clone)]
pub struct Metrics {
    passes: Family<Label<&'static str>, Histogram, fn() -> Histogram>,
    autoscalers: Gauge,
    containers: Gauge,
    history: Gauge,
    samples: Counter,
    ooms: Counter,
    usage_errors: Counter,
    writes: Family<Label<Written>, Counter>,
    updates: Family<UpdateLabels, Counter>,
    stopped: Gauge,
}

/// What the recommender writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Written {
    /// The status of an autoscaler.
    Status,
    Checkpoint,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpdateLabels {
    action: Updated,
    outcome: UpdateOutcome,
}

/// What the updater does to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Updated {
    /// Resized in place.
    Resize,
    /// Evicted.
    Evict,
    /// Its boost ended.
    Unboost,
}

/// How that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum UpdateOutcome {
    Done,
    /// The API server refused.
    Failed,
    /// The brake is on: evictions change nothing.
    Stopped,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            passes: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            autoscalers: Gauge::default(),
            containers: Gauge::default(),
            history: Gauge::default(),
            samples: Counter::default(),
            ooms: Counter::default(),
            usage_errors: Counter::default(),
            writes: Family::default(),
            updates: Family::default(),
            stopped: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Adds everything to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let passes = self.passes.clone();
        registry.register_with_unit("rightsizing_pass", "Time of a pass, by controller", Unit::Seconds, passes);
        let mut gauge = |name: &str, help: &str, gauge: &Gauge| registry.register(name, help, gauge.clone());
        gauge("recommender_autoscalers", "VerticalPodAutoscalers that are served", &self.autoscalers);
        gauge("recommender_containers", "Containers whose history is kept", &self.containers);
        gauge("recommender_history_bytes", "Memory that the history takes", &self.history);
        gauge("updater_stopped", "Autoscalers whose evictions are stopped because they change nothing", &self.stopped);
        registry.register("recommender_samples", "Samples of usage that counted", self.samples.clone());
        registry.register("recommender_oom_kills", "OOM kills that counted", self.ooms.clone());
        let errors = self.usage_errors.clone();
        registry.register("recommender_usage_errors", "Times that usage could not be read", errors);
        registry.register("recommender_writes", "Writes of the recommender, by object", self.writes.clone());
        registry.register("updater_updates", "Updates of pods, by action and outcome", self.updates.clone());
    }

    pub(crate) fn passed(&self, controller: &'static str, took: Duration) {
        self.passes.get_or_create(&[("controller", controller)]).observe(took.as_secs_f64());
    }

    pub(crate) fn holds(&self, autoscalers: usize, containers: usize, bytes: usize) {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.autoscalers.set(number(autoscalers));
        self.containers.set(number(containers));
        self.history.set(number(bytes));
    }

    pub(crate) fn sampled(&self, count: u64) {
        self.samples.inc_by(count);
    }

    pub(crate) fn oom(&self) {
        self.ooms.inc();
    }

    pub(crate) fn usage_failed(&self) {
        self.usage_errors.inc();
    }

    pub(crate) fn wrote(&self, object: Written) {
        self.writes.get_or_create(&[("object", object)]).inc();
    }

    pub(crate) fn updated(&self, action: Updated, outcome: UpdateOutcome) {
        self.updates.get_or_create(&UpdateLabels { action, outcome }).inc();
    }

    pub(crate) fn stopped(&self, count: usize) {
        self.stopped.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
