//! What a pod needs of a node: effective requests and limits, and the class of service.
//!
//! ```
//! use pillion_lifecycle::resources;
//!
//! let pod = serde_json::from_value(serde_json::json!({"spec": {
//!     "initContainers": [
//!         {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
//!         {"name": "migrate", "resources": {"requests": {"cpu": "2"}}},
//!     ],
//!     "containers": [{"name": "web", "resources": {"requests": {"cpu": "500m"}}}],
//! }}))?;
//! // While `migrate` runs, `proxy` runs beside it.
//! assert_eq!(resources::requests(&pod)["cpu"].to_string(), "3");
//! assert_eq!(resources::qos_class(&pod).to_string(), "Burstable");
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use pillion_quantity::Quantity;

/// Amounts by the name of the resource.
pub type Resources = BTreeMap<String, Quantity>;

type List = Option<BTreeMap<String, Text>>;

/// The class of service of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Every container is limited in processor and memory, and requests just that.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// Nothing is.
    BestEffort,
}

impl fmt::Display for QosClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, formatter)
    }
}

/// What a node sets aside for the pod as its spec has it: the most that runs at any one time, the resources of the pod
/// as a whole where it has some, and its overhead.
pub fn requests(pod: &Pod) -> Resources {
    let mut requests = aggregate(pod, |container| read(container.resources.as_ref().map(|own| &own.requests)));
    replace(&mut requests, pod, |resources| &resources.requests);
    add(&mut requests, &overhead(pod));
    requests
}

/// What the pod may use at most.
pub fn limits(pod: &Pod) -> Resources {
    let mut limits = aggregate(pod, |container| read(container.resources.as_ref().map(|own| &own.limits)));
    replace(&mut limits, pod, |resources| &resources.limits);
    for (name, amount) in overhead(pod) {
        if let Some(limit) = limits.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = sum(*limit, amount);
        }
    }
    limits
}

/// The class of service, from the spec alone.
pub fn qos_class(pod: &Pod) -> QosClass {
    let Some(spec) = &pod.spec else { return QosClass::BestEffort };
    let all = || spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let none = ResourceRequirements::default();
    let parts: Vec<&ResourceRequirements> = match &spec.resources {
        Some(whole) => vec![whole],
        None => all().map(|container| container.resources.as_ref().unwrap_or(&none)).collect(),
    };
    let (mut requests, mut limits) = (Resources::new(), Resources::new());
    let mut guaranteed = true;
    for part in parts {
        let limited = compute(&part.limits);
        // Limits of the whole pod may be left out altogether.
        guaranteed &= limited.len() == 2 || (spec.resources.is_some() && limited.is_empty());
        add(&mut limits, &limited);
        add(&mut requests, &compute(&part.requests));
    }
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if guaranteed && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

/// The amount of one resource; nothing if it is not in the list.
pub(crate) fn amount(list: Option<&BTreeMap<String, Text>>, name: &str) -> Quantity {
    list.and_then(|list| list.get(name)).and_then(|text| text.0.parse().ok()).unwrap_or(Quantity::ZERO)
}

/// The most that containers need at any one time: an init container runs beside the sidecars before it, and the regular
/// containers beside all sidecars.
fn aggregate(pod: &Pod, of: impl Fn(&Container) -> Resources) -> Resources {
    let Some(spec) = &pod.spec else { return Resources::new() };
    let mut running = Resources::new();
    for container in &spec.containers {
        add(&mut running, &of(container));
    }
    let (mut sidecars, mut peak) = (Resources::new(), Resources::new());
    for container in spec.init_containers.iter().flatten() {
        let own = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut running, &own);
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut beside = own;
            add(&mut beside, &sidecars);
            raise(&mut peak, &beside);
        }
    }
    raise(&mut running, &peak);
    running
}

/// What the pod says of itself as a whole takes the place of the sum.
fn replace(total: &mut Resources, pod: &Pod, of: impl Fn(&ResourceRequirements) -> &List) {
    let whole = pod.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    let supported = |name: &String| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
    total.extend(read(whole.map(of)).into_iter().filter(|(name, _)| supported(name)));
}

fn overhead(pod: &Pod) -> Resources {
    read(pod.spec.as_ref().map(|spec| &spec.overhead))
}

/// A quantity that the API server would refuse counts for nothing.
fn read(list: Option<&List>) -> Resources {
    let entries = list.into_iter().flatten().flatten();
    entries.filter_map(|(name, text)| Some((name.clone(), text.0.parse().ok()?))).collect()
}

/// Processor and memory, as far as there is any.
fn compute(list: &List) -> Resources {
    let mut amounts = read(Some(list));
    amounts.retain(|name, amount| matches!(name.as_str(), "cpu" | "memory") && amount.is_positive());
    amounts
}

fn add(total: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        total.entry(name.clone()).and_modify(|total| *total = sum(*total, *amount)).or_insert(*amount);
    }
}

fn raise(total: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        total.entry(name.clone()).and_modify(|total| *total = (*total).max(*amount)).or_insert(*amount);
    }
}

fn sum(left: Quantity, right: Quantity) -> Quantity {
    left.checked_add(right).unwrap_or(Quantity::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn container(policy: Option<&str>, cpu: &str) -> Value {
        let mut container = json!({"name": cpu, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}});
        if let Some(policy) = policy {
            container["restartPolicy"] = json!(policy);
        }
        container
    }

    #[test]
    fn the_most_that_runs_at_any_one_time_counts() {
        let (init, sidecar) = (|cpu| container(None, cpu), |cpu| container(Some("Always"), cpu));
        let table = [
            (vec![], vec![init("1"), init("2")], "3"),
            (vec![init("5")], vec![init("1"), init("2")], "5"),
            (vec![init("2"), sidecar("1")], vec![init("1")], "2"),
            (vec![sidecar("1"), init("2")], vec![init("1")], "3"),
            (vec![sidecar("1"), sidecar("2"), init("1")], vec![init("500m")], "4"),
            (vec![sidecar("1"), sidecar("2")], vec![init("500m")], "3500m"),
            // Another policy does not make a sidecar.
            (vec![container(Some("OnFailure"), "4")], vec![init("3")], "4"),
        ];
        for (init, regular, expected) in table {
            let pod = pod(json!({"spec": {"initContainers": init, "containers": regular}}));
            assert_eq!(requests(&pod)["cpu"].to_string(), expected, "{pod:?}");
            assert_eq!(limits(&pod)["cpu"].to_string(), expected, "{pod:?}");
        }
    }

    #[test]
    fn the_pod_as_a_whole_replaces_the_sum_and_overhead_comes_on_top() {
        let pod = pod(json!({"spec": {
            "overhead": {"cpu": "100m", "memory": "1Mi"},
            "resources": {"requests": {"cpu": "4", "example.com/gpu": "9"}, "limits": {"cpu": "5"}},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}],
        }}));
        let text = |resources: Resources| resources.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        let (requests, limits): (Vec<_>, Vec<_>) = (text(requests(&pod)), text(limits(&pod)));
        assert_eq!(requests, ["cpu=4100m", "example.com/gpu=1", "memory=1Mi"]);
        assert_eq!(limits, ["cpu=5100m"]);
    }

    #[test]
    fn the_class_of_service_depends_on_all_containers() {
        let sized = |requests: Value, limits: Value| json!({"name": "c", "resources": {"requests": requests, "limits": limits}});
        let full = || json!({"cpu": "1", "memory": "1Gi"});
        let none = || json!({});
        let table = [
            (json!({"containers": [sized(none(), none())]}), QosClass::BestEffort),
            (json!({"containers": [sized(json!({"cpu": "0"}), none())]}), QosClass::BestEffort),
            (json!({"containers": [sized(json!({"example.com/gpu": "1"}), none())]}), QosClass::BestEffort),
            (json!({"containers": [sized(full(), full())]}), QosClass::Guaranteed),
            (json!({"containers": [sized(full(), json!({"cpu": "1000m", "memory": "1024Mi"}))]}), QosClass::Guaranteed),
            (json!({"containers": [sized(json!({"cpu": "1"}), json!({"cpu": "1"}))]}), QosClass::Burstable),
            (json!({"containers": [sized(full(), full()), sized(none(), none())]}), QosClass::Burstable),
            (
                json!({"containers": [sized(full(), full())], "initContainers": [sized(none(), none())]}),
                QosClass::Burstable,
            ),
            (
                json!({"containers": [sized(none(), none())], "resources": {"requests": full(), "limits": full()}}),
                QosClass::Guaranteed,
            ),
            (json!({"containers": [sized(full(), full())], "resources": {"requests": full()}}), QosClass::Burstable),
        ];
        for (spec, expected) in table {
            assert_eq!(qos_class(&pod(json!({"spec": spec.clone()}))), expected, "{spec}");
        }
    }
}
