//! What a DaemonSet says of itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSetStatus;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use super::node::{Eligibility, Place, of_pod};
use super::template;
use crate::kinds::DaemonSet;
use crate::pod::PodView;

/// The pods of a DaemonSet by node, those first that count.
pub(super) fn by_node(pods: &[Arc<PodView>]) -> BTreeMap<String, Vec<&Arc<PodView>>> {
    let mut nodes: BTreeMap<String, Vec<&Arc<PodView>>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !(pod.is_terminal() && pod.metadata.deletion_timestamp.is_some())) {
        if let Some(node) = of_pod(pod) {
            nodes.entry(node).or_default().push(pod);
        }
    }
    for pods in nodes.values_mut() {
        // What is on the node before what is only meant for it, then the oldest.
        pods.sort_by_cached_key(|pod| {
            let created = pod.created();
            (pod.spec.node_name.is_none(), created, pod.name_any())
        });
    }
    nodes
}

pub(super) fn status(
    set: &DaemonSet,
    nodes: &[Arc<Node>],
    pods: &[Arc<PodView>],
    hash: &str,
    now: Timestamp,
) -> DaemonSetStatus {
    let eligibility = Eligibility::of(set);
    let by_node = by_node(pods);
    let (mut desired, mut current, mut misscheduled, mut ready, mut updated, mut available) = (0, 0, 0, 0, 0, 0);
    for node in nodes {
        let pod = by_node.get(&node.name_any()).and_then(|pods| pods.first());
        let should_run = eligibility.place(node) == Place::Run;
        desired += i32::from(should_run);
        let Some(pod) = pod else { continue };
        if !should_run {
            misscheduled += 1;
            continue;
        }
        current += 1;
        ready += i32::from(pod.is_ready());
        available += i32::from(pod.is_available(set.spec.min_ready_seconds, now));
        updated += i32::from(template::is_updated(pod.labels(), set, hash));
    }
    let some = |count: i32| Some(count).filter(|count| *count != 0);
    DaemonSetStatus {
        observed_generation: set.metadata.generation,
        desired_number_scheduled: desired,
        current_number_scheduled: current,
        number_misscheduled: misscheduled,
        number_ready: ready,
        updated_number_scheduled: some(updated),
        number_available: some(available),
        number_unavailable: some(desired - available),
        collision_count: set.status.collision_count,
        conditions: set.status.conditions.clone(),
    }
}
