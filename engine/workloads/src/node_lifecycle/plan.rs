//! Which taints a node should have, and whether it has been silent for too long.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// A node that has not been heard of for so long is not ready, whatever it said last.
const GRACE: SignedDuration = SignedDuration::from_secs(50);

/// Which taint a condition of a node brings.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions that only the kubelet can know.
const OBSERVED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What is to change.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) taints: Option<Vec<Taint>>,
    pub(super) conditions: Option<Vec<NodeCondition>>,
    /// When silence would be too long.
    pub(super) wake: Option<Duration>,
}

/// Decides. `renewed` is when the kubelet last renewed its lease.
pub(super) fn plan(node: &Node, renewed: Option<Timestamp>, now: Timestamp) -> Plan {
    let conditions = conditions(node);
    let heard = conditions.iter().filter_map(|condition| condition.last_heartbeat_time.as_ref().map(|at| at.0)).max();
    let created = node.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let last = heard.max(renewed).or(created).unwrap_or(now);
    let rest = GRACE - now.duration_since(last);
    let silent = !rest.is_positive()
        && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status != "Unknown");
    Plan {
        taints: taints(node, conditions),
        conditions: silent.then(|| unknown(conditions, now)),
        wake: Duration::try_from(rest).ok().filter(|rest| !rest.is_zero()),
    }
}

fn conditions(node: &Node) -> &[NodeCondition] {
    node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
}

fn unknown(conditions: &[NodeCondition], now: Timestamp) -> Vec<NodeCondition> {
    let mut conditions = conditions.to_vec();
    for condition in conditions.iter_mut().filter(|condition| OBSERVED.contains(&condition.type_.as_str())) {
        if condition.status != "Unknown" {
            "Unknown".clone_into(&mut condition.status);
            condition.last_transition_time = Some(Time(now));
        }
        condition.reason = Some("NodeStatusUnknown".to_owned());
        condition.message = Some("Kubelet stopped posting node status.".to_owned());
    }
    conditions
}

/// The taints as they should be, if they are not. Those of others stay.
fn taints(node: &Node, conditions: &[NodeCondition]) -> Option<Vec<Taint>> {
    let spec = node.spec.as_ref();
    let known = spec.and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let cordoned = spec.is_some_and(|spec| spec.unschedulable == Some(true));
    // Before the kubelet has said anything, a new node keeps the taint that it was made with.
    let decided = |kind: &str| conditions.iter().any(|condition| condition.type_ == kind);
    let brought = |kind: &str, status: &str| {
        conditions.iter().any(|condition| condition.type_ == kind && condition.status == status)
    };
    let mut wanted: Vec<(&str, bool)> = TAINTS
        .iter()
        .filter(|(kind, _, _)| decided(kind))
        .map(|(kind, status, key)| (*key, brought(kind, status)))
        .collect();
    wanted.push((UNSCHEDULABLE, cordoned));
    let mut taints = known.clone();
    for (key, should) in wanted {
        let is = |taint: &Taint| taint.key == key && taint.effect == "NoSchedule";
        if !should {
            taints.retain(|taint| !is(taint));
        } else if !taints.iter().any(is) {
            taints.push(Taint { key: key.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() });
        }
    }
    (taints != known).then_some(taints)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOT_READY: &str = "node.kubernetes.io/not-ready";

    fn node(spec: Value, conditions: Value) -> Node {
        serde_json::from_value(json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": spec, "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn ready(status: &str) -> Value {
        json!([{"type": "Ready", "status": status, "lastHeartbeatTime": "2026-01-01T00:00:00Z"}])
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    #[test]
    fn taints_follow_conditions_and_cordons() {
        let tainted =
            json!({"taints": [{"key": NOT_READY, "effect": "NoSchedule"}, {"key": "mine", "effect": "NoSchedule"}]});
        let cordoned = json!({"unschedulable": true});
        for (spec, conditions, keys) in [
            (tainted.clone(), ready("True"), Some(vec!["mine"])),
            (tainted.clone(), ready("False"), None),
            (tainted, json!([]), None),
            (json!({}), ready("False"), Some(vec![NOT_READY])),
            (json!({}), ready("Unknown"), Some(vec!["node.kubernetes.io/unreachable"])),
            (cordoned, ready("True"), Some(vec![UNSCHEDULABLE])),
            (
                json!({}),
                json!([{"type": "DiskPressure", "status": "True"}]),
                Some(vec!["node.kubernetes.io/disk-pressure"]),
            ),
        ] {
            let plan = plan(&node(spec.clone(), conditions.clone()), None, at(0));
            let found: Option<Vec<String>> =
                plan.taints.map(|taints| taints.into_iter().map(|taint| taint.key).collect());
            assert_eq!(found, keys.map(|keys| keys.into_iter().map(str::to_owned).collect()), "{spec} {conditions}");
        }
    }

    #[test]
    fn a_silent_node_is_unknown_after_the_grace() {
        let node = node(json!({}), ready("True"));
        let early = plan(&node, None, at(49));
        assert!(early.conditions.is_none());
        assert_eq!(early.wake, Some(Duration::from_secs(1)));
        let late = plan(&node, None, at(50)).conditions.unwrap();
        assert_eq!((late[0].status.as_str(), late[0].reason.as_deref()), ("Unknown", Some("NodeStatusUnknown")));
        assert!(plan(&node, Some(at(30)), at(50)).conditions.is_none());
    }
}
