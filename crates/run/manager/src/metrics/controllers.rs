//! What is counted of each controller, by the names that controllers of Kubernetes have for it.

use std::time::Duration;

use pillion_informer::Observe;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Label, add, add_seconds};

/// A request has a deadline of 30 seconds, and a reconciliation can make several.
const SECONDS: [f64; 11] = [0.001, 0.0025, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 25.0, 60.0];

type Histograms = Family<Label<&'static str>, Histogram, fn() -> Histogram>;

pub(super) struct Controllers {
    running: Family<Label<&'static str>, Gauge>,
    depth: Family<Label<&'static str>, Gauge>,
    waits: Histograms,
    durations: Histograms,
    retries: Family<Label<&'static str>, Counter>,
    errors: Family<Label<&'static str>, Counter>,
}

impl Controllers {
    pub(super) fn new(registry: &mut Registry) -> Controllers {
        let histograms: fn() -> Histogram = || Histogram::new(SECONDS);
        Controllers {
            running: add(registry, "controller_running", "1 while a controller reconciles"),
            depth: add(registry, "workqueue_depth", "Objects that wait for a controller"),
            waits: add_seconds(
                registry,
                "workqueue_queue_duration",
                "How long objects waited for a controller",
                Family::new_with_constructor(histograms),
            ),
            durations: add_seconds(
                registry,
                "workqueue_work_duration",
                "How long a controller worked on an object",
                Family::new_with_constructor(histograms),
            ),
            retries: add(registry, "workqueue_retries", "Reconciliations after an error"),
            errors: add(registry, "reconcile_errors", "Reconciliations that failed"),
        }
    }

    /// Whether a controller reconciles: it leads, and its caches are synced.
    pub(super) fn is_running(&self, controller: &'static str) -> bool {
        self.running.get(&[("controller", controller)]).is_some_and(|running| running.get() == 1)
    }

    /// Those of one controller, which is running until they are dropped.
    pub(super) fn of(&self, controller: &'static str) -> Counted {
        let labels = [("controller", controller)];
        let running = self.running.get_or_create_owned(&labels);
        running.set(1);
        Counted {
            running,
            depth: self.depth.get_or_create_owned(&labels),
            waits: self.waits.get_or_create_owned(&labels),
            durations: self.durations.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            errors: self.errors.get_or_create_owned(&labels),
        }
    }
}

pub(super) struct Counted {
    running: Gauge,
    depth: Gauge,
    waits: Histogram,
    durations: Histogram,
    retries: Counter,
    errors: Counter,
}

impl Observe for Counted {
    fn waiting(&self, keys: usize) {
        self.depth.set(i64::try_from(keys).unwrap_or(i64::MAX));
    }

    fn begins(&self, waited: Duration, is_retry: bool) {
        self.waits.observe(waited.as_secs_f64());
        self.retries.inc_by(is_retry.into());
    }

    fn ended(&self, took: Duration, has_failed: bool) {
        self.durations.observe(took.as_secs_f64());
        self.errors.inc_by(has_failed.into());
    }
}

impl Drop for Counted {
    /// Another replica may lead now: nothing waits here.
    fn drop(&mut self) {
        self.running.set(0);
        self.depth.set(0);
    }
}
