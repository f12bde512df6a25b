//! What is forgotten: history that is too old, and checkpoints whose autoscaler is gone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use pillion_informer::NamespacedName;
use pillion_rightsize::{Workload, target_of};

use super::{Recommender, checkpoints};
use crate::config::HistorySource;
use crate::resources::autoscalers;

impl Recommender<'_> {
    /// Returns when there is an autoscaler, and cleans up until then. Nobody's pods are read where there is nothing to recommend.
    pub(super) async fn idle(&mut self) {
        let pause = Duration::try_from(self.config.checkpoints_gc_interval).unwrap_or_default();
        // As often as passes would do it.
        let pause = pause.max(self.config.recommender_interval);
        while tokio::time::timeout(pause, self.cluster.any_autoscaler()).await.is_err() {
            self.clean((self.config.now)()).await;
        }
        self.cleaned = (self.config.now)();
    }

    pub(super) async fn clean_if_due(&mut self, now: Timestamp) {
        if now.duration_since(self.cleaned) >= self.config.checkpoints_gc_interval {
            self.cleaned = now;
            self.clean(now).await;
        }
    }

    /// Deletes checkpoints whose autoscaler is gone, and forgets old history.
    async fn clean(&mut self, now: Timestamp) {
        self.writer.learned().history.usage.expire(now);
        self.delete_orphans().await;
        // Whoever creates an autoscaler of the same target again starts with its history, and without its checkpoints.
        let autoscalers = self.cluster.autoscalers().list();
        let live: HashSet<Workload> = autoscalers.iter().filter_map(|view| target_of(&view.0)).collect();
        let learned = &mut *self.writer.learned();
        self.loaded.retain(|workload, _| live.contains(workload) || learned.history.has_pods(workload));
        let exists = |namespace: &str, name: &str| self.cluster.autoscalers().get(namespace, name).is_some();
        self.before.retain(|key, _| exists(&key.namespace, &key.name));
        learned.written.retain(|key, _| exists(&key.namespace, &key.name));
        self.missing.retain(exists);
    }

    async fn delete_orphans(&mut self) {
        let client = &self.config.client;
        let read = match &self.config.history {
            HistorySource::Checkpoints => checkpoints::read(client, None).await,
            HistorySource::Prometheus(_) => Ok(Vec::new()),
        };
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "checkpoints cannot be listed; orphans stay");
                return;
            }
        };
        let is_known = |namespace: &str, name: &str| self.cluster.autoscalers().get(namespace, name).is_some();
        let mut orphans: Vec<(NamespacedName, String)> = read
            .into_iter()
            .map(|it| (checkpoints::name_of(&it), it.spec.vpa_object_name))
            .filter(|(key, of)| !is_known(&key.namespace, of) && self.config.namespaces.has(&key.namespace))
            .collect();
        if !orphans.is_empty() {
            // The cache has no autoscalers that cannot be read, and the history of those is not lost.
            let existing = match existing(client).await {
                Ok(existing) => existing,
                Err(error) => {
                    tracing::warn!(%error, "VerticalPodAutoscalers cannot be listed; orphans stay");
                    return;
                }
            };
            orphans
                .retain(|(key, of)| !existing.contains(&NamespacedName::new(Arc::clone(&key.namespace), of.as_str())));
        }
        for (key, _) in orphans {
            match checkpoints::delete(client, &key.namespace, &key.name).await {
                Ok(()) => drop(self.writer.learned().stored.remove(&key)),
                Err(error) => tracing::warn!(checkpoint = %key, %error, "an orphan cannot be deleted"),
            }
        }
    }
}

/// The names of all autoscalers, whatever is in them.
async fn existing(client: &Client) -> Result<HashSet<NamespacedName>, kube::Error> {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &autoscalers());
    let listed = all.list_metadata(&ListParams::default()).await?;
    Ok(listed.items.iter().map(NamespacedName::of).collect())
}
