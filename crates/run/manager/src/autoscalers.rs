//! The autoscalers of new pods.

use std::collections::BTreeMap;
use std::time::Duration;

use pillion_admission::Autoscalers;
use pillion_rightsize::{Owner, Workload, is_target, workload_of};
use pillion_rightsizer::{Cluster, Now, PeerPart, defined, until_alone, until_there};
use serde_json::Value;
use tokio::sync::watch;

use crate::config::Config;
use crate::peer::Peer;

/// How long a new pod waits for its controllers to be read. The API server waits three seconds for it.
const LONGEST_READ: Duration = Duration::from_secs(1);

/// The autoscalers of new pods. Clones are the same.
#[derive(Clone)]
pub(crate) struct Rightsizing {
    pub(crate) cluster: Cluster,
    client: kube::Client,
    now: Now,
    may_take_over: bool,
    /// Whether autoscalers are known and nobody else applies them to new pods.
    served: watch::Sender<bool>,
}

impl Rightsizing {
    pub(crate) fn new(config: &Config) -> Rightsizing {
        Rightsizing {
            cluster: Cluster::new(config.client.clone()),
            client: config.client.clone(),
            now: config.now.clone(),
            may_take_over: config.take_over.contains(&Peer::Vpa),
            served: watch::Sender::new(false),
        }
    }

    /// Returns when VerticalPodAutoscalers are served, and a part of upstream's autoscaler does not act on them any more.
    pub(crate) async fn alone(&self, part: PeerPart) {
        defined(&self.client).await;
        until_alone(&self.client, &self.now, part, self.may_take_over).await;
    }

    /// Returns when a part of upstream's autoscaler has come that was not there.
    pub(crate) async fn not_alone(&self, part: PeerPart) {
        until_there(&self.client, &self.now, part, self.may_take_over).await;
    }

    /// Serves VerticalPodAutoscalers, once they are defined, whenever upstream's admission controller does not.
    pub(crate) async fn serve(self) {
        loop {
            self.alone(PeerPart::Admission).await;
            self.cluster.synced().await;
            self.served.send_replace(true);
            self.not_alone(PeerPart::Admission).await;
            self.served.send_replace(false);
        }
    }

    pub(crate) fn is_served(&self) -> bool {
        *self.served.borrow()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.served.subscribe()
    }

    /// The autoscalers of a namespace, and the workload of a new pod in it. `None` if no autoscaler can control it.
    pub(crate) async fn of_pod(&self, namespace: &str, pod: &Value) -> Option<(Autoscalers, (String, String))> {
        if !self.is_served() {
            return None;
        }
        let views = self.cluster.autoscalers().in_namespace(namespace);
        if views.is_empty() {
            return None;
        }
        let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.into_iter().find(|owner| owner["controller"] == true)?;
        let text = |field: &str| owner[field].as_str().map(str::to_owned);
        let owner = Owner { kind: text("kind")?, name: text("name")? };
        let reading = self.cluster.owners().chain_of_new_pod(&self.client, namespace, &owner);
        let chain = tokio::time::timeout(LONGEST_READ, reading).await.unwrap_or_else(|_| vec![owner.clone()]);
        let list: Vec<_> = views.iter().map(|view| std::sync::Arc::clone(&view.0)).collect();
        let is_targeted = |workload: &Workload| list.iter().any(|autoscaler| is_target(autoscaler, workload));
        let workload = workload_of(namespace, &chain, is_targeted).filter(is_targeted)?;
        let ranges = BTreeMap::from([(namespace.to_owned(), self.cluster.limit_ranges(namespace))]);
        Some((Autoscalers { list, ranges, of_sets: Vec::new(), max_boost: None }, (workload.kind, workload.name)))
    }
}
