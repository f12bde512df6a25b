//! What the scheduler knows: what is taken of each node, and which pods wait.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::plan::{Decision, Demand, Room, Usage, plan};
use super::requests::{Amounts, add, subtract};
use crate::pod::{PodView, Port};

/// Namespace and name.
pub(super) type Key = (String, String);

/// Pods with the same shape fit, or do not fit, together.
type Shape = String;

#[derive(Default)]
pub(super) struct State {
    nodes: BTreeMap<String, Arc<Node>>,
    usage: HashMap<String, Usage>,
    /// By uid: the node of each pod that is on one, and what it takes there.
    placed: HashMap<String, Placed>,
    /// Pods that no node fits, the oldest of each shape first.
    waiting: BTreeMap<Shape, BTreeSet<(Timestamp, Key)>>,
    shapes: HashMap<Key, (Timestamp, Shape)>,
}

struct Placed {
    node: String,
    amounts: Amounts,
    ports: Vec<Port>,
}

/// Whether the scheduler has to do something with the pod.
pub(super) fn is_pending(pod: &PodView) -> bool {
    !is_assigned(pod)
        && pod.is_active()
        && pod.spec.scheduling_gates.is_empty()
        && pod.spec.scheduler_name.as_deref().is_none_or(|name| name == "default-scheduler")
}

fn is_assigned(pod: &PodView) -> bool {
    pod.spec.node_name.as_deref().is_some_and(|node| !node.is_empty())
}

pub(super) fn key(pod: &PodView) -> Key {
    (pod.metadata.namespace.clone().unwrap_or_default(), pod.metadata.name.clone().unwrap_or_default())
}

fn uid(pod: &PodView) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

impl State {
    /// Takes note of a node that is new, has changed or is gone.
    pub(super) fn node_changed(&mut self, old: Option<&Node>, new: Option<Arc<Node>>) {
        match (old, new) {
            (_, Some(new)) => drop(self.nodes.insert(new.metadata.name.clone().unwrap_or_default(), new)),
            (Some(old), None) => drop(self.nodes.remove(old.metadata.name.as_deref().unwrap_or_default())),
            (None, None) => {}
        }
    }

    /// Takes note of a pod. Answers whether room has become free.
    pub(super) fn pod_changed(&mut self, old: Option<&PodView>, new: Option<&PodView>) -> bool {
        let Some(pod) = new.or(old) else { return false };
        match new {
            Some(new) if is_pending(new) => false,
            Some(new) if is_assigned(new) && !new.is_terminal() => {
                self.forget(&key(new));
                let node = new.spec.node_name.clone().unwrap_or_default();
                let before = self.placed.get(uid(new)).map(|placed| placed.amounts.clone()).unwrap_or_default();
                let demand = Demand::of(new);
                self.place(new, &demand, &node);
                // A resize may have made it smaller.
                before.iter().any(|(name, amount)| demand.amounts.get(name).is_none_or(|now| now < amount))
            }
            // It has ended, is gone, or is not to be scheduled.
            _ => {
                self.forget(&key(pod));
                self.remove(uid(pod))
            }
        }
    }

    /// Where the pod can go now.
    pub(super) fn decide(&self, demand: &Demand) -> Decision {
        let empty = Usage::default();
        let rooms: Vec<Room<'_>> = self
            .nodes
            .iter()
            .map(|(name, node)| Room { node, usage: self.usage.get(name).unwrap_or(&empty) })
            .collect();
        plan(demand, &rooms)
    }

    /// Counts the pod where it is, or is about to be.
    pub(super) fn place(&mut self, pod: &PodView, demand: &Demand, node: &str) {
        if self.placed.get(uid(pod)).is_some_and(|placed| placed.node == node && placed.amounts == demand.amounts) {
            return;
        }
        self.remove(uid(pod));
        let usage = self.usage.entry(node.to_owned()).or_default();
        usage.pods += 1;
        add(&mut usage.amounts, &demand.amounts);
        for port in &demand.ports {
            *usage.ports.entry(port.clone()).or_default() += 1;
        }
        let placed = Placed { node: node.to_owned(), amounts: demand.amounts.clone(), ports: demand.ports.clone() };
        self.placed.insert(uid(pod).to_owned(), placed);
    }

    /// Gives back what a pod has taken, if it has.
    pub(super) fn remove(&mut self, uid: &str) -> bool {
        let Some(placed) = self.placed.remove(uid) else { return false };
        if let Some(usage) = self.usage.get_mut(&placed.node) {
            usage.pods -= 1;
            subtract(&mut usage.amounts, &placed.amounts);
            for port in &placed.ports {
                if let Some(count) = usage.ports.get_mut(port) {
                    *count -= 1;
                    if *count == 0 {
                        usage.ports.remove(port);
                    }
                }
            }
        }
        true
    }

    /// Lets the pod wait for room.
    pub(super) fn wait(&mut self, pod: &PodView) {
        let created = pod.created().unwrap_or_default();
        let shape = shape(pod);
        self.forget(&key(pod));
        self.waiting.entry(shape.clone()).or_default().insert((created, key(pod)));
        self.shapes.insert(key(pod), (created, shape));
    }

    /// The pod waits no more.
    pub(super) fn forget(&mut self, key: &Key) {
        let Some((created, shape)) = self.shapes.remove(key) else { return };
        if let Some(pods) = self.waiting.get_mut(&shape) {
            pods.remove(&(created, key.clone()));
            if pods.is_empty() {
                self.waiting.remove(&shape);
            }
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The shapes of pods that wait.
    pub(super) fn shapes(&self) -> Vec<Shape> {
        self.waiting.keys().cloned().collect()
    }

    /// The pod of this shape that has waited longest.
    pub(super) fn first(&self, shape: &Shape) -> Option<Key> {
        self.waiting.get(shape)?.first().map(|(_, key)| key.clone())
    }
}

/// All that decides over whether a node fits.
fn shape(pod: &PodView) -> Shape {
    let spec = &pod.spec;
    json!([
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.overhead,
        spec.resources,
        spec.init_containers.iter().map(|c| (&c.restart_policy, &c.resources, &c.ports)).collect::<Vec<_>>(),
        spec.containers.iter().map(|c| (&c.resources, &c.ports)).collect::<Vec<_>>(),
    ])
    .to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, cpu: &str, node: &str, phase: &str) -> PodView {
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]},
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    fn state() -> State {
        let mut state = State::default();
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}});
        state.node_changed(None, Some(Arc::new(serde_json::from_value(node).unwrap())));
        state
    }

    #[test]
    fn what_a_pod_takes_is_free_again_when_it_has_ended() {
        let mut state = state();
        let running = pod("a", "2", "n", "Running");
        assert!(!state.pod_changed(None, Some(&running)));
        let waiting = pod("b", "1", "", "Pending");
        assert!(matches!(state.decide(&Demand::of(&waiting)), Decision::Wait(_)));
        assert!(state.pod_changed(Some(&running), Some(&pod("a", "2", "n", "Succeeded"))));
        assert_eq!(state.decide(&Demand::of(&waiting)), Decision::Bind("n".to_owned()));
        assert!(!state.pod_changed(Some(&running), None), "it gave its room back before");
    }

    #[test]
    fn pods_of_one_shape_wait_together() {
        let mut state = state();
        for (name, cpu) in [("a", "1"), ("b", "1"), ("c", "3")] {
            state.wait(&pod(name, cpu, "", "Pending"));
        }
        assert_eq!(state.shapes().len(), 2);
        assert_eq!(state.first(&shape(&pod("x", "1", "", ""))), Some((String::new(), "a".to_owned())));
        state.forget(&(String::new(), "a".to_owned()));
        state.forget(&(String::new(), "c".to_owned()));
        assert_eq!(state.shapes().len(), 1);
    }
}
