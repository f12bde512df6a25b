//! What the API server does to a pod before it calls webhooks, as far as admission can see a difference.
//!
//! Order matters: a limit becomes the request that is absent when the pod is decoded, before any LimitRange is asked.

use pillion_api::pod::Object;
use serde_json::Value;

/// Fills in what the API server would have by the time the webhook is called.
pub(crate) fn before_webhooks(pod: &mut Value, limit_ranges: &[&Value]) {
    for_each_container(pod, |container| {
        let limits = list(container, "limits");
        fill(container, "requests", &limits);
    });
    let defaults: Vec<(Object, Object)> = limit_ranges.iter().flat_map(|range| container_defaults(range)).collect();
    for_each_container(pod, |container| {
        for (limits, requests) in &defaults {
            fill(container, "limits", limits);
            fill(container, "requests", requests);
        }
    });
}

fn for_each_container(pod: &mut Value, mut change: impl FnMut(&mut Object)) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for (key, list) in spec.iter_mut() {
        if key == "containers" || key == "initContainers" {
            list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut).for_each(&mut change);
        }
    }
}

fn list(container: &Object, which: &str) -> Object {
    container
        .get("resources")
        .and_then(|resources| resources.get(which))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

/// Adds the values that are missing.
fn fill(container: &mut Object, which: &str, defaults: &Object) {
    if defaults.is_empty() {
        return;
    }
    let mut values = list(container, which);
    for (resource, value) in defaults {
        values.entry(resource.clone()).or_insert_with(|| value.clone());
    }
    let resources = container.entry("resources").or_insert(Value::Null);
    if !resources.is_object() {
        *resources = Value::Object(Object::new());
    }
    resources[which] = Value::Object(values);
}

/// Default limits and requests for containers of one LimitRange, after the API server's own defaulting of it.
fn container_defaults(range: &Value) -> Vec<(Object, Object)> {
    let items = range["spec"]["limits"].as_array().into_iter().flatten();
    items
        .filter(|item| item["type"] == "Container")
        .map(|item| {
            let values = |key: &str| item[key].as_object().cloned().unwrap_or_default();
            let mut limits = values("default");
            let mut requests = values("defaultRequest");
            add_missing(&mut limits, &values("max"));
            add_missing(&mut requests, &limits);
            add_missing(&mut requests, &values("min"));
            (limits, requests)
        })
        .collect()
}

fn add_missing(values: &mut Object, more: &Object) {
    for (resource, value) in more {
        values.entry(resource.clone()).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resources(container: Value, ranges: &[Value]) -> Value {
        let mut pod = json!({"spec": {"containers": [container]}});
        before_webhooks(&mut pod, &ranges.iter().collect::<Vec<_>>());
        pod["spec"]["containers"][0]["resources"].clone()
    }

    #[test]
    fn a_limit_is_copied_to_an_absent_request() {
        assert_eq!(
            resources(
                json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}}),
                &[]
            ),
            json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}})
        );
        assert_eq!(resources(json!({"name": "a"}), &[]), Value::Null);
    }

    #[test]
    fn a_limit_range_fills_what_is_still_missing() {
        let range = json!({"spec": {"limits": [
            {"type": "Pod", "max": {"cpu": "9"}},
            {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"memory": "1Gi"}, "min": {"memory": "1Mi"}}
        ]}});
        let filled = resources(json!({"resources": {"requests": {"cpu": "200m"}}}), std::slice::from_ref(&range));
        assert_eq!(
            filled,
            json!({"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"cpu": "500m", "memory": "1Gi"}}),
            "max is the default limit, and that the default request"
        );
        let own_limit = resources(json!({"resources": {"limits": {"cpu": "1"}}}), &[range]);
        assert_eq!(own_limit["requests"]["cpu"], "1", "the pod's own limit comes before the LimitRange's request");
    }
}
