//! Other resources for a running pod: whether the node has room for them, and what the pod says meanwhile.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodCondition, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pillion_lifecycle::{ContainerFacts, State};
use serde_json::{Value, json};

use crate::admission::{self, Demand};
use crate::config::Capacity;

/// How far a resize is.
#[derive(Debug, Default)]
pub(crate) struct Allocation {
    /// What the pod wants and has not been granted, by container.
    pub(crate) wanted: Option<Resources>,
    /// Why it has not.
    pub(crate) pending: Option<Pending>,
    /// The generation that was granted and is being put into force.
    pub(crate) in_progress: Option<i64>,
}

pub(crate) type Resources = BTreeMap<String, ResourceRequirements>;

/// Why a resize has to wait, or can never be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pending {
    /// `Deferred` or `Infeasible`.
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) generation: i64,
}

/// Containers whose resources can change: regular ones and native sidecars.
fn resizable(pod: &mut Pod) -> impl Iterator<Item = &mut Container> {
    pod.spec.iter_mut().flat_map(|spec| {
        let init = spec.init_containers.iter_mut().flatten();
        spec.containers.iter_mut().chain(init.filter(|container| container.restart_policy.as_deref() == Some("Always")))
    })
}

/// Gives the new version of a pod what the old one was granted. The answer is what it wants instead, if that is something else.
pub(crate) fn keep_granted(old: &Pod, new: &mut Pod) -> Option<Resources> {
    let find = |name: &str| crate::container::find(old, name).map(|container| &container.resources);
    let mut wanted = Resources::new();
    let mut differs = false;
    for container in resizable(new) {
        let own = container.resources.clone().unwrap_or_default();
        if let Some(granted) = find(&container.name)
            && granted.clone().unwrap_or_default() != own
        {
            differs = true;
            container.resources.clone_from(granted);
        }
        wanted.insert(container.name.clone(), own);
    }
    differs.then_some(wanted)
}

/// The pod with the resources that its status says it has: what a node granted it before this one.
pub(crate) fn reported(pod: &Pod) -> Pod {
    let status = pod.status.as_ref();
    let lists = status.map(|status| [&status.container_statuses, &status.init_container_statuses]);
    let statuses = lists.into_iter().flatten().flat_map(|list| list.iter().flatten());
    let granted = statuses.filter_map(|status| Some((status.name.clone(), status.resources.clone()?))).collect();
    with(pod, &granted)
}

/// The pod with the resources that it wants.
pub(crate) fn with(pod: &Pod, wanted: &Resources) -> Pod {
    let mut pod = pod.clone();
    for container in resizable(&mut pod) {
        if let Some(resources) = wanted.get(&container.name) {
            container.resources = Some(resources.clone());
        }
    }
    pod
}

/// Whether the node can give a pod what it wants now. `others` is what all other pods have.
pub(crate) fn decide(demand: Demand, others: Demand, capacity: &Capacity, generation: i64) -> Result<(), Pending> {
    let (cpu, memory) = (capacity.cpu.milli_value(), capacity.memory.value());
    let short = if demand.memory > memory {
        Some(format!("memory, requested: {}, capacity: {memory}", demand.memory))
    } else if demand.cpu_millis > cpu {
        Some(format!("cpu, requested: {}, capacity: {cpu}", demand.cpu_millis))
    } else {
        None
    };
    if let Some(short) = short {
        let message = format!("Node didn't have enough capacity: {short}");
        return Err(Pending { reason: "Infeasible", message, generation });
    }
    admission::admit(demand, others, capacity).map_err(|rejection| Pending {
        reason: "Deferred",
        message: rejection.message,
        generation,
    })
}

/// Whether every running container has what the pod was granted.
pub(crate) fn is_in_force(pod: &Pod, facts: &BTreeMap<String, ContainerFacts>) -> bool {
    facts.iter().all(|(name, facts)| {
        let Some(attempt) = facts.current.as_ref().filter(|one| matches!(one.state, State::Running { .. })) else {
            return true;
        };
        let granted =
            crate::container::find(pod, name).and_then(|container| container.resources.clone()).unwrap_or_default();
        attempt.resources.as_ref().is_none_or(|given| *given == granted)
    })
}

/// Puts the conditions of a resize into the status, and takes those away that hold no more.
pub(crate) fn conditions(status: &mut PodStatus, old: Option<&PodStatus>, allocation: &Allocation, now: Timestamp) {
    let pending = allocation.pending.as_ref();
    let pending = pending.map(|pending| (Some(pending.reason), Some(pending.message.clone()), pending.generation));
    let in_progress = allocation.in_progress.map(|generation| (None, None, generation));
    for (kind, wanted) in [("PodResizePending", pending), ("PodResizeInProgress", in_progress)] {
        let list = status.conditions.get_or_insert_default();
        list.retain(|condition| condition.type_ != kind);
        let Some((reason, message, generation)) = wanted else { continue };
        let before = old.and_then(|old| old.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind));
        let since = before.and_then(|before| before.last_transition_time.clone()).unwrap_or(Time(now));
        let probed = before.and_then(|before| before.last_probe_time.clone()).unwrap_or(Time(now));
        list.push(PodCondition {
            type_: kind.to_owned(),
            status: "True".to_owned(),
            reason: reason.map(str::to_owned),
            message,
            observed_generation: Some(generation),
            last_transition_time: Some(since),
            last_probe_time: Some(probed),
        });
    }
}

/// What an event says of a resize: the resources of all containers, as JSON.
pub(crate) fn message(what: &str, pod: &Pod, generation: i64, error: Option<&str>) -> String {
    let list = |containers: &[Container]| -> Value {
        let entry = |container: &Container| json!({"name": container.name, "resources": container.resources.clone().unwrap_or_default()});
        containers.iter().map(entry).collect()
    };
    let mut summary = json!({});
    if let Some(spec) = &pod.spec {
        if let Some(init) = spec.init_containers.as_deref().filter(|init| !init.is_empty()) {
            summary["initContainers"] = list(init);
        }
        summary["containers"] = list(&spec.containers);
    }
    summary["generation"] = json!(generation);
    if let Some(error) = error {
        summary["error"] = json!(error);
    }
    format!("{what}: {summary}")
}
