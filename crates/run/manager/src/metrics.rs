//! What is counted, by the names that Prometheus sees. docs/metrics.md describes each of them.

mod api_requests;
mod controllers;

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use pillion_informer::{Cache, Observe};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

pub use api_requests::CountRequests;
use controllers::Controllers;

/// The content type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// From a tenth of a millisecond, which an admission takes, to the three seconds that it may take.
const SECONDS: [f64; 13] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 3.0];

/// What is counted. Clones count together.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

/// Labels with one key.
type Label<V> = [(&'static str, V); 1];

struct Inner {
    registry: Registry,
    reviews: Family<ReviewLabels, Counter>,
    durations: Family<Label<&'static str>, Histogram, fn() -> Histogram>,
    conversions: Family<Label<Outcome>, Counter>,
    api_requests: Family<RequestLabels, Counter>,
    controllers: Controllers,
    leading: Family<Label<&'static str>, Gauge>,
    cached: Family<Label<&'static str>, Gauge>,
    cache_changes: Family<Label<&'static str>, Gauge>,
    cache_failing: Family<Label<&'static str>, Gauge>,
    certificate_expiry: Gauge,
    missed_pods: Family<Label<String>, Gauge>,
    evictions: Family<EvictionLabels, Counter>,
    rightsizing: pillion_rightsizer::Metrics,
    rollout_pods: Family<RolloutLabels, Gauge>,
    rollout_blocked: Family<Label<String>, Gauge>,
    pinned_missing: Family<Label<String>, Gauge>,
    places_withdrawn: Family<Label<String>, Counter>,
    pod_writes: Family<PodWriteLabels, Counter>,
}

/// How far the rollout of a set is, in pods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RolloutPods {
    pub(crate) matched: i32,
    pub(crate) updated: i32,
    pub(crate) ready: i32,
    pub(crate) updated_ready: i32,
    pub(crate) not_upgradable: i32,
    pub(crate) is_blocked: bool,
    pub(crate) is_pin_missing: bool,
}

/// What is counted of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum RolloutState {
    Matched,
    Updated,
    Ready,
    UpdatedReady,
    NotUpgradable,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RolloutLabels {
    sidecarset: String,
    state: RolloutState,
}

/// How a write to a pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum PodWrite {
    /// The pod is changed.
    Written,
    /// It had been changed by somebody else.
    Conflict,
    /// The API server will refuse the same again.
    Refused,
    /// The API server did not do its work.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PodWriteLabels {
    sidecarset: String,
    outcome: PodWrite,
}

/// How a review ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Outcome {
    /// Allowed as it came.
    Allowed,
    /// Allowed with changes.
    Changed,
    /// Refused.
    Denied,
    /// It was no review.
    Malformed,
    /// There was too much to do.
    Shed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewLabels {
    webhook: &'static str,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EvictionLabels {
    sidecarset: String,
    outcome: Eviction,
}

/// How an eviction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Eviction {
    /// The pod is evicted.
    Evicted,
    /// A PodDisruptionBudget does not allow it now.
    Blocked,
    /// The API server refused for another reason.
    Failed,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut all = Registry::with_prefix("pillion");
        let registry = &mut all;
        let durations: fn() -> Histogram = || Histogram::new(SECONDS);
        let inner = Inner {
            reviews: add(registry, "admission_reviews", "Admission reviews answered, by webhook and outcome"),
            durations: add_seconds(
                registry,
                "admission_duration",
                "How long admission reviews took, from the last byte of the request on",
                Family::new_with_constructor(durations),
            ),
            conversions: add(registry, "conversion_reviews", "Conversion reviews answered, by outcome"),
            api_requests: add(registry, "api_requests", "Requests to the API server, by verb and status code"),
            controllers: Controllers::new(registry),
            leading: add(registry, "leader", "Whether this process leads, by controller"),
            cached: add(registry, "cache_objects", "Objects in a cache, by kind"),
            cache_changes: add_seconds(
                registry,
                "cache_age",
                "Time since the API server last reported a change to a cache, by kind",
                Family::default(),
            ),
            cache_failing: add_seconds(
                registry,
                "cache_failing",
                "For how long the watch of a cache has failed, by kind",
                Family::default(),
            ),
            certificate_expiry: add_seconds(
                registry,
                "certificate_expiry_timestamp",
                "When the serving certificate expires, in Unix time",
                Gauge::default(),
            ),
            missed_pods: add(registry, "missed_pods", "Pods that should have the sidecars of a SidecarSet and do not"),
            evictions: add(registry, "repair_evictions", "Evictions of pods without their sidecars"),
            rightsizing: rightsizing(registry),
            rollout_pods: add(registry, "rollout_pods", "Pods of a SidecarSet, by state"),
            rollout_blocked: add(
                registry,
                "rollout_blocked",
                "Whether the rollout of a SidecarSet cannot go on by itself",
            ),
            pinned_missing: add(
                registry,
                "pinned_revision_missing",
                "Whether the revision that a SidecarSet pins for new pods does not exist",
            ),
            places_withdrawn: add(
                registry,
                "places_withdrawn",
                "Places of a partition whose pods were refused after their admission",
            ),
            pod_writes: add(registry, "rollout_pod_writes", "Steps of running pods to another revision"),
            registry: all,
        };
        Metrics { inner: Arc::new(inner) }
    }
}

fn rightsizing(registry: &mut Registry) -> pillion_rightsizer::Metrics {
    let metrics = pillion_rightsizer::Metrics::default();
    metrics.register(registry);
    metrics
}

/// Sets a gauge, or removes its series.
fn set<L: Clone + Eq + Hash>(family: &Family<L, Gauge>, labels: &L, value: Option<i64>) {
    match value {
        Some(value) => drop(family.get_or_create(labels).set(value)),
        None => drop(family.remove(labels)),
    }
}

fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

fn add_seconds<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

impl Metrics {
    /// A layer for a client that counts its requests.
    pub fn count_requests(&self) -> CountRequests {
        CountRequests::new(self.clone())
    }

    pub(crate) fn rightsizing(&self) -> &pillion_rightsizer::Metrics {
        &self.inner.rightsizing
    }

    pub(crate) fn reviewed(&self, webhook: &'static str, outcome: Outcome, took: Duration) {
        self.inner.reviews.get_or_create(&ReviewLabels { webhook, outcome }).inc();
        self.inner.durations.get_or_create(&[("webhook", webhook)]).observe(took.as_secs_f64());
    }

    pub(crate) fn converted(&self, outcome: Outcome) {
        self.inner.conversions.get_or_create(&[("outcome", outcome)]).inc();
    }

    fn requested(&self, verb: String, code: u16) {
        self.inner.api_requests.get_or_create(&RequestLabels { verb, code }).inc();
    }

    /// Counts what a controller does, until dropped.
    pub(crate) fn controller(&self, name: &'static str) -> Box<dyn Observe> {
        Box::new(self.inner.controllers.of(name))
    }

    /// Whether a controller reconciles: it leads, and its caches are synced.
    pub(crate) fn is_running(&self, controller: &'static str) -> bool {
        self.inner.controllers.is_running(controller)
    }

    pub(crate) fn leads(&self, controller: &'static str, leads: bool) {
        self.inner.leading.get_or_create(&[("controller", controller)]).set(i64::from(leads));
    }

    pub(crate) fn cache<V>(&self, kind: &'static str, cache: &Cache<V>) {
        let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let objects = i64::try_from(cache.len()).unwrap_or(i64::MAX);
        let failing = cache.failure().map(|failure| failure.since.elapsed()).unwrap_or_default();
        self.inner.cached.get_or_create(&[("kind", kind)]).set(objects);
        self.inner.cache_changes.get_or_create(&[("kind", kind)]).set(seconds(cache.age()));
        self.inner.cache_failing.get_or_create(&[("kind", kind)]).set(seconds(failing));
    }

    pub(crate) fn certificate_expires(&self, at: i64) {
        self.inner.certificate_expiry.set(at);
    }

    /// `None` for a set without missed pods, which has no series.
    pub(crate) fn missed(&self, sidecarset: &str, pods: Option<usize>) {
        let pods = pods.map(|pods| i64::try_from(pods).unwrap_or(i64::MAX));
        set(&self.inner.missed_pods, &[("sidecarset", sidecarset.to_owned())], pods);
    }

    /// A set is gone, and with it what was done to its pods.
    pub(crate) fn no_evictions(&self, sidecarset: &str) {
        for outcome in [Eviction::Evicted, Eviction::Blocked, Eviction::Failed] {
            self.inner.evictions.remove(&EvictionLabels { sidecarset: sidecarset.to_owned(), outcome });
        }
    }

    /// This process does not lead repairs any more.
    pub(crate) fn no_missed(&self) {
        self.inner.missed_pods.clear();
    }

    pub(crate) fn evicted(&self, sidecarset: &str, outcome: Eviction) {
        let labels = EvictionLabels { sidecarset: sidecarset.to_owned(), outcome };
        self.inner.evictions.get_or_create(&labels).inc();
    }

    /// `None` for a set that is gone. One without pods has no series: a large cluster has many of them, and each would take several.
    pub(crate) fn rollout(&self, sidecarset: &str, pods: Option<&RolloutPods>) {
        if pods.is_none() {
            self.inner.places_withdrawn.remove(&[("sidecarset", sidecarset.to_owned())]);
            for outcome in [PodWrite::Written, PodWrite::Conflict, PodWrite::Refused, PodWrite::Failed] {
                self.inner.pod_writes.remove(&PodWriteLabels { sidecarset: sidecarset.to_owned(), outcome });
            }
        }
        let labels = [("sidecarset", sidecarset.to_owned())];
        set(&self.inner.pinned_missing, &labels, pods.filter(|pods| pods.is_pin_missing).map(|_| 1));
        let pods = pods.filter(|pods| pods.matched > 0 || pods.is_blocked);
        let counted = |pods: &RolloutPods| {
            [
                (RolloutState::Matched, pods.matched),
                (RolloutState::Updated, pods.updated),
                (RolloutState::Ready, pods.ready),
                (RolloutState::UpdatedReady, pods.updated_ready),
                (RolloutState::NotUpgradable, pods.not_upgradable),
            ]
        };
        for (state, count) in counted(pods.unwrap_or(&RolloutPods::default())) {
            let labels = RolloutLabels { sidecarset: sidecarset.to_owned(), state };
            set(&self.inner.rollout_pods, &labels, pods.map(|_| count.into()));
        }
        set(&self.inner.rollout_blocked, &labels, pods.map(|pods| pods.is_blocked.into()));
    }

    /// This process does not lead rollouts any more.
    pub(crate) fn no_rollouts(&self) {
        self.inner.rollout_pods.clear();
        self.inner.rollout_blocked.clear();
        self.inner.pinned_missing.clear();
    }

    pub(crate) fn places_withdrawn(&self, sidecarset: &str, places: usize) {
        let labels = [("sidecarset", sidecarset.to_owned())];
        let places = u64::try_from(places).unwrap_or(u64::MAX);
        self.inner.places_withdrawn.get_or_create(&labels).inc_by(places);
    }

    pub(crate) fn changed_pod(&self, sidecarset: &str, outcome: PodWrite) {
        let labels = PodWriteLabels { sidecarset: sidecarset.to_owned(), outcome };
        self.inner.pod_writes.get_or_create(&labels).inc();
    }

    /// Everything, as [`CONTENT_TYPE`] says.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.inner.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn reviews_are_counted_by_webhook_and_outcome() {
        let metrics = Metrics::default();
        metrics.reviewed("/mutate-pod", Outcome::Changed, Duration::from_micros(150));
        metrics.reviewed("/mutate-pod", Outcome::Changed, Duration::from_micros(300));
        metrics.reviewed("/mutate-pod", Outcome::Denied, Duration::from_millis(2));
        let text = metrics.text();
        for line in [
            r#"pillion_admission_reviews_total{webhook="/mutate-pod",outcome="Changed"} 2"#,
            r#"pillion_admission_reviews_total{webhook="/mutate-pod",outcome="Denied"} 1"#,
            r#"pillion_admission_duration_seconds_bucket{le="0.00025",webhook="/mutate-pod"} 1"#,
            r#"pillion_admission_duration_seconds_count{webhook="/mutate-pod"} 3"#,
            "# EOF",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    /// Something of everything: a metric without a value is not served.
    fn filled() -> Metrics {
        let metrics = Metrics::default();
        metrics.reviewed("/mutate-pod", Outcome::Changed, Duration::ZERO);
        metrics.converted(Outcome::Changed);
        metrics.requested("GET".to_owned(), 200);
        metrics.leads("webhook", true);
        let controller = metrics.controller("lifecycle");
        controller.waiting(1);
        controller.begins(Duration::ZERO, true);
        controller.ended(Duration::ZERO, true);
        metrics.cache("Pod", &Cache::<Pod>::new());
        metrics.missed("mesh", Some(1));
        metrics.evicted("mesh", Eviction::Evicted);
        metrics.rollout("mesh", Some(&RolloutPods { matched: 1, is_pin_missing: true, ..RolloutPods::default() }));
        metrics.places_withdrawn("mesh", 1);
        metrics.changed_pod("mesh", PodWrite::Written);
        metrics
    }

    #[test]
    fn a_set_that_is_gone_leaves_no_series() {
        let metrics = filled();
        for outcome in [PodWrite::Conflict, PodWrite::Refused, PodWrite::Failed] {
            metrics.changed_pod("mesh", outcome);
        }
        metrics.evicted("mesh", Eviction::Blocked);
        metrics.evicted("mesh", Eviction::Failed);
        metrics.missed("mesh", None);
        metrics.no_evictions("mesh");
        metrics.rollout("mesh", None);
        assert!(!metrics.text().contains("mesh"), "{}", metrics.text());
    }

    #[test]
    fn what_was_done_to_a_set_is_still_counted_when_its_last_pod_is_gone() {
        let metrics = filled();
        metrics.rollout("mesh", Some(&RolloutPods::default()));
        let text = metrics.text();
        assert!(text.contains("pillion_rollout_pod_writes_total{sidecarset=\"mesh\""), "{text}");
        assert!(!text.contains("pillion_rollout_pods{"), "{text}");
    }

    #[test]
    fn every_metric_is_documented_with_its_type_and_no_other_is() {
        // Those of the recommender and the updater are filled by their own crate.
        let is_ours = |row: &str| {
            let others = ["rightsizing", "recommender", "updater"];
            !others.iter().any(|other| row.starts_with(&format!("pillion_{other}_")))
        };
        let metrics = filled().text();
        let described = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let served: BTreeSet<String> = described
            .map(|(name, kind)| format!("{name}{} {kind}", if kind == "counter" { "_total" } else { "" }))
            .filter(|row| is_ours(row))
            .collect();
        let document = include_str!("../../../../docs/metrics.md");
        let rows = document.lines().filter_map(|line| line.strip_prefix("| `pillion_")?.split_once("` | "));
        let documented: BTreeSet<String> = rows
            .map(|(name, rest)| format!("pillion_{name} {}", rest.split(" |").next().unwrap_or_default()))
            .filter(|row| is_ours(row) && ["counter", "gauge", "histogram"].iter().any(|kind| row.ends_with(kind)))
            .collect();
        assert_eq!(documented, served);
    }
}
