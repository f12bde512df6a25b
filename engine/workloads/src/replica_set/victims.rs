//! Which pods a ReplicaSet can spare first.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::pod::PodView;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Chooses `count` of the active pods. `related` are those whose neighbourhood on a node counts.
pub(super) fn choose(
    active: &[Arc<PodView>],
    count: usize,
    related: &[Arc<PodView>],
    now: Timestamp,
) -> Vec<Arc<PodView>> {
    if count >= active.len() {
        return active.to_vec();
    }
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| pod.is_active()) {
        *on_node.entry(node(pod)).or_default() += 1;
    }
    let mut ranked: Vec<_> =
        active.iter().map(|pod| (Rank::of(pod, on_node.get(node(pod)).copied().unwrap_or(0), now), pod)).collect();
    // Only the border between those that go and those that stay has to be found.
    ranked.select_nth_unstable_by(count, |(one, _), (other, _)| one.cmp(other));
    ranked.truncate(count);
    ranked.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    ranked.into_iter().map(|(_, pod)| Arc::clone(pod)).collect()
}

/// The lower, the sooner it goes. The order of the fields is that of Kubernetes' `ActivePodsWithRanks`.
///
/// Times count by their order of magnitude, so that the choice among pods of about the same age is by chance: by uid. Kubernetes
/// skips the restarts in that case, which can make a circle of three pods; here they count always.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    progress: (bool, u8, bool),
    deletion_cost: i32,
    neighbours: Reverse<usize>,
    ready_for: Option<u32>,
    restarts: Reverse<(i32, i32)>,
    age: Option<u32>,
    uid: Option<&'a str>,
}

impl Rank<'_> {
    fn of(pod: &PodView, neighbours: usize, now: Timestamp) -> Rank<'_> {
        Rank {
            progress: pod.progress(),
            deletion_cost: deletion_cost(pod),
            neighbours: Reverse(neighbours),
            ready_for: magnitude(pod.ready_since(), now),
            restarts: Reverse(pod.restarts()),
            age: magnitude(pod.created(), now),
            uid: pod.metadata.uid.as_deref(),
        }
    }
}

fn node(pod: &PodView) -> &str {
    pod.spec.node_name.as_deref().unwrap_or_default()
}

/// The power of two of the nanoseconds since then. Unknown is less than just now, which is less than long ago.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> Option<u32> {
    let nanoseconds = now.duration_since(since?).as_nanos();
    Some(u128::try_from(nanoseconds).ok().and_then(u128::checked_ilog2).map_or(0, |log| log + 1))
}

/// As in an annotation; what is not a number in plain digits costs nothing.
fn deletion_cost(pod: &PodView) -> i32 {
    let annotation = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
    annotation.filter(|cost| !cost.starts_with('+')).and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn ago(seconds: i64) -> String {
        (NOW - SignedDuration::from_secs(seconds)).to_string()
    }

    fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Arc<PodView> {
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": ago(3600), "annotations": {}},
            "spec": {"nodeName": "one", "initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": ago(3600)}],
                "containerStatuses": [{"name": "app", "restartCount": 0}],
                "initContainerStatuses": [{"name": "proxy", "restartCount": 0}, {"name": "setup", "restartCount": 0}],
            },
        });
        change(&mut pod);
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn order(pods: &[Arc<PodView>]) -> Vec<String> {
        let mut pods = pods.to_vec();
        // One that nobody would ever choose keeps the others in order.
        pods.push(pod("last", |pod| pod["metadata"]["annotations"][DELETION_COST] = "2147483647".into()));
        let chosen = choose(&pods, pods.len() - 1, &pods, NOW);
        chosen.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
    }

    #[test]
    fn pods_go_in_the_order_of_how_little_they_are_missed() {
        let pods = [
            pod("plain", |_| ()),
            pod("young", |pod| pod["metadata"]["creationTimestamp"] = ago(1).into()),
            pod("sidecar restarts", |pod| pod["status"]["initContainerStatuses"][0]["restartCount"] = 3.into()),
            pod("init restarts", |pod| pod["status"]["initContainerStatuses"][1]["restartCount"] = 9.into()),
            pod("restarts", |pod| pod["status"]["containerStatuses"][0]["restartCount"] = 1.into()),
            pod("ready of late", |pod| pod["status"]["conditions"][0]["lastTransitionTime"] = ago(1).into()),
            pod("alone", |pod| pod["spec"]["nodeName"] = "two".into()),
            pod("cheap", |pod| pod["metadata"]["annotations"][DELETION_COST] = "-5".into()),
            pod("not ready", |pod| pod["status"]["conditions"][0]["status"] = "False".into()),
            pod("unknown", |pod| pod["status"]["phase"] = "Unknown".into()),
            pod("pending", |pod| pod["status"]["phase"] = "Pending".into()),
            pod("unassigned", |pod| pod["spec"]["nodeName"] = Value::Null),
        ];
        assert_eq!(
            order(&pods),
            [
                "unassigned",
                "pending",
                "unknown",
                "not ready",
                "cheap",
                "ready of late",
                "restarts",
                "sidecar restarts",
                "young",
                "init restarts",
                "plain",
                "alone"
            ]
        );
    }

    #[test]
    fn pods_of_about_the_same_age_go_by_chance() {
        let at = |name: &str, seconds: i64| {
            pod(name, |pod| pod["status"]["conditions"][0]["lastTransitionTime"] = ago(seconds).into())
        };
        assert_eq!(order(&[at("b", 3600), at("a", 3700), at("c", 3650)]), ["a", "b", "c"]);
        assert_eq!(order(&[at("a", 36000), at("b", 3600)]), ["b", "a"]);
    }

    #[test]
    fn a_cost_that_is_not_a_number_costs_nothing() {
        for (cost, expected) in [("7", 7), ("-7", -7), ("+7", 0), ("much", 0), ("2147483648", 0)] {
            let pod = pod("a", |pod| pod["metadata"]["annotations"][DELETION_COST] = cost.into());
            assert_eq!(deletion_cost(&pod), expected, "{cost}");
        }
    }
}
