//! Sums of requests and limits.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use pillion_lifecycle::resources;
use pillion_quantity::Quantity;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Amounts by the name of the resource.
pub type Resources = BTreeMap<String, Quantity>;

/// Something now, and as it would be then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Compared<T> {
    /// Now.
    pub now: T,
    /// Then.
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
        // Only what sums are made of is decoded: a pod of a newer Kubernetes may have more.
        let containers = |list: &str| -> Value {
            let containers = pod["spec"][list].as_array().into_iter().flatten();
            let sized = |container: &Value| {
                let (name, policy) = (&container["name"], &container["restartPolicy"]);
                json!({"name": name, "restartPolicy": policy, "resources": requirements(&container["resources"])})
            };
            containers.map(sized).collect()
        };
        let whole = &pod["spec"]["resources"];
        let spec = json!({
            "containers": containers("containers"), "initContainers": containers("initContainers"),
            "resources": whole.is_object().then(|| requirements(whole)), "overhead": amounts(&pod["spec"]["overhead"]),
        });
        let Ok(pod) = serde_json::from_value::<core::Pod>(json!({"spec": spec})) else {
            return PodResources::default();
        };
        PodResources { requests: resources::requests(&pod), limits: resources::limits(&pod) }
    }
}

fn requirements(resources: &Value) -> Value {
    json!({"requests": amounts(&resources["requests"]), "limits": amounts(&resources["limits"])})
}

/// A manifest may have numbers where the API server has texts.
fn amounts(list: &Value) -> Option<Map<String, Value>> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let list = list.as_object()?;
    Some(list.iter().map(|(name, value)| (name.clone(), Value::String(text(value)))).collect())
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
