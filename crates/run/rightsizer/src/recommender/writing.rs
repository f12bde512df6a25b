//! What a pass has written: statuses that moved, and checkpoints that are due.

use std::collections::HashSet;
use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::{RecommendedPodResources, VerticalPodAutoscaler, VerticalPodAutoscalerStatus};
use pillion_rightsize::{
    Workload, controlling, is_fetching_history, is_status_due, keep_bounds, oldest_first, release_bounds,
    targets_custom_resource,
};

use super::support::Support;
use super::writer::Batch;
use super::{Recommender, clone, status, support};
use crate::cluster::{AutoscalerView, Targets};
use crate::config::HistorySource;
use crate::references::name_of;

/// Checkpoints of an autoscaler that are to be written.
struct Due<'t> {
    autoscaler: &'t VerticalPodAutoscaler,
    workload: &'t Workload,
    containers: Vec<String>,
    /// When the oldest of them was stored.
    oldest: Option<Timestamp>,
    is_urgent: bool,
}

impl Recommender<'_> {
    /// Has written what has moved: statuses, and the checkpoints that are due. A target that has to be asked for delays no other.
    pub(super) async fn settle(&mut self, targets: &Targets, urgent: &HashSet<Workload>) {
        let now = (self.config.now)();
        let mut unknown = Vec::new();
        for (workload, autoscaler) in pairs(targets) {
            match support::support(self.cluster, self.config, autoscaler, workload) {
                Support::Known(unsupported) => self.settle_status(autoscaler, workload, unsupported.as_deref(), now),
                Support::Unknown => unknown.push((workload, autoscaler)),
            }
        }
        self.settle_checkpoints(targets, urgent, Some(&Batch::new(self.config.checkpoints_timeout)));
        let (config, scales) = (self.config, Arc::clone(&self.scales));
        let mut checks = Vec::with_capacity(unknown.len());
        for (workload, autoscaler) in unknown {
            let scales = &scales;
            let check = async move {
                let unsupported = support::ask(config, scales, autoscaler, workload, now).await;
                (workload, autoscaler, unsupported)
            };
            checks.push(check.boxed());
        }
        let mut checks = stream::iter(checks).buffer_unordered(config.update_workers.max(1));
        while let Some((workload, autoscaler, unsupported)) = checks.next().await {
            self.settle_status(autoscaler, workload, unsupported.as_deref(), now);
        }
    }

    /// Has the status of an autoscaler written, if it has moved.
    fn settle_status(
        &mut self,
        autoscaler: &Arc<VerticalPodAutoscaler>,
        workload: &Workload,
        unsupported: Option<&str>,
        now: Timestamp,
    ) {
        // Nothing is recommended for a custom resource that cannot be served. Other targets may be back in a minute.
        let recommendation = match unsupported {
            Some(_) if targets_custom_resource(autoscaler) => RecommendedPodResources::default(),
            _ => self.recommendation(autoscaler, workload, now),
        };
        let has_pods = self.writer.learned().history.has_pods(workload);
        let status = status::status(autoscaler, recommendation, has_pods, unsupported, now);
        self.warn_if_missing(autoscaler, &status, now);
        let since = self.writer.learned().since_write(autoscaler, now);
        let is_due = is_status_due(&autoscaler.status, &status, since);
        self.writer.wish_status(autoscaler, is_due.then_some(status));
    }

    /// Has written the checkpoints that are due, those first that were written longest ago.
    fn settle_checkpoints(&self, targets: &Targets, urgent: &HashSet<Workload>, batch: Option<&Arc<Batch>>) {
        let now = (self.config.now)();
        let mut all = Vec::new();
        for (workload, autoscaler) in pairs(targets) {
            let stored_for = targets.get(workload).and_then(|it| controlling(it.iter().map(AsRef::as_ref)));
            // Of an autoscaler that controls nothing, the checkpoints were not read.
            let is_stored_elsewhere = matches!(self.config.history, HistorySource::Prometheus(_))
                || stored_for.map(VerticalPodAutoscaler::name) != Some(autoscaler.name());
            if is_stored_elsewhere || is_fetching_history(&autoscaler.status.conditions) {
                self.writer.forget_checkpoints(autoscaler);
                continue;
            }
            let is_urgent = urgent.contains(workload);
            let due = self.writer.learned().due(workload, autoscaler.name(), is_urgent, now);
            if let Some((oldest, containers)) = due {
                all.push(Due { autoscaler, workload, containers, oldest, is_urgent });
            }
        }
        oldest_first(&mut all, |due| due.oldest);
        for Due { autoscaler, workload, containers, is_urgent, .. } in all {
            self.writer.wish_checkpoints(autoscaler, workload, containers, is_urgent, batch);
        }
    }

    /// Autoscalers without a target, which were stored while nothing checked them.
    pub(super) fn refuse_untargeted(&self) {
        let now = (self.config.now)();
        let name = &self.config.recommender_name;
        for AutoscalerView(autoscaler) in self.cluster.autoscalers().list().iter().map(AsRef::as_ref) {
            let is_ours = self.config.namespaces.has(autoscaler.namespace()) && autoscaler.is_for_recommender(name);
            if autoscaler.spec.target_ref.is_some() || !is_ours {
                continue;
            }
            let nothing = RecommendedPodResources::default();
            let status = status::status(autoscaler, nothing, false, Some(support::NO_TARGET), now);
            let is_due = is_status_due(&autoscaler.status, &status, SignedDuration::ZERO);
            self.writer.wish_status(autoscaler, is_due.then_some(status));
        }
    }

    fn warn_if_missing(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        status: &VerticalPodAutoscalerStatus,
        now: Timestamp,
    ) {
        let has_any = status.recommendation.as_ref().is_some_and(|it| !it.container_recommendations.is_empty());
        if let Some(text) = self.missing.record(autoscaler.namespace(), autoscaler.name(), has_any, now) {
            tracing::warn!("{text}");
        }
    }

    fn recommendation(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        workload: &Workload,
        now: Timestamp,
    ) -> RecommendedPodResources {
        let learned = self.writer.learned();
        let containers = || learned.history.usage.containers(workload);
        let mut recommendation = status::recommendation(autoscaler, containers(), self.config);
        if recommendation.container_recommendations.is_empty() {
            return status::kept(autoscaler, containers());
        }
        let key = name_of(autoscaler);
        if let Some((before, since)) = self.before.get_mut(&key) {
            if now.duration_since(*since) >= self.config.samples.memory.interval {
                self.before.remove(&key);
            } else {
                release_bounds(before, &recommendation);
                keep_bounds(&mut recommendation, before);
            }
        }
        recommendation
    }

    /// Stores everything that is not stored yet.
    pub(super) async fn store_all(&self) {
        let targets = self.targets();
        let ready: Targets = targets.iter().filter(|(it, _)| self.loaded.contains_key(*it)).map(clone).collect();
        let urgent: HashSet<Workload> = ready.keys().cloned().collect();
        self.settle_checkpoints(&ready, &urgent, None);
        self.writer.end().await;
    }
}

fn pairs(targets: &Targets) -> impl Iterator<Item = (&Workload, &Arc<VerticalPodAutoscaler>)> {
    targets.iter().flat_map(|(workload, autoscalers)| autoscalers.iter().map(move |autoscaler| (workload, autoscaler)))
}
