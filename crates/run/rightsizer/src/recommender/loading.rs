//! History from before this start: read before anything is recommended or stored.

use std::collections::{BTreeSet, HashMap};

use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_rightsize::{Workload, controlling};

use super::{Key, Recommender, checkpoints, clone, past};
use crate::cluster::Targets;
use crate::config::HistorySource;

impl Recommender<'_> {
    /// Reads the history of autoscalers that are new. Without it nothing is recommended or stored.
    pub(super) async fn load(&mut self, targets: &Targets) {
        match &self.config.history {
            HistorySource::Checkpoints => self.load_checkpoints(targets).await,
            HistorySource::Prometheus(prometheus) => {
                let new: Targets = targets.iter().filter(|(it, _)| !self.loaded.contains(*it)).map(clone).collect();
                if new.is_empty() {
                    return;
                }
                let history = &mut self.history;
                let loaded = past::load(self.cluster, self.config, prometheus, &new, history).await;
                for workload in loaded {
                    let autoscaler = new.get(&workload).and_then(|it| controlling(it.iter().map(AsRef::as_ref)));
                    self.begin(workload, autoscaler);
                }
            }
        }
    }

    /// A workload has its history. What was recommended before this start bounds what is recommended now.
    fn begin(&mut self, workload: Workload, autoscaler: Option<&VerticalPodAutoscaler>) {
        let before = autoscaler.and_then(|it| Some((it.name().to_owned(), it.status.recommendation.clone()?)));
        if let Some((name, before)) = before {
            self.before.insert((workload.namespace.clone(), name), (before, (self.config.now)()));
        }
        self.loaded.insert(workload);
    }

    async fn load_checkpoints(&mut self, targets: &Targets) {
        let new: Vec<(&Workload, &VerticalPodAutoscaler)> = targets
            .iter()
            .filter(|(workload, _)| !self.loaded.contains(*workload))
            .filter_map(|(workload, autoscalers)| Some((workload, controlling(autoscalers.iter().map(AsRef::as_ref))?)))
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
        let by_autoscaler: HashMap<Key, (&Workload, &VerticalPodAutoscaler)> = new
            .iter()
            .map(|(workload, autoscaler)| {
                ((workload.namespace.clone(), autoscaler.name().to_owned()), (*workload, *autoscaler))
            })
            .collect();
        for checkpoint in &read {
            let namespace = checkpoint.metadata.namespace.clone().unwrap_or_default();
            let key = (namespace, checkpoint.spec.vpa_object_name.clone());
            let Some((workload, _)) = by_autoscaler.get(&key) else { continue };
            let name = checkpoint.metadata.name.clone().unwrap_or_default();
            match self.history.load(workload, checkpoint) {
                Ok(stored) => drop(self.stored.insert((key.0, name), stored)),
                Err(error) => tracing::warn!(checkpoint = name, namespace = key.0, %error, "a checkpoint is left out"),
            }
        }
        for (workload, autoscaler) in new {
            self.begin(workload.clone(), Some(autoscaler));
        }
    }
}
