//! `HorizontalPodAutoscalers` that act on the same metric: both would answer the same load, and fight.

use pillion_api::vpa::{ContainerResourcePolicy, VerticalPodAutoscaler};
use pillion_expr::Resource;
use serde_json::Value;

use crate::amount::RESOURCES;

/// The resources by whose use a `HorizontalPodAutoscaler` (`autoscaling/v2`) scales the target of an autoscaler that sizes the same ones.
pub fn horizontal_conflicts(autoscaler: &VerticalPodAutoscaler, horizontal: &Value) -> Vec<Resource> {
    let Some(target) = &autoscaler.spec.target_ref else { return Vec::new() };
    let reference = &horizontal["spec"]["scaleTargetRef"];
    let is_same = horizontal["metadata"]["namespace"] == autoscaler.namespace()
        && reference["kind"] == target.kind.as_str()
        && reference["name"] == target.name.as_str();
    if !is_same || !autoscaler.update_mode().updates_running_pods() {
        return Vec::new();
    }
    let metrics: Vec<&Value> = horizontal["spec"]["metrics"].as_array().into_iter().flatten().collect();
    // Without metrics it scales by the use of CPU.
    let scales_by = |resource: Resource| {
        if metrics.is_empty() {
            return resource == Resource::Cpu;
        }
        metrics.iter().any(|metric| {
            metric["resource"]["name"] == resource.name()
                || (metric["containerResource"]["name"] == resource.name()
                    && controls(autoscaler, metric["containerResource"]["container"].as_str(), resource))
        })
    };
    RESOURCES.into_iter().filter(|resource| scales_by(*resource) && controls(autoscaler, None, *resource)).collect()
}

/// Whether an autoscaler sizes a resource of a container, or of any.
fn controls(autoscaler: &VerticalPodAutoscaler, container: Option<&str>, resource: Resource) -> bool {
    let sizes = |policy: &ContainerResourcePolicy| !policy.is_off() && policy.controls(resource.name());
    if let Some(container) = container {
        return autoscaler.container_policy(container).is_none_or(sizes);
    }
    let policies = autoscaler.spec.resource_policy.as_ref().map_or(&[][..], |policy| &policy.container_policies);
    let for_all = policies.iter().find(|policy| policy.container_name == pillion_api::vpa::ALL_CONTAINERS);
    for_all.is_none_or(sizes) || policies.iter().any(sizes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conflicts(mode: &str, policy: Value, metrics: Value) -> Vec<&'static str> {
        let autoscaler = pillion_api::vpa::decode(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "updatePolicy": {"updateMode": mode}, "resourcePolicy": {"containerPolicies": [policy]}
            }
        }))
        .unwrap();
        let horizontal = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "metrics": metrics}
        });
        horizontal_conflicts(&autoscaler, &horizontal).into_iter().map(Resource::name).collect()
    }

    #[test]
    fn the_same_metric_is_a_conflict_and_another_one_is_not() {
        let cpu = || json!([{"type": "Resource", "resource": {"name": "cpu"}}]);
        let all = |more: Value| {
            let mut policy = json!({"containerName": "*"});
            policy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            policy
        };
        assert_eq!(conflicts("Recreate", all(json!({})), cpu()), ["cpu"]);
        assert_eq!(conflicts("Recreate", all(json!({})), json!([])), ["cpu"], "CPU is what it scales by otherwise");
        assert_eq!(conflicts("Recreate", all(json!({"controlledResources": ["memory"]})), cpu()), [""; 0]);
        assert_eq!(conflicts("Recreate", all(json!({"mode": "Off"})), cpu()), [""; 0]);
        assert_eq!(conflicts("Off", all(json!({})), cpu()), [""; 0]);
        let pods = json!([{"type": "Pods", "pods": {"metric": {"name": "requests"}}}]);
        assert_eq!(conflicts("Recreate", all(json!({})), pods), [""; 0]);
        let of_mesh =
            json!([{"type": "ContainerResource", "containerResource": {"name": "memory", "container": "mesh"}}]);
        assert_eq!(conflicts("Recreate", all(json!({})), of_mesh), ["memory"]);
    }
}
