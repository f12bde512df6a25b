//! What the recommender has learned, and what is stored of it.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::{VerticalPodAutoscaler, VerticalPodAutoscalerCheckpointStatus, checkpoint_name};
use pillion_informer::NamespacedName;
use pillion_rightsize::{Stored, Workload, is_checkpoint_due};

use super::history::History;
use crate::config::Config;
use crate::references::name_of;

/// What is learned by the passes, and read by the writes.
pub(super) struct Learned {
    pub(super) history: History,
    /// When statuses were last written, or first looked at after this start.
    pub(super) written: HashMap<NamespacedName, Timestamp>,
    /// What the checkpoints have in them, by namespace and name.
    pub(super) stored: HashMap<NamespacedName, Stored>,
}

impl Learned {
    pub(super) fn new(config: &Config) -> Learned {
        Learned { history: History::new(config), written: HashMap::new(), stored: HashMap::new() }
    }

    /// How long ago the status of an autoscaler was written. One that was written before this start counts from when it is first asked for.
    pub(super) fn since_write(&mut self, autoscaler: &VerticalPodAutoscaler, now: Timestamp) -> SignedDuration {
        now.duration_since(*self.written.entry(name_of(autoscaler)).or_insert(now))
    }

    /// The containers of a workload whose checkpoints are to be written, and when the oldest of them was stored.
    pub(super) fn due(
        &self,
        workload: &Workload,
        autoscaler: &str,
        is_urgent: bool,
        now: Timestamp,
    ) -> Option<(Option<Timestamp>, Vec<String>)> {
        let (mut oldest, mut due) = (None, Vec::new());
        for container in self.history.usage.containers(workload) {
            let stored = self.stored.get(&key_of(workload, autoscaler, container.name()));
            if is_checkpoint_due(container, stored, is_urgent, now) {
                let at = stored.map(|stored| stored.at);
                oldest = if due.is_empty() { at } else { at.min(oldest) };
                due.push(container.name().to_owned());
            }
        }
        (!due.is_empty()).then_some((oldest, due))
    }

    /// The content of the checkpoint of a container as it is now, and what is stored with it. `None` if it need not be written any more.
    pub(super) fn checkpoint(
        &self,
        workload: &Workload,
        autoscaler: &str,
        container: &str,
        is_urgent: bool,
        now: Timestamp,
    ) -> Option<(VerticalPodAutoscalerCheckpointStatus, Stored)> {
        let stored = self.stored.get(&key_of(workload, autoscaler, container));
        let usage = self.history.usage.find(workload, container)?;
        is_checkpoint_due(usage, stored, is_urgent, now).then(|| (usage.to_checkpoint(now), Stored::of(usage, now)))
    }
}

pub(super) fn key_of(workload: &Workload, autoscaler: &str, container: &str) -> NamespacedName {
    NamespacedName::new(workload.namespace.as_str(), checkpoint_name(autoscaler, container))
}
