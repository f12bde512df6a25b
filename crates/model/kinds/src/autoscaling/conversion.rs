//! `autoscaling/v1` knows one metric, the use of CPU. What else an autoscaler says is there in annotations.

use serde_json::{Map, Value, json};

use super::metrics;
use crate::storage::Storage;
use crate::value::{has, is_empty, list, object_mut, remove, set, text};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Autoscalers of `autoscaling/v1` are kept as `autoscaling/v2`.
pub(crate) const STORAGE: Storage = Storage { group: "autoscaling", version: "v2", to_storage, from_storage };

/// Where each source of `v2` has what it compares with (`target`, in a status `current`), and what `v1` calls it.
const SOURCES: [(&str, [(&str, &str); 2]); 5] = [
    ("resource", [("averageUtilization", "AverageUtilization"), ("averageValue", "AverageValue")]),
    ("containerResource", [("averageUtilization", "AverageUtilization"), ("averageValue", "AverageValue")]),
    ("pods", [("averageValue", "AverageValue"), ("", "")]),
    ("object", [("value", "Value"), ("averageValue", "averageValue")]),
    ("external", [("value", "Value"), ("averageValue", "AverageValue")]),
];

fn is_cpu(metric: &Value, side: &str) -> bool {
    let resource = &metric["resource"];
    text(metric, "type") == "Resource" && text(resource, "name") == "cpu" && has(&resource[side], "averageUtilization")
}

fn to_storage(autoscaler: &mut Value) {
    set(autoscaler, "apiVersion", "autoscaling/v2");
    let annotation = |autoscaler: &mut Value, name: &str| -> Option<Value> {
        let annotations = autoscaler.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()?;
        serde_json::from_str(annotations.shift_remove(name)?.as_str()?).ok()
    };
    let others = annotation(autoscaler, METRICS);
    let behavior = annotation(autoscaler, BEHAVIOR);
    let current = annotation(autoscaler, CURRENT_METRICS);
    let conditions = annotation(autoscaler, CONDITIONS);
    drop_empty_annotations(autoscaler);

    let spec = object_mut(autoscaler, "spec");
    let mut metrics: Vec<Value> = others
        .iter()
        .flat_map(|others| others.as_array().into_iter().flatten())
        .map(|metric| to_v2(metric, "target"))
        .collect();
    if let Some(percentage) = spec.as_object_mut().and_then(|spec| spec.shift_remove("targetCPUUtilizationPercentage"))
    {
        let mut cpu = metrics::default();
        cpu["resource"]["target"]["averageUtilization"] = percentage;
        metrics.push(cpu);
    }
    if metrics.is_empty() {
        metrics.push(metrics::default());
    }
    set(spec, "metrics", metrics);
    if let Some(behavior) = behavior.filter(Value::is_object) {
        set(spec, "behavior", renamed(&behavior, &lower_first));
    }

    let status = object_mut(autoscaler, "status");
    let cpu = status.as_object_mut().and_then(|status| status.shift_remove("currentCPUUtilizationPercentage"));
    match (current, cpu) {
        (Some(Value::Array(current)), _) => {
            let current: Vec<Value> = current.iter().map(|metric| to_v2(metric, "current")).collect();
            set(status, "currentMetrics", current);
        }
        (_, Some(cpu)) => {
            let resource = json!({"name": "cpu", "current": {"averageUtilization": cpu}});
            set(status, "currentMetrics", json!([{"type": "Resource", "resource": resource}]));
        }
        _ => set(status, "currentMetrics", Value::Null),
    }
    if let Some(conditions) = conditions {
        set(status, "conditions", conditions);
    }
}

fn from_storage(autoscaler: &mut Value) {
    // What is read from the store is completed as `v2` is; `v1` could not say all of it.
    super::default(autoscaler);
    set(autoscaler, "apiVersion", "autoscaling/v1");
    let (spec, status) = (autoscaler["spec"].clone(), autoscaler["status"].clone());
    let (cpu, others): (Vec<&Value>, Vec<&Value>) =
        list(&spec, "metrics").iter().partition(|metric| is_cpu(metric, "target"));
    let others: Vec<Value> = others.into_iter().map(|metric| to_v1(metric, "target")).collect();
    let current: Vec<Value> = list(&status, "currentMetrics").iter().map(|metric| to_v1(metric, "current")).collect();
    let mut annotate = |name: &str, value: Value| {
        set(object_mut(object_mut(autoscaler, "metadata"), "annotations"), name, value.to_string());
    };
    if !others.is_empty() {
        annotate(METRICS, others.into());
    }
    if !current.is_empty() {
        annotate(CURRENT_METRICS, current.into());
    }
    if has(&spec, "behavior") {
        annotate(BEHAVIOR, shown_behavior(&spec["behavior"]));
    }
    if !is_empty(&status, "conditions") {
        annotate(CONDITIONS, status["conditions"].clone());
    }
    let new_spec = object_mut(autoscaler, "spec");
    remove(new_spec, "metrics");
    remove(new_spec, "behavior");
    if let Some(cpu) = cpu.first() {
        let percentage = cpu["resource"]["target"]["averageUtilization"].clone();
        set(new_spec, "targetCPUUtilizationPercentage", percentage);
    }
    let new_status = object_mut(autoscaler, "status");
    remove(new_status, "currentMetrics");
    remove(new_status, "conditions");
    // Both counts are always written.
    for field in ["currentReplicas", "desiredReplicas"] {
        crate::value::fill(new_status, field, 0);
    }
    if let Some(cpu) = list(&status, "currentMetrics").iter().find(|metric| is_cpu(metric, "current")) {
        let percentage = cpu["resource"]["current"]["averageUtilization"].clone();
        set(new_status, "currentCPUUtilizationPercentage", percentage);
    }
}

fn drop_empty_annotations(autoscaler: &mut Value) {
    if let Some(meta) = autoscaler.get_mut("metadata")
        && is_empty(meta, "annotations")
    {
        remove(meta, "annotations");
    }
}

/// A metric of `v2`, or its status, as `v1` writes it.
fn to_v1(metric: &Value, side: &str) -> Value {
    let mut out = json!({"type": metric["type"]});
    for (field, values) in SOURCES.iter().filter(|(field, _)| has(metric, field)) {
        let source = &metric[*field];
        let mut to = Map::new();
        let mut copy = |name: &str, value: &Value| {
            if !value.is_null() {
                to.insert(name.to_owned(), value.clone());
            }
        };
        copy("target", &source["describedObject"]);
        copy("name", &source["name"]);
        copy("metricName", &source["metric"]["name"]);
        copy(if *field == "external" { "metricSelector" } else { "selector" }, &source["metric"]["selector"]);
        for (new, old) in values.iter().filter(|(new, _)| !new.is_empty()) {
            copy(&v1_name(side, old), &source[side][*new]);
        }
        copy("container", &source["container"]);
        set(&mut out, field, Value::Object(to));
    }
    out
}

/// A metric of `v1`, or its status, as `v2` writes it.
fn to_v2(metric: &Value, side: &str) -> Value {
    let mut out = json!({"type": metric["type"]});
    for (field, values) in SOURCES.iter().filter(|(field, _)| has(metric, field)) {
        let source = &metric[*field];
        let mut compared = Map::new();
        for (new, old) in values.iter().filter(|(new, _)| !new.is_empty()) {
            let value = &source[v1_name(side, old).as_str()];
            if !value.is_null() {
                compared.insert((*new).to_owned(), value.clone());
            }
        }
        if side == "target" {
            let kind = match () {
                () if compared.contains_key("averageUtilization") => "Utilization",
                () if compared.contains_key("averageValue") => "AverageValue",
                () => "Value",
            };
            compared.shift_insert(0, "type".to_owned(), kind.into());
        }
        let mut to = Map::new();
        if *field == "object" {
            to.insert("describedObject".to_owned(), source["target"].clone());
        }
        if ["resource", "containerResource"].contains(field) {
            to.insert("name".to_owned(), source["name"].clone());
        } else {
            let mut identifier = json!({"name": source["metricName"]});
            let selector = &source[if *field == "external" { "metricSelector" } else { "selector" }];
            if !selector.is_null() {
                set(&mut identifier, "selector", selector.clone());
            }
            to.insert("metric".to_owned(), identifier);
        }
        to.insert(side.to_owned(), Value::Object(compared));
        if has(source, "container") {
            to.insert("container".to_owned(), source["container"].clone());
        }
        set(&mut out, field, Value::Object(to));
    }
    out
}

/// `targetAverageValue`, `currentValue`; one field has no such prefix.
fn v1_name(side: &str, name: &str) -> String {
    if name.starts_with(char::is_lowercase) { name.to_owned() } else { format!("{side}{name}") }
}

fn lower_first(name: &str) -> String {
    let mut chars = name.chars();
    chars.next().map(|first| first.to_ascii_lowercase().to_string() + chars.as_str()).unwrap_or_default()
}

fn renamed(value: &Value, rename: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(field, value)| (rename(field), renamed(value, rename)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| renamed(item, rename)).collect(),
        other => other.clone(),
    }
}

/// The behavior with the names of its fields in Go, as it stands in the annotation.
fn shown_behavior(behavior: &Value) -> Value {
    let rules = |rules: &Value| match rules {
        Value::Null => Value::Null,
        rules => {
            let policies: Vec<Value> = list(rules, "policies")
                .iter()
                .map(|policy| json!({"Type": policy["type"], "Value": policy["value"], "PeriodSeconds": policy["periodSeconds"]}))
                .collect();
            json!({
                "StabilizationWindowSeconds": rules["stabilizationWindowSeconds"],
                "SelectPolicy": rules["selectPolicy"],
                "Policies": policies,
                "Tolerance": rules["tolerance"],
            })
        }
    };
    json!({"ScaleUp": rules(&behavior["scaleUp"]), "ScaleDown": rules(&behavior["scaleDown"])})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(v1: &Value) -> (Value, Value) {
        let mut object = v1.clone();
        to_storage(&mut object);
        let stored = object.clone();
        from_storage(&mut object);
        (stored, object)
    }

    #[test]
    fn an_autoscaler_survives_the_way_to_v2_and_back() {
        let v1 = json!({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "annotations": {
                METRICS: r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}},{"type":"External","external":{"metricName":"q","metricSelector":{"matchLabels":{"a":"b"}},"targetAverageValue":"5"}}]"#,
                BEHAVIOR: r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":15}],"Tolerance":null}}"#,
            }},
            "spec": {"minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50},
            "status": {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 7},
        });
        let (stored, back) = there_and_back(&v1);
        assert_eq!(
            stored["spec"]["metrics"],
            json!([
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                {"type": "External", "external": {"metric": {"name": "q", "selector": {"matchLabels": {"a": "b"}}}, "target": {"type": "AverageValue", "averageValue": "5"}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
            ])
        );
        assert_eq!(
            stored["spec"]["behavior"]["scaleUp"]["policies"],
            json!([{"type": "Pods", "value": 4, "periodSeconds": 15}])
        );
        assert_eq!(stored["metadata"], json!({"name": "a"}));
        assert_eq!(back["spec"], v1["spec"]);
        assert_eq!(back["metadata"]["annotations"][METRICS], v1["metadata"]["annotations"][METRICS]);
        assert_eq!(back["metadata"]["annotations"][BEHAVIOR], v1["metadata"]["annotations"][BEHAVIOR]);
        assert_eq!(back["status"]["currentCPUUtilizationPercentage"], 7);
    }

    #[test]
    fn an_autoscaler_that_names_no_metric_looks_at_cpu() {
        let (stored, back) = there_and_back(&json!({"metadata": {}, "spec": {"maxReplicas": 3}, "status": {}}));
        assert_eq!(stored["spec"]["metrics"], json!([metrics::default()]));
        assert_eq!(back["spec"]["targetCPUUtilizationPercentage"], 80);
    }
}
