//! Lists of resources: reading and adding.

use std::collections::BTreeMap;

use pillion_quantity::Quantity;
use serde_json::Value;

use super::read::{entries, is_sidecar, list};
use crate::resource_name::is_huge_page;

/// Amounts by the name of the resource.
pub type ResourceList = BTreeMap<String, Quantity>;

/// Reads a quantity. What is none was refused when the object was decoded, and counts as nothing.
pub fn quantity(value: &Value) -> Quantity {
    match value {
        Value::String(text) => text.parse().unwrap_or(Quantity::ZERO),
        Value::Number(number) => number.to_string().parse().unwrap_or(Quantity::ZERO),
        _ => Quantity::ZERO,
    }
}

/// The `requests` or `limits` of resource requirements.
pub fn amounts(requirements: &Value, which: &str) -> ResourceList {
    entries(requirements, which).into_iter().map(|(name, value)| (name.to_owned(), quantity(value))).collect()
}

/// Returns what all containers of a pod need at the same time: the sum of those that run together, or the init container that needs most.
/// `which` is `requests` or `limits`.
pub fn aggregate(spec: &Value, which: &str) -> BTreeMap<String, Quantity> {
    let mut total = ResourceList::new();
    for container in list(spec, "containers") {
        add(&mut total, &amounts(&container["resources"], which));
    }
    let (mut sidecars, mut initial) = (ResourceList::new(), ResourceList::new());
    for container in list(spec, "initContainers") {
        let own = amounts(&container["resources"], which);
        if is_sidecar(container) {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut initial, &sidecars);
        } else {
            let mut together = own;
            add(&mut together, &sidecars);
            raise(&mut initial, &together);
        }
    }
    raise(&mut total, &initial);
    total
}

fn add(total: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        let sum = total.get(name).map_or(*amount, |have| have.checked_add(*amount).unwrap_or(Quantity::MAX));
        total.insert(name.clone(), sum);
    }
}

fn raise(total: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        if total.get(name).is_none_or(|have| amount > have) {
            total.insert(name.clone(), *amount);
        }
    }
}

/// Whether the amount is no whole number, rounded to thousandths as Kubernetes looks at it.
pub fn is_fractional(amount: Quantity) -> bool {
    amount.milli_value() % 1000 != 0
}

/// Whether the resource can be set for a whole pod (KEP-2837).
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}
