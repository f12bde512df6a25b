//! What a pod takes of a node.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::{Container, ContainerStatus, PodView};

/// Amounts by the name of the resource: thousandths of cpu, whole units of everything else.
pub(super) type Amounts = BTreeMap<String, i128>;

/// Reads quantities; what cannot be read is nothing.
pub(super) fn amounts(quantities: &BTreeMap<String, Quantity>) -> Amounts {
    let read = |(name, quantity): (&String, &Quantity)| {
        let quantity: pillion_quantity::Quantity = quantity.0.parse().ok()?;
        let amount = if name == "cpu" { quantity.milli_value() } else { quantity.value() };
        Some((name.clone(), amount))
    };
    quantities.iter().filter_map(read).collect()
}

/// Adds to what is there.
pub(super) fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += amount;
    }
}

/// Takes away what was added.
pub(super) fn subtract(total: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        *total.entry(name.clone()).or_default() -= amount;
    }
}

/// What the scheduler reserves for a pod: for its containers and native sidecars together, or for the largest of its init containers beside
/// the native sidecars that started before it; where the pod as a whole says more, that.
pub(super) fn requests(pod: &PodView) -> Amounts {
    let mut running = Amounts::new();
    for container in &pod.spec.containers {
        add(&mut running, &in_use(pod, container, &pod.status.container_statuses));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in &pod.spec.init_containers {
        let own = in_use(pod, container, &pod.status.init_container_statuses);
        if is_sidecar(container) {
            add(&mut sidecars, &own);
            raise(&mut starting, &sidecars);
        } else {
            let mut together = sidecars.clone();
            add(&mut together, &own);
            raise(&mut starting, &together);
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &starting);
    running.extend(amounts(&pod.spec.resources.requests));
    add(&mut running, &amounts(&pod.spec.overhead));
    running.retain(|_, amount| *amount != 0);
    running
}

/// What a container wants or has: while a resize is under way the larger one counts, and what the node can never grant does not.
fn in_use(pod: &PodView, container: &Container, statuses: &[ContainerStatus]) -> Amounts {
    let wanted = amounts(&container.resources.requests);
    let status = statuses.iter().find(|status| status.name == container.name);
    let Some((status, given)) = status.and_then(|status| Some((status, status.resources.as_ref()?))) else {
        return wanted;
    };
    let is_infeasible =
        pod.condition("PodResizePending").is_some_and(|pending| pending.reason.as_deref() == Some("Infeasible"));
    let mut used = if is_infeasible { Amounts::new() } else { wanted };
    raise(&mut used, &amounts(&given.requests));
    raise(&mut used, &amounts(&status.allocated_resources));
    used
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let known = total.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn while_a_resize_is_under_way_the_larger_one_counts_unless_it_can_never_be() {
        let given =
            json!({"name": "main", "resources": {"requests": {"cpu": "100m"}}, "allocatedResources": {"cpu": "100m"}});
        let pending = |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
        for (wanted, conditions, milli) in [
            ("50", pending("Infeasible"), 100),
            ("2", pending("Deferred"), 2000),
            ("50m", json!([]), 100),
            ("100m", json!([]), 100),
        ] {
            let pod = json!({
                "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": wanted}}}]},
                "status": {"containerStatuses": [given], "conditions": conditions},
            });
            let pod: PodView = serde_json::from_value(pod).unwrap();
            assert_eq!(requests(&pod)["cpu"], milli, "{wanted}");
        }
    }

    #[test]
    fn a_pod_takes_what_it_needs_at_its_fullest_moment() {
        let cpu = |request: &str| json!({"requests": {"cpu": request}});
        for (what, spec, milli) in [
            ("containers together", json!({"containers": [{"resources": cpu("1")}, {"resources": cpu("250m")}]}), 1250),
            (
                "a large init container",
                json!({"initContainers": [{"resources": cpu("3")}], "containers": [{"resources": cpu("1")}]}),
                3000,
            ),
            (
                "an init container beside earlier sidecars only",
                json!({
                    "initContainers": [
                        {"restartPolicy": "Always", "resources": cpu("1")},
                        {"resources": cpu("4")},
                        {"restartPolicy": "Always", "resources": cpu("2")},
                    ],
                    "containers": [{"resources": cpu("1")}],
                }),
                5000,
            ),
            (
                "sidecars beside containers",
                json!({
                    "initContainers": [{"restartPolicy": "Always", "resources": cpu("1")}],
                    "containers": [{"resources": cpu("1")}],
                    "overhead": {"cpu": "100m"},
                }),
                2100,
            ),
            ("the pod as a whole", json!({"resources": cpu("2"), "containers": [{"resources": cpu("1")}]}), 2000),
        ] {
            let pod: PodView = serde_json::from_value(json!({"spec": spec})).unwrap();
            assert_eq!(requests(&pod), Amounts::from([("cpu".to_owned(), milli)]), "{what}");
        }
    }
}
