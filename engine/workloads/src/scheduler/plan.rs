//! Where a pod goes, or why it cannot go anywhere yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

use super::node_affinity::Wanted;
use super::requests::{Amounts, amounts, requests};
use super::taints;
use crate::pod::{PodView, Port};

/// What a pod needs of a node.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) amounts: Amounts,
    pub(super) ports: Vec<Port>,
    wanted: Wanted,
    tolerations: Vec<Toleration>,
}

impl Demand {
    pub(super) fn of(pod: &PodView) -> Demand {
        let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        let ports = containers.flat_map(|container| &container.ports);
        Demand {
            amounts: requests(pod),
            ports: ports.filter(|port| port.host_port.is_some_and(|number| number > 0)).cloned().collect(),
            wanted: Wanted::of(pod),
            tolerations: pod.spec.tolerations.clone(),
        }
    }
}

/// What the pods on a node have taken.
#[derive(Clone, Debug, Default)]
pub(super) struct Usage {
    pub(super) amounts: Amounts,
    pub(super) pods: i128,
    pub(super) ports: BTreeMap<Port, usize>,
}

/// A node with what is taken of it.
pub(super) struct Room<'a> {
    pub(super) node: &'a Arc<Node>,
    pub(super) usage: &'a Usage,
}

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It goes to this node.
    Bind(String),
    /// It waits, for this reason.
    Wait(String),
}

/// Why a pod cannot be on a node.
struct Rejection {
    reasons: Vec<String>,
    /// Whether the pod could be there if other pods were not.
    resolvable: bool,
}

/// Decides: of the nodes that fit, the one with the most room.
pub(super) fn plan(demand: &Demand, rooms: &[Room<'_>]) -> Decision {
    if rooms.is_empty() {
        return Decision::Wait("no nodes available to schedule pods".to_owned());
    }
    let names = demand.wanted.names();
    if names.as_ref().is_some_and(std::collections::BTreeSet::is_empty) {
        let unresolvable = Rejection { reasons: Vec::new(), resolvable: false };
        let rejections: Vec<Rejection> =
            rooms.iter().map(|_| Rejection { reasons: Vec::new(), ..unresolvable }).collect();
        return Decision::Wait(message(rooms.len(), Some("pod affinity terms conflict"), &rejections));
    }
    let mut best: Option<(i128, &str)> = None;
    let mut rejections = Vec::new();
    for room in rooms {
        let name = room.node.metadata.name.as_deref().unwrap_or_default();
        let outcome = if names.as_ref().is_some_and(|names| !names.contains(name)) {
            rejected("node(s) didn't satisfy plugin(s) [NodeAffinity]")
        } else {
            fit(demand, room)
        };
        match outcome {
            Ok(()) => best = best.max(Some((free(demand, room), name))),
            Err(rejection) => rejections.push(rejection),
        }
    }
    match best {
        Some((_, name)) => Decision::Bind(name.to_owned()),
        None => Decision::Wait(message(rooms.len(), None, &rejections)),
    }
}

fn rejected(reason: &str) -> Result<(), Rejection> {
    Err(Rejection { reasons: vec![reason.to_owned()], resolvable: false })
}

/// Whether a pod can be on a node. The checks are in the order of Kubernetes' plugins, and the first that fails is reported.
fn fit(demand: &Demand, room: &Room<'_>) -> Result<(), Rejection> {
    let spec = room.node.spec.as_ref();
    let unschedulable = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if spec.is_some_and(|spec| spec.unschedulable == Some(true))
        && !taints::tolerates(&demand.tolerations, &unschedulable)
    {
        return rejected("node(s) were unschedulable");
    }
    let taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    if !taints::admits(taints, &demand.tolerations) {
        return rejected("node(s) had untolerated taint(s)");
    }
    if !demand.wanted.matches(room.node) {
        return rejected("node(s) didn't match Pod's node affinity/selector");
    }
    if demand.ports.iter().any(|port| room.usage.ports.keys().any(|taken| conflict(port, taken))) {
        let reasons = vec!["node(s) didn't have free ports for the requested pod ports".to_owned()];
        return Err(Rejection { reasons, resolvable: true });
    }
    fit_resources(demand, room)
}

fn conflict(a: &Port, b: &Port) -> bool {
    let address =
        |port: &Port| port.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned());
    let protocol = |port: &Port| port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let (one, other) = (address(a), address(b));
    a.host_port == b.host_port && protocol(a) == protocol(b) && (one == other || one == "0.0.0.0" || other == "0.0.0.0")
}

fn allocatable(node: &Node) -> Amounts {
    let status = node.status.as_ref();
    status.and_then(|status| status.allocatable.as_ref()).map(amounts).unwrap_or_default()
}

fn fit_resources(demand: &Demand, room: &Room<'_>) -> Result<(), Rejection> {
    let allocatable = allocatable(room.node);
    let has = |name: &str| allocatable.get(name).copied().unwrap_or(0);
    let mut reasons = Vec::new();
    let mut resolvable = true;
    if room.usage.pods + 1 > has("pods") {
        reasons.push("Too many pods".to_owned());
    }
    for (name, amount) in &demand.amounts {
        let free = has(name) - room.usage.amounts.get(name).copied().unwrap_or(0);
        if *amount > free {
            reasons.push(format!("Insufficient {name}"));
            resolvable &= *amount <= has(name);
        }
    }
    if reasons.is_empty() { Ok(()) } else { Err(Rejection { reasons, resolvable }) }
}

/// How much of the node is left with the pod on it, in thousandths, of cpu and memory on average.
fn free(demand: &Demand, room: &Room<'_>) -> i128 {
    let allocatable = allocatable(room.node);
    let share = |name: &str| {
        let all = allocatable.get(name).copied().unwrap_or(0);
        let taken = room.usage.amounts.get(name).copied().unwrap_or(0) + demand.amounts.get(name).copied().unwrap_or(0);
        if all <= 0 { 0 } else { (all - taken) * 1000 / all }
    };
    share("cpu").midpoint(share("memory"))
}

/// Why no node will do, in the words of the scheduler and of its plugins for preemption, which never has victims here.
fn message(nodes: usize, before: Option<&str>, rejections: &[Rejection]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in rejections.iter().flat_map(|rejection| &rejection.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let mut preemption: BTreeMap<&str, usize> = BTreeMap::new();
    for rejection in rejections {
        let reason = if rejection.resolvable {
            "No preemption victims found for incoming pod"
        } else {
            "Preemption is not helpful for scheduling"
        };
        *preemption.entry(reason).or_default() += 1;
    }
    let why = before.map_or_else(|| histogram(&counts), str::to_owned);
    let preemption = histogram(&preemption);
    format!(
        "0/{nodes} nodes are available: {why}. no new claims to deallocate, preemption: 0/{nodes} nodes are available: {preemption}."
    )
}

fn histogram(counts: &BTreeMap<&str, usize>) -> String {
    let mut texts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    texts.sort();
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str, more: Value) -> Arc<Node> {
        let mut node = json!({
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        });
        for (field, value) in more.as_object().unwrap() {
            node[field] = value.clone();
        }
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn demand(spec: Value) -> Demand {
        Demand::of(&serde_json::from_value(json!({"spec": spec})).unwrap())
    }

    fn cpu(request: &str) -> Demand {
        demand(json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": request}}}]}))
    }

    fn decide(demand: &Demand, nodes: &[(Arc<Node>, Usage)]) -> Decision {
        let rooms: Vec<Room<'_>> = nodes.iter().map(|(node, usage)| Room { node, usage }).collect();
        plan(demand, &rooms)
    }

    const NOT_HELPFUL: &str =
        "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    const NO_VICTIMS: &str = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.";

    #[test]
    fn a_pod_that_fits_goes_to_the_node_with_the_most_room() {
        let full = Usage { amounts: Amounts::from([("cpu".to_owned(), 3000)]), pods: 3, ..Usage::default() };
        let nodes = [(node("one", json!({})), full), (node("two", json!({})), Usage::default())];
        assert_eq!(decide(&cpu("500m"), &nodes), Decision::Bind("two".to_owned()));
        assert_eq!(decide(&cpu("500m"), &nodes[..1]), Decision::Bind("one".to_owned()));
    }

    #[test]
    fn a_pod_that_fits_nowhere_gets_a_reason() {
        let busy = Usage { amounts: Amounts::from([("cpu".to_owned(), 3900)]), pods: 10, ..Usage::default() };
        let port = Port { host_port: Some(80), protocol: Some("TCP".to_owned()), host_ip: None };
        let taken = Usage { ports: BTreeMap::from([(port, 1)]), ..Usage::default() };
        let cordoned = json!({"spec": {"unschedulable": true, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}});
        let tainted = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
        for (demand, node, usage, why) in [
            (cpu("5"), node("n", json!({})), Usage::default(), format!("1 Insufficient cpu. {NOT_HELPFUL}")),
            (cpu("1"), node("n", json!({})), busy, format!("1 Insufficient cpu, 1 Too many pods. {NO_VICTIMS}")),
            (
                demand(json!({"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]})),
                node("n", json!({})),
                Usage::default(),
                format!("1 Insufficient example.com/gpu. {NOT_HELPFUL}"),
            ),
            (cpu("1"), node("n", cordoned), Usage::default(), format!("1 node(s) were unschedulable. {NOT_HELPFUL}")),
            (
                cpu("1"),
                node("n", tainted),
                Usage::default(),
                format!("1 node(s) had untolerated taint(s). {NOT_HELPFUL}"),
            ),
            (
                demand(json!({"nodeSelector": {"a": "b"}})),
                node("n", json!({})),
                Usage::default(),
                format!("1 node(s) didn't match Pod's node affinity/selector. {NOT_HELPFUL}"),
            ),
            (
                demand(json!({"containers": [{"ports": [{"hostPort": 80, "hostIP": "127.0.0.1"}]}]})),
                node("n", json!({})),
                taken,
                format!("1 node(s) didn't have free ports for the requested pod ports. {NO_VICTIMS}"),
            ),
        ] {
            assert_eq!(decide(&demand, &[(node, usage)]), Decision::Wait(format!("0/1 nodes are available: {why}")));
        }
        assert_eq!(decide(&cpu("1"), &[]), Decision::Wait("no nodes available to schedule pods".to_owned()));
    }
}
