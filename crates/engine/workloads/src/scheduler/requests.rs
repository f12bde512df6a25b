//! What a pod takes of a node.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::{Container, PodView};

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
        add(&mut running, &amounts(&container.resources.requests));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in &pod.spec.init_containers {
        let own = amounts(&container.resources.requests);
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
