//! The quality-of-service class of a pod.

use pillion_quantity::Quantity;
use serde_json::Value;

use pillion_rules::pod::read::{list, part, text};
use pillion_rules::pod::resources::{ResourceList, amounts};

/// `Guaranteed`, `Burstable` or `BestEffort`, from what the pod's containers (or the pod as a whole) ask for.
///
/// ```
/// let pod = serde_json::json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
/// assert_eq!(pillion_kinds::pod::qos_class(&pod), "Burstable");
/// ```
pub fn qos_class(pod: &Value) -> &'static str {
    let spec = &pod["spec"];
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    let mut guaranteed = true;
    if let Some(resources) = part(spec, "resources") {
        count(&mut requests, &amounts(resources, "requests"));
        let own = amounts(resources, "limits");
        guaranteed = own.is_empty() || count(&mut limits, &own) == 2;
    } else {
        for container in list(spec, "containers").iter().chain(list(spec, "initContainers")) {
            count(&mut requests, &amounts(&container["resources"], "requests"));
            guaranteed &= count(&mut limits, &amounts(&container["resources"], "limits")) == 2;
        }
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The class that is written in the status, or else the computed one.
pub(crate) fn recorded_qos_class(pod: &Value) -> &str {
    match text(&pod["status"], "qosClass") {
        "" => qos_class(pod),
        class => class,
    }
}

/// Adds what counts for the class: CPU and memory above zero. Returns how many of the two there were.
fn count(total: &mut ResourceList, more: &ResourceList) -> usize {
    let mut counted = 0;
    for (name, amount) in more {
        if matches!(name.as_str(), "cpu" | "memory") && amount.is_positive() {
            counted += 1;
            let have = total.get(name).copied().unwrap_or(Quantity::ZERO);
            total.insert(name.clone(), amount.checked_add(have).unwrap_or(Quantity::MAX));
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_follows_requests_and_limits() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        for (containers, class) in [
            (json!([{"resources": {}}]), "BestEffort"),
            (json!([{"resources": {"requests": {"cpu": "0"}}}]), "BestEffort"),
            (json!([{"resources": {"limits": {"example.com/gpu": "1"}}}]), "BestEffort"),
            (json!([{"resources": {"requests": both, "limits": both}}]), "Guaranteed"),
            (json!([{"resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": both}}]), "Guaranteed"),
            (json!([{"resources": {"requests": both, "limits": both}}, {"resources": {}}]), "Burstable"),
            (json!([{"resources": {"requests": both, "limits": {"cpu": "1"}}}]), "Burstable"),
        ] {
            assert_eq!(qos_class(&json!({"spec": {"containers": containers}})), class, "{containers}");
        }
        let pod_level = json!({"spec": {"containers": [{}], "resources": {"requests": both, "limits": both}}});
        assert_eq!(qos_class(&pod_level), "Guaranteed");
    }
}
