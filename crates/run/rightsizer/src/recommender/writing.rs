//! What a pass writes: statuses that moved, and checkpoints that are due.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::{
    RecommendedPodResources, VerticalPodAutoscaler, VerticalPodAutoscalerCheckpointStatus, VerticalPodAutoscalerStatus,
    checkpoint_name,
};
use pillion_rightsize::{
    Stored, Workload, controlling, is_checkpoint_due, is_fetching_history, is_status_due, keep_bounds, oldest_first,
    release_bounds, targets_custom_resource,
};
use tokio::time::Instant;

use super::{Key, Recommender, checkpoints, clone, status, support};
use crate::cluster::{AutoscalerView, Targets};
use crate::config::HistorySource;
use crate::metrics::Written;

/// A checkpoint that is to be written.
struct Due {
    key: Key,
    autoscaler: String,
    container: String,
    content: VerticalPodAutoscalerCheckpointStatus,
    stored: Stored,
}

impl Recommender<'_> {
    /// Writes what has moved: statuses, and the checkpoints that are due.
    pub(super) async fn settle(&mut self, targets: &Targets, urgent: &HashSet<Workload>, only_checkpoints: bool) {
        let now = (self.config.now)();
        let mut statuses = Vec::new();
        let mut due = Vec::new();
        for (workload, autoscalers) in targets {
            let is_urgent = urgent.contains(workload);
            let stored_for = controlling(autoscalers.iter().map(AsRef::as_ref)).map(VerticalPodAutoscaler::name);
            for autoscaler in autoscalers {
                if !only_checkpoints {
                    let scales = &mut self.scales;
                    let unsupported =
                        support::unsupported(self.cluster, self.config, scales, autoscaler, workload, now).await;
                    // Nothing is recommended for a custom resource that cannot be served. Other targets may be back in a minute.
                    let recommendation = match &unsupported {
                        Some(_) if targets_custom_resource(autoscaler) => RecommendedPodResources::default(),
                        _ => self.recommendation(autoscaler, workload, now),
                    };
                    let has_pods = self.history.has_pods(workload);
                    let status = status::status(autoscaler, recommendation, has_pods, unsupported.as_deref(), now);
                    self.warn_if_missing(autoscaler, &status, now);
                    if is_status_due(&autoscaler.status, &status, self.since_write(autoscaler, now)) {
                        statuses.push((Arc::clone(autoscaler), status));
                    }
                }
                // Of an autoscaler that controls nothing, the checkpoints were not read.
                let is_stored_elsewhere = matches!(self.config.history, HistorySource::Prometheus(_))
                    || stored_for != Some(autoscaler.name());
                if is_stored_elsewhere || is_fetching_history(&autoscaler.status.conditions) {
                    continue;
                }
                for container in self.history.usage.containers(workload) {
                    let name = checkpoint_name(autoscaler.name(), container.name());
                    let key = (workload.namespace.clone(), name);
                    if is_checkpoint_due(container, self.stored.get(&key), is_urgent, now) {
                        due.push(Due {
                            key,
                            autoscaler: autoscaler.name().to_owned(),
                            container: container.name().to_owned(),
                            content: container.to_checkpoint(now),
                            stored: Stored::of(container, now),
                        });
                    }
                }
            }
        }
        self.write_statuses(statuses, now).await;
        let timeout = if only_checkpoints { None } else { Some(self.config.checkpoints_timeout) };
        self.write_checkpoints(due, timeout).await;
    }

    /// Autoscalers without a target, which were stored while nothing checked them.
    pub(super) async fn refuse_untargeted(&mut self) {
        let now = (self.config.now)();
        let name = &self.config.recommender_name;
        let mut statuses = Vec::new();
        for AutoscalerView(autoscaler) in self.cluster.autoscalers().list().iter().map(AsRef::as_ref) {
            let is_ours = self.config.namespaces.has(autoscaler.namespace()) && autoscaler.is_for_recommender(name);
            if autoscaler.spec.target_ref.is_some() || !is_ours {
                continue;
            }
            let nothing = RecommendedPodResources::default();
            let status = status::status(autoscaler, nothing, false, Some(support::NO_TARGET), now);
            if is_status_due(&autoscaler.status, &status, SignedDuration::ZERO) {
                statuses.push((Arc::clone(autoscaler), status));
            }
        }
        self.write_statuses(statuses, now).await;
    }

    /// How long ago the status of an autoscaler was written. One that was written before this start counts from when it is first asked for.
    fn since_write(&mut self, autoscaler: &VerticalPodAutoscaler, now: Timestamp) -> SignedDuration {
        let key = (autoscaler.namespace().to_owned(), autoscaler.name().to_owned());
        now.duration_since(*self.written.entry(key).or_insert(now))
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

    async fn write_statuses(
        &mut self,
        statuses: Vec<(Arc<VerticalPodAutoscaler>, VerticalPodAutoscalerStatus)>,
        now: Timestamp,
    ) {
        let manager = self.config.field_manager();
        let writes = statuses.into_iter().map(|(autoscaler, status)| {
            let (client, manager) = (self.config.client.clone(), manager.clone());
            async move { (status::write(&client, manager, &autoscaler, &status).await, autoscaler) }.boxed()
        });
        let written: Vec<_> = stream::iter(writes).buffer_unordered(self.config.update_workers.max(1)).collect().await;
        for (written, autoscaler) in written {
            match written {
                Ok(written) => {
                    self.config.metrics.wrote(Written::Status);
                    self.written.insert((autoscaler.namespace().to_owned(), autoscaler.name().to_owned()), now);
                    self.cluster.autoscalers().written(written);
                }
                // It was deleted meanwhile.
                Err(kube::Error::Api(error)) if error.is_not_found() => {}
                // Another client has written it meanwhile. The status is written in the next pass, which sees that change.
                Err(kube::Error::Api(error)) if error.is_conflict() => {
                    let (name, namespace) = (autoscaler.name(), autoscaler.namespace());
                    tracing::debug!(autoscaler = name, namespace, "a recommendation waits for the next pass: conflict");
                }
                Err(error) => {
                    let (name, namespace) = (autoscaler.name(), autoscaler.namespace());
                    tracing::warn!(autoscaler = name, namespace, %error, "a recommendation cannot be written");
                }
            }
        }
    }

    /// Writes checkpoints, those first that were written longest ago. With a timeout, those that cannot be begun in time are left for
    /// the next pass; every worker writes those of one autoscaler at least.
    async fn write_checkpoints(&mut self, mut due: Vec<Due>, timeout: Option<Duration>) {
        let workers = self.config.update_workers.max(1);
        oldest_first(&mut due, |due| self.stored.get(&due.key).map(|stored| stored.at));
        let mut by_autoscaler: Vec<((String, String), Vec<Due>)> = Vec::new();
        let mut places: HashMap<(String, String), usize> = HashMap::new();
        for due in due {
            let key = (due.key.0.clone(), due.autoscaler.clone());
            let place = *places.entry(key.clone()).or_insert_with(|| {
                by_autoscaler.push((key, Vec::new()));
                by_autoscaler.len() - 1
            });
            if let Some((_, list)) = by_autoscaler.get_mut(place) {
                list.push(due);
            }
        }
        let start = Instant::now();
        let writes = by_autoscaler.into_iter().enumerate().map(|(i, (_, list))| {
            let client = self.config.client.clone();
            async move {
                let is_late = i >= workers && timeout.is_some_and(|timeout| start.elapsed() >= timeout);
                let mut written = Vec::new();
                if is_late {
                    return (written, true);
                }
                for Due { key, autoscaler, container, content, stored } in list {
                    let result = checkpoints::write(&client, &key.0, &autoscaler, &container, content).await;
                    written.push((result, key, stored));
                }
                (written, false)
            }
            .boxed()
        });
        let written: Vec<_> = stream::iter(writes).buffer_unordered(workers).collect().await;
        let late = written.iter().filter(|(_, is_late)| *is_late).count();
        if late > 0 {
            tracing::warn!(
                autoscalers = late,
                "checkpoints could not be written in time; they come first in the next pass"
            );
        }
        for (written, key, stored) in written.into_iter().flat_map(|(written, _)| written) {
            match written {
                Ok(()) => {
                    self.config.metrics.wrote(Written::Checkpoint);
                    self.stored.insert(key, stored);
                }
                Err(error) => {
                    tracing::warn!(checkpoint = key.1, namespace = key.0, %error, "a checkpoint cannot be written");
                }
            }
        }
    }

    fn recommendation(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        workload: &Workload,
        now: Timestamp,
    ) -> RecommendedPodResources {
        let containers = || self.history.usage.containers(workload);
        let mut recommendation = status::recommendation(autoscaler, containers(), self.config);
        if recommendation.container_recommendations.is_empty() {
            return status::kept(autoscaler, containers());
        }
        let key = (autoscaler.namespace().to_owned(), autoscaler.name().to_owned());
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
    pub(super) async fn store_all(&mut self) {
        let targets = self.targets();
        let ready: Targets = targets.iter().filter(|(it, _)| self.loaded.contains_key(*it)).map(clone).collect();
        let urgent: HashSet<Workload> = ready.keys().cloned().collect();
        self.settle(&ready, &urgent, true).await;
    }
}
