//! Sums of requests and limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use pillion_lifecycle::resources;
use pillion_quantity::Quantity;
use serde::Serialize;
use serde_json::Value;

/// Amounts by the name of the resource.
pub type Resources = BTreeMap<String, Quantity>;

/// Something now, and as it would be then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compared<T> {
    pub now: T,
    pub then: T,
}

/// What one pod requests, and the limits that it has. A container without a limit adds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodResources {
    pub(crate) requests: Resources,
    pub(crate) limits: Resources,
}

impl PodResources {
    pub(crate) fn of(pod: &Value) -> PodResources {
        // Only what sums are made of is read: a pod of a newer Kubernetes may have more.
        let spec = &pod["spec"];
        let containers = |list: &str| spec[list].as_array().into_iter().flatten().map(container).collect::<Vec<_>>();
        let spec = core::PodSpec {
            containers: containers("containers"),
            init_containers: Some(containers("initContainers")),
            resources: spec["resources"].is_object().then(|| requirements(&spec["resources"])),
            overhead: amounts(&spec["overhead"]),
            ..core::PodSpec::default()
        };
        let pod = core::Pod { spec: Some(spec), ..core::Pod::default() };
        PodResources { requests: resources::requests(&pod), limits: resources::limits(&pod) }
    }
}

fn container(container: &Value) -> core::Container {
    core::Container {
        restart_policy: container["restartPolicy"].as_str().map(str::to_owned),
        resources: Some(requirements(&container["resources"])),
        ..core::Container::default()
    }
}

fn requirements(resources: &Value) -> core::ResourceRequirements {
    core::ResourceRequirements {
        requests: amounts(&resources["requests"]),
        limits: amounts(&resources["limits"]),
        ..core::ResourceRequirements::default()
    }
}

/// A manifest may have numbers where the API server has texts.
fn amounts(list: &Value) -> Option<BTreeMap<String, Text>> {
    let text = |value: &Value| Text(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    Some(list.as_object()?.iter().map(|(name, value)| (name.clone(), text(value))).collect())
}

/// Adds the resources of `count` pods.
pub(crate) fn add(total: &mut Resources, of_one: &Resources, count: u64) {
    for (name, amount) in of_one {
        let nanos = amount.nanos().saturating_mul(i128::from(count));
        let more = Quantity::from_nanos(nanos, amount.format());
        let sum = total.get(name).map_or(more, |have| have.checked_add(more).unwrap_or(Quantity::MAX));
        total.insert(name.clone(), sum);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(resources: &Resources) -> Vec<String> {
        resources.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    #[test]
    fn a_pod_counts_as_the_scheduler_counts_it() {
        let sized = |name: &str, cpu: &str| json!({"name": name, "future": {}, "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu, "memory": "1Gi"}, "claims": [1]}});
        let mut native = sized("native", "1");
        native["restartPolicy"] = json!("Always");
        let pod = json!({"spec": {"containers": [sized("a", "500m"), {"name": "b"}], "initContainers": [native, sized("setup", "2")]}});
        let resources = PodResources::of(&pod);
        assert_eq!(
            texts(&resources.requests),
            ["cpu=3"],
            "the native sidecar beside the init container that comes after it"
        );
        assert_eq!(texts(&resources.limits), ["cpu=3", "memory=2Gi"]);
        let numbers = json!({"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": 2}}}]}});
        assert_eq!(texts(&PodResources::of(&numbers).requests), ["cpu=2"]);
        assert_eq!(PodResources::of(&json!({"spec": {"containers": 5}})), PodResources::default());
    }

    #[test]
    fn sums_are_times_the_number_of_pods_and_have_an_end() {
        let one = Resources::from([("cpu".to_owned(), "250m".parse().unwrap())]);
        let mut total = Resources::new();
        add(&mut total, &one, 3);
        assert_eq!(texts(&total), ["cpu=750m"]);
        add(&mut total, &one, 0);
        assert_eq!(texts(&total), ["cpu=750m"]);
        add(&mut total, &one, u64::MAX);
        add(&mut total, &Resources::from([("cpu".to_owned(), Quantity::MAX)]), u64::MAX);
        assert_eq!(total["cpu"], Quantity::MAX);
    }
}
