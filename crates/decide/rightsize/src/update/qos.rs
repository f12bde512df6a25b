//! The quality-of-service class of a pod, which a resize may not change.

use crate::amount::RESOURCES;
use crate::pod::{Amounts, PodContainer, PodView};
use crate::target::ContainerTarget;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Qos {
    BestEffort,
    Burstable,
    Guaranteed,
}

/// Whether the targets would give the pod another quality-of-service class.
pub fn changes_qos_class(pod: &PodView, targets: &[ContainerTarget]) -> bool {
    let now = |container: &PodContainer| {
        (container.spec.requests.unwrap_or_default(), container.spec.limits.unwrap_or_default())
    };
    let then = |container: &PodContainer| {
        let (requests, limits) = now(container);
        match targets.iter().find(|target| target.container == container.name) {
            Some(target) => (over(requests, target.requests), over(limits, target.limits)),
            None => (requests, limits),
        }
    };
    class(pod.containers.iter().map(now)) != class(pod.containers.iter().map(then))
}

fn over(current: Amounts, target: Amounts) -> Amounts {
    Amounts { cpu: target.cpu.or(current.cpu), memory: target.memory.or(current.memory) }
}

fn class(containers: impl Iterator<Item = (Amounts, Amounts)>) -> Qos {
    let (mut is_any_set, mut are_all_equal) = (false, true);
    for (requests, limits) in containers {
        for resource in RESOURCES {
            let positive = |amounts: Amounts| amounts.get(resource).filter(|amount| !amount.is_zero());
            let (request, limit) = (positive(requests), positive(limits));
            is_any_set |= request.is_some() || limit.is_some();
            // A request that is not set is the limit.
            are_all_equal &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (is_any_set, are_all_equal) {
        (false, _) => Qos::BestEffort,
        (true, true) => Qos::Guaranteed,
        (true, false) => Qos::Burstable,
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use serde_json::{Value, json};

    use super::*;

    fn changes(requests: Value, limits: Value, target: Value, target_limits: Value) -> bool {
        let resources = json!({"requests": requests, "limits": limits});
        let pod = Pod::new(json!({"spec": {"containers": [{"name": "a", "resources": resources}]}})).unwrap();
        let target = ContainerTarget {
            container: "a".into(),
            requests: Amounts::of(&target),
            limits: Amounts::of(&target_limits),
            notes: Vec::new(),
        };
        changes_qos_class(&PodView::new(&pod), &[target])
    }

    #[test]
    fn the_class_changes_when_requests_and_limits_come_apart_or_first_appear() {
        let both = |cpu: &str| json!({"cpu": cpu, "memory": "1Gi"});
        assert!(changes(json!({}), json!({}), json!({"cpu": "1"}), json!({})));
        assert!(changes(both("1"), both("1"), both("2"), json!({})));
        assert!(!changes(both("1"), both("1"), both("2"), both("2")));
        assert!(changes(both("1"), both("2"), both("2"), both("2")));
        assert!(!changes(both("1"), both("2"), both("3"), json!({})));
        assert!(!changes(json!({}), both("1"), json!({}), both("2")));
    }
}
