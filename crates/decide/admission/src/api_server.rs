//! What the API server does to a pod before it calls webhooks, as far as admission can see a difference.
//!
//! Order matters: a limit becomes the absent request when the pod is decoded, before any LimitRange is applied.

use pillion_rules::pod::{apply_limit_range, default_requests};
use serde_json::Value;

/// Fills in the resources that the API server would have filled in by the time it calls the webhook.
pub(crate) fn before_webhooks(pod: &mut Value, limit_ranges: &[&Value]) {
    default_requests(pod);
    for range in limit_ranges {
        // The annotation in which the plugin lists what it set is not for a manifest.
        apply_limit_range(pod, range);
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
        let own_limit = resources(json!({"resources": {"limits": {"cpu": "1"}}}), std::slice::from_ref(&range));
        assert_eq!(own_limit["requests"]["cpu"], "1", "the pod's own limit comes before the LimitRange's request");
        let blank = resources(json!({"resources": null}), std::slice::from_ref(&range));
        assert_eq!(blank["limits"]["cpu"], "500m", "`resources:` without a value is absent");
    }
}
