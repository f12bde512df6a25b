//! History from before this start: read before anything is recommended or stored.

use std::collections::{BTreeSet, HashMap};

use futures::{FutureExt as _, StreamExt as _, stream};
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_informer::NamespacedName;
use pillion_rightsize::{Workload, controlling, is_recommended_by};

use super::template::Template;
use super::{Recommender, checkpoints, clone, past};
use crate::cluster::Targets;
use crate::config::HistorySource;

impl Recommender<'_> {
    /// Reads the history of autoscalers that are new. Without it nothing is recommended or stored.
    pub(super) async fn load(&mut self, targets: &Targets) {
        match &self.config.history {
            HistorySource::Checkpoints => self.load_checkpoints(targets).await,
            HistorySource::Prometheus(prometheus) => {
                let new: Targets = targets.iter().filter(|(it, _)| !self.loaded.contains_key(*it)).map(clone).collect();
                if new.is_empty() {
                    return;
                }
                let loaded = past::load(self.cluster, self.config, prometheus, &new, self.writer).await;
                for workload in loaded {
                    let autoscaler = new.get(&workload).and_then(|it| controlling(it.iter().map(AsRef::as_ref)));
                    self.begin(workload, autoscaler);
                }
            }
        }
    }

    /// A workload has its history. What this recommender has recommended before this start bounds what is recommended now.
    fn begin(&mut self, workload: Workload, autoscaler: Option<&VerticalPodAutoscaler>) {
        let name = autoscaler.map(|it| it.name().to_owned()).unwrap_or_default();
        let ours = autoscaler.filter(|it| is_recommended_by(it, &self.config.field_manager()));
        if let Some(before) = ours.and_then(|it| it.status.recommendation.clone()) {
            self.before
                .insert(NamespacedName::new(workload.namespace.as_str(), name.as_str()), (before, (self.config.now)()));
        }
        self.unseen.push(workload.clone());
        self.loaded.insert(workload, name);
    }

    /// Reads from templates what the containers are that only checkpoints tell of: their workloads have no pod at the moment.
    pub(super) async fn look_at_templates(&mut self) {
        let unseen = std::mem::take(&mut self.unseen);
        let is_unseen = |workload: &Workload| self.writer.learned().history.usage.is_unseen(workload);
        let unseen: Vec<Workload> = unseen.into_iter().filter(is_unseen).collect();
        let (cluster, config) = (self.cluster, self.config);
        let reads = unseen
            .into_iter()
            .map(|workload| async move { (Template::read(cluster, config, &workload).await, workload) }.boxed());
        let read: Vec<_> = stream::iter(reads).buffer_unordered(config.update_workers.max(1)).collect().await;
        for (template, workload) in read {
            let Some(template) = template else { continue };
            let containers = &template.pod.containers;
            let kind = |name: &str| containers.iter().find(|it| it.name == name).map(|it| it.kind);
            self.writer.learned().history.usage.set_kinds(&workload, kind);
        }
    }

    async fn load_checkpoints(&mut self, targets: &Targets) {
        let new: Vec<(&Workload, &VerticalPodAutoscaler)> = targets
            .iter()
            .filter_map(|(workload, autoscalers)| Some((workload, controlling(autoscalers.iter().map(AsRef::as_ref))?)))
            // Another autoscaler than before has checkpoints of its own.
            .filter(|(workload, autoscaler)| self.loaded.get(*workload).is_none_or(|name| name != autoscaler.name()))
            .collect();
        let namespaces: BTreeSet<&str> = new.iter().map(|(workload, _)| workload.namespace.as_str()).collect();
        let client = &self.config.client;
        let read = match namespaces.len() {
            0 => return,
            1 => checkpoints::read(client, namespaces.first().copied()).await,
            _ => checkpoints::read(client, None).await,
        };
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "checkpoints cannot be read; nothing is recommended without them");
                return;
            }
        };
        let by_autoscaler: HashMap<(&str, &str), &Workload> = new
            .iter()
            .map(|(workload, autoscaler)| ((workload.namespace.as_str(), autoscaler.name()), *workload))
            .collect();
        let learned = &mut *self.writer.learned();
        for checkpoint in &read {
            let NamespacedName { namespace, name } = checkpoints::name_of(checkpoint);
            let key = (&*namespace, checkpoint.spec.vpa_object_name.as_str());
            let Some(workload) = by_autoscaler.get(&key) else { continue };
            match learned.history.load(workload, checkpoint) {
                Ok(stored) => drop(learned.stored.insert(NamespacedName { namespace, name }, stored)),
                Err(error) => tracing::warn!(checkpoint = %name, %namespace, %error, "a checkpoint is left out"),
            }
        }
        for (workload, autoscaler) in new {
            self.begin(workload.clone(), Some(autoscaler));
        }
    }
}
