//! `HorizontalPodAutoscalers`. They are stored as `autoscaling/v2` without validation, and are also served as `autoscaling/v1`.
//!
//! `v1` has one metric, the use of CPU. The annotation [`REST`] of an object in `v1` holds the other fields of `v2`. kube-apiserver uses annotations of
//! `autoscaling.alpha.kubernetes.io` for that; here they are stored as any other annotation.

use pillion_rules::value::{fill, has, is_empty, list, object_mut, pointer_mut, remove, set, text};
use serde_json::{Value, json};

use crate::rules::Rules;
use crate::storage::Storage;
use crate::stored_only::NAMESPACED_WITH_STATUS;

/// Rules of both versions.
pub(crate) const RULES: Rules = Rules {
    default: |autoscaler| fill(object_mut(autoscaler, "spec"), "minReplicas", 1),
    prepare_create: |autoscaler| {
        set(autoscaler, "status", json!({"desiredReplicas": 0, "currentMetrics": null}));
    },
    ..NAMESPACED_WITH_STATUS
};

/// Autoscalers of `autoscaling/v1` are kept as `autoscaling/v2`.
pub(crate) const STORAGE: Storage = Storage { group: "autoscaling", version: "v2", to_storage, from_storage };

const REST: &str = "pillion.dev/autoscaling-v2";

/// Spec or status, with what differs between the versions.
struct Part {
    name: &'static str,
    /// The percentage of `v1`.
    percentage: &'static str,
    /// The metrics of `v2`.
    metrics: &'static str,
    /// Where a metric of `v2` has the percentage.
    side: &'static str,
    /// What only `v2` has.
    rest: [&'static str; 2],
}

const PARTS: [Part; 2] = [
    Part {
        name: "spec",
        percentage: "targetCPUUtilizationPercentage",
        metrics: "metrics",
        side: "target",
        rest: ["metrics", "behavior"],
    },
    Part {
        name: "status",
        percentage: "currentCPUUtilizationPercentage",
        metrics: "currentMetrics",
        side: "current",
        rest: ["currentMetrics", "conditions"],
    },
];

impl Part {
    fn is_cpu(&self, metric: &Value) -> bool {
        let resource = &metric["resource"];
        text(resource, "name") == "cpu" && has(&resource[self.side], "averageUtilization")
    }

    /// The metric of `v2` that says the same as a percentage of `v1`.
    fn cpu(&self, percentage: &Value) -> Value {
        let mut resource = json!({"name": "cpu"});
        resource[self.side] = match self.side {
            "target" => json!({"type": "Utilization", "averageUtilization": percentage}),
            _ => json!({"averageUtilization": percentage}),
        };
        json!({"type": "Resource", "resource": resource})
    }
}

fn to_storage(autoscaler: &mut Value) {
    set(autoscaler, "apiVersion", "autoscaling/v2");
    let rest = take_rest(autoscaler);
    for part in &PARTS {
        let object = object_mut(autoscaler, part.name);
        for field in part.rest.iter().filter(|field| has(&rest[part.name], field)) {
            set(object, field, rest[part.name][*field].clone());
        }
        let percentage = object[part.percentage].take();
        remove(object, part.percentage);
        let mut metrics = list(object, part.metrics).to_vec();
        match metrics.iter_mut().find(|metric| part.is_cpu(metric)) {
            Some(metric) => metric["resource"][part.side]["averageUtilization"] = percentage,
            None if percentage.is_null() => {}
            None => metrics.push(part.cpu(&percentage)),
        }
        // A metric of CPU whose percentage was removed in `v1`.
        metrics.retain(|metric| *metric != part.cpu(&Value::Null));
        if !metrics.is_empty() || has(object, part.metrics) {
            set(object, part.metrics, metrics);
        }
    }
}

fn from_storage(autoscaler: &mut Value) {
    set(autoscaler, "apiVersion", "autoscaling/v1");
    let mut rest = json!({});
    for part in &PARTS {
        let object = object_mut(autoscaler, part.name);
        let cpu = list(object, part.metrics).iter().find(|metric| part.is_cpu(metric));
        let percentage = cpu.map(|metric| metric["resource"][part.side]["averageUtilization"].clone());
        if let Some(percentage) = percentage {
            // The percentage alone says it.
            if object[part.metrics] == json!([part.cpu(&percentage)]) {
                remove(object, part.metrics);
            }
            set(object, part.percentage, percentage);
        }
        for field in part.rest {
            if !is_empty(object, field) {
                set(object_mut(&mut rest, part.name), field, object[field].clone());
            }
            remove(object, field);
        }
    }
    if rest != json!({}) {
        set(object_mut(object_mut(autoscaler, "metadata"), "annotations"), REST, rest.to_string());
    }
    // `v1` always writes both counts.
    fill(object_mut(autoscaler, "status"), "currentReplicas", 0);
    fill(object_mut(autoscaler, "status"), "desiredReplicas", 0);
}

/// Removes the annotation, and returns the fields of `v2` that it holds. An annotation that is not valid JSON is kept.
fn take_rest(autoscaler: &mut Value) -> Value {
    let Some(meta) = pointer_mut(autoscaler, "metadata") else { return Value::Null };
    let Ok(rest) = serde_json::from_str(text(&meta["annotations"], REST)) else { return Value::Null };
    remove(object_mut(meta, "annotations"), REST);
    if is_empty(meta, "annotations") {
        remove(meta, "annotations");
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_v1(mut object: Value) -> Value {
        from_storage(&mut object);
        object
    }

    fn in_v2(mut object: Value) -> Value {
        to_storage(&mut object);
        object
    }

    fn memory() -> Value {
        json!({"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}})
    }

    #[test]
    fn a_percentage_of_cpu_is_a_metric_in_v2() {
        let v1 = json!({
            "apiVersion": "autoscaling/v1",
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
            "status": {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 7},
        });
        let v2 = in_v2(v1.clone());
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
        assert_eq!(v2["spec"], json!({"maxReplicas": 3, "metrics": [cpu]}));
        assert_eq!(v2["status"]["currentMetrics"][0]["resource"]["current"], json!({"averageUtilization": 7}));
        assert_eq!(in_v1(v2), v1);
    }

    #[test]
    fn nothing_of_v2_is_lost_in_v1() {
        let cpu = PARTS[0].cpu(&json!(50));
        let v2 = json!({
            "apiVersion": "autoscaling/v2",
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "metrics": [cpu, memory()], "behavior": {"scaleDown": {"selectPolicy": "Min"}}},
            "status": {"currentReplicas": 1, "desiredReplicas": 1, "conditions": [{"type": "AbleToScale", "status": "True"}]},
        });
        let mut v1 = in_v1(v2.clone());
        assert_eq!(v1["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}));
        assert_eq!(in_v2(v1.clone()), v2);

        v1["spec"]["targetCPUUtilizationPercentage"] = json!(60);
        assert_eq!(in_v2(v1.clone())["spec"]["metrics"], json!([PARTS[0].cpu(&json!(60)), memory()]));
        remove(&mut v1["spec"], "targetCPUUtilizationPercentage");
        assert_eq!(in_v2(v1)["spec"]["metrics"], json!([memory()]));
    }

    #[test]
    fn an_annotation_that_is_no_json_is_stored_as_it_is() {
        let v1 = json!({"metadata": {"annotations": {REST: "{"}}, "spec": {"maxReplicas": 3}});
        assert_eq!(in_v2(v1)["metadata"]["annotations"][REST], "{");
    }
}
