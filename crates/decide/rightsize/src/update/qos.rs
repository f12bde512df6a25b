//! The quality-of-service class of a pod, which a resize may not change.

use crate::pod::{Amounts, PodContainer, PodView, SpecResources};
use crate::qos_share::QosShare;
use crate::target::ContainerTarget;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Qos {
    BestEffort,
    Burstable,
    Guaranteed,
}

/// Whether the targets would give the pod another quality-of-service class.
pub fn changes_qos_class(pod: &PodView, targets: &[ContainerTarget]) -> bool {
    let now = |container: &PodContainer| container.spec;
    let then = |container: &PodContainer| {
        let spec = container.spec;
        match targets.iter().find(|target| target.container == container.name) {
            Some(target) => SpecResources {
                requests: Some(over(spec.requests.unwrap_or_default(), target.requests)),
                limits: Some(over(spec.limits.unwrap_or_default(), target.limits)),
            },
            None => spec,
        }
    };
    let class = |share: &dyn Fn(&PodContainer) -> SpecResources| {
        let init = pod.init.iter().map(|container| container.spec);
        class(pod.containers.iter().map(share).chain(init).fold(QosShare::default(), QosShare::with))
    };
    class(&now) != class(&then)
}

fn over(current: Amounts, target: Amounts) -> Amounts {
    Amounts { cpu: target.cpu.or(current.cpu), memory: target.memory.or(current.memory) }
}

fn class(share: QosShare) -> Qos {
    match (share.is_any_set, share.are_all_guaranteed) {
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
        changes_beside(json!([]), requests, limits, target, target_limits)
    }

    fn changes_beside(init: Value, requests: Value, limits: Value, target: Value, target_limits: Value) -> bool {
        let app = json!({"name": "a", "resources": {"requests": requests, "limits": limits}});
        let pod = Pod::new(json!({"spec": {"containers": [app], "initContainers": init}})).unwrap();
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

    /// Kubernetes counts init containers: a pod is not Guaranteed while one of them is not, and not `BestEffort` while one requests anything.
    #[test]
    fn plain_init_containers_count_for_the_class() {
        let both = |cpu: &str| json!({"cpu": cpu, "memory": "1Gi"});
        let setup = |resources: Value| json!([{"name": "setup", "resources": resources}]);
        let loose = || setup(json!({}));
        assert!(!changes_beside(loose(), both("1"), both("1"), both("2"), json!({})), "it was Burstable before");
        let requesting = setup(json!({"requests": {"cpu": "1"}}));
        assert!(!changes_beside(requesting, json!({}), json!({}), json!({"cpu": "1"}), json!({})));
        let guaranteed = setup(json!({"requests": both("1"), "limits": both("1")}));
        assert!(changes_beside(guaranteed.clone(), both("1"), both("1"), both("2"), json!({})));
        assert!(!changes_beside(guaranteed, both("1"), both("1"), both("2"), both("2")));
    }
}
