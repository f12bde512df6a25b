//! The autoscalers of pods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pillion_api::vpa::{Gates, VerticalPodAutoscaler};
use pillion_informer::{Failure, State};
use pillion_pods::Pods;
use pillion_quantity::Quantity;
use pillion_rightsize::{Autoscalers, Owner, PodView, Workload, is_target, workload_of};
use pillion_rightsizer::{Cluster, Namespaces, Now, PeerPart, defined, until_alone, until_there};
use serde_json::Value;
use tokio::sync::watch;

use crate::config::Config;
use crate::peer::Peer;

/// How long a new pod waits for its controllers to be read. The API server waits three seconds for it.
const LONGEST_READ: Duration = Duration::from_secs(1);

/// The autoscalers of pods. Clones are the same.
#[derive(Clone)]
pub(crate) struct Rightsizing {
    pub(crate) cluster: Cluster,
    client: kube::Client,
    now: Now,
    may_take_over: bool,
    /// The manager's namespace, where the autoscalers of SidecarSets are.
    home: String,
    gates: Gates,
    namespaces: Namespaces,
    max_boost: Option<Quantity>,
    /// Whether autoscalers are known and nobody else applies them to new pods.
    served: watch::Sender<bool>,
}

impl Rightsizing {
    pub(crate) fn new(config: &Config, pods: Pods) -> Rightsizing {
        Rightsizing {
            cluster: Cluster::with_pods(config.client.clone(), pods),
            client: config.client.clone(),
            now: config.now.clone(),
            may_take_over: config.take_over.contains(&Peer::Vpa),
            home: config.namespace.clone(),
            gates: config.gates.into(),
            namespaces: config.rightsizing.namespaces.clone(),
            max_boost: config.max_cpu_boost,
            served: watch::Sender::new(false),
        }
    }

    /// Returns when VerticalPodAutoscalers are known, and a part of upstream's autoscaler does not act on them any more.
    pub(crate) async fn alone(&self, part: PeerPart) {
        defined(&self.client).await;
        until_alone(&self.client, &self.now, part, self.may_take_over).await;
        self.cluster.synced().await;
    }

    /// Returns when a part of upstream's autoscaler has come that was not there, or VerticalPodAutoscalers are not defined any more.
    pub(crate) async fn not_alone(&self, part: PeerPart) {
        tokio::select! {
            () = until_there(&self.client, &self.now, part, self.may_take_over) => {}
            () = self.cluster.undefined() => {
                tracing::info!("VerticalPodAutoscalers are not defined any more; waiting in the place of {}", part.deployment());
            }
        }
    }

    /// Serves VerticalPodAutoscalers, while they are defined, whenever upstream's admission controller does not.
    pub(crate) async fn serve(self) {
        loop {
            self.alone(PeerPart::Admission).await;
            self.served.send_replace(true);
            self.not_alone(PeerPart::Admission).await;
            self.served.send_replace(false);
        }
    }

    pub(crate) fn is_served(&self) -> bool {
        *self.served.borrow()
    }

    /// How far the autoscalers of new pods can be relied on; those that are not served hold nobody up.
    pub(crate) fn state(&self) -> State {
        if self.is_served() { self.cluster.state() } else { State::Synced }
    }

    /// The watches that fail, by what they watch.
    pub(crate) fn failures(&self) -> Vec<(&'static str, Failure)> {
        if self.is_served() { self.cluster.failures() } else { Vec::new() }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<bool> {
        self.served.subscribe()
    }

    /// The autoscalers of a new pod, and its workload if one of them targets that. `None` if no autoscaler can control it or a part of it.
    pub(crate) async fn of_pod(&self, namespace: &str, pod: &Value) -> Option<(Autoscalers, Option<(String, String)>)> {
        if !self.is_served() {
            return None;
        }
        let autoscalers = self.autoscalers(namespace)?;
        let list = &autoscalers.list;
        let workload = if list.is_empty() { None } else { self.workload(namespace, pod, list).await };
        if workload.is_none() && autoscalers.of_sets.is_empty() {
            return None;
        }
        Some((autoscalers, workload.map(|workload| (workload.kind, workload.name))))
    }

    /// Returns the containers of a running pod that an autoscaler sizes, as far as the caches know.
    pub(crate) fn sized(&self, pod: &PodView) -> Vec<String> {
        let Some(autoscalers) = self.autoscalers(&pod.namespace) else { return Vec::new() };
        let workload = pod.owner.as_ref().and_then(|owner| {
            let chain = self.cluster.owners().chain(&pod.namespace, owner);
            targeted_workload(&pod.namespace, &chain, &autoscalers.list)
        });
        autoscalers.sized(pod, workload.as_ref(), self.gates)
    }

    /// Returns the autoscalers that may control pods of a namespace; `None` if there are none.
    fn autoscalers(&self, namespace: &str) -> Option<Autoscalers> {
        let of_sets = self.cluster.autoscalers_of_sets(&self.home, self.gates);
        let views = if self.namespaces.has(namespace) {
            self.cluster.autoscalers().in_namespace(namespace)
        } else {
            Vec::new()
        };
        if views.is_empty() && of_sets.is_empty() {
            return None;
        }
        let list = views.iter().map(|view| Arc::clone(&view.0)).collect();
        let ranges = BTreeMap::from([(namespace.to_owned(), self.cluster.limit_ranges(namespace))]);
        Some(Autoscalers { list, of_sets, ranges, max_boost: self.max_boost })
    }

    /// The workload of a new pod, if an autoscaler targets it.
    async fn workload(&self, namespace: &str, pod: &Value, list: &[Arc<VerticalPodAutoscaler>]) -> Option<Workload> {
        let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let owner = owners.into_iter().find(|owner| owner["controller"] == true)?;
        let text = |field: &str| owner[field].as_str().map(str::to_owned);
        let owner = Owner { kind: text("kind")?, name: text("name")? };
        let reading = self.cluster.owners().chain_of_new_pod(&self.client, namespace, &owner);
        let chain = tokio::time::timeout(LONGEST_READ, reading).await.unwrap_or_else(|_| vec![owner.clone()]);
        targeted_workload(namespace, &chain, list)
    }
}

/// Returns the workload of a pod with these controllers, if an autoscaler targets it.
fn targeted_workload(namespace: &str, chain: &[Owner], list: &[Arc<VerticalPodAutoscaler>]) -> Option<Workload> {
    let is_targeted = |workload: &Workload| list.iter().any(|autoscaler| is_target(autoscaler, workload));
    workload_of(namespace, chain, is_targeted).filter(is_targeted)
}
