//! Horizontal autoscalers and disruption budgets.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{age, first_of, int, int_or_string, items, name, pointer_or, text};
use super::{AGE, NAME, Table, integer, string};

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        columns: &[
            NAME,
            string("Reference", "What is scaled."),
            string("Targets", "Measured and wanted, of each metric."),
            string("MinPods", "The fewest pods."),
            string("MaxPods", "The most pods."),
            string("Replicas", "Pods that there are."),
            AGE,
        ],
        cells: autoscaler,
    },
    Table {
        group: "policy",
        kind: "PodDisruptionBudget",
        columns: &[
            NAME,
            string("Min Available", "Pods that must stay available."),
            string("Max Unavailable", "Pods that may be unavailable."),
            integer("Allowed Disruptions", "Pods that may be disrupted now."),
            AGE,
        ],
        cells: |object, now| {
            let limit = |field| match &object["spec"][field] {
                Value::Null => "N/A".into(),
                limit => int_or_string(limit).into(),
            };
            let allowed = int(&object["status"]["disruptionsAllowed"]).into();
            vec![name(object), limit("minAvailable"), limit("maxUnavailable"), allowed, age(object, now)]
        },
    },
];

fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let reference = &spec["scaleTargetRef"];
    vec![
        name(object),
        format!("{}/{}", text(&reference["kind"]), text(&reference["name"])).into(),
        metrics(spec, status).into(),
        spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |fewest| fewest.to_string()).into(),
        int(&spec["maxReplicas"]).into(),
        int(&status["currentReplicas"]).into(),
        age(object, now),
    ]
}

fn metrics(spec: &Value, status: &Value) -> String {
    // What `autoscaling/v1` calls the one metric that it has.
    if let Some(target) = spec["targetCPUUtilizationPercentage"].as_i64() {
        return format!("cpu: {}/{target}%", percent(&status["currentCPUUtilizationPercentage"], UNKNOWN));
    }
    let specs = items(&spec["metrics"]);
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let all: Vec<String> =
        specs.iter().enumerate().map(|(index, spec)| metric(spec, &status["currentMetrics"][index])).collect();
    first_of(&all, 2, ", ")
}

const UNKNOWN: &str = "<unknown>";

fn metric(spec: &Value, status: &Value) -> String {
    let source = match text(&spec["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (spec, measured) = (&spec[source], !status[source].is_null());
    let (target, current) = (&spec["target"], &status[source]["current"]);
    // A metric that is measured without this value is written as Go writes a nil pointer.
    let amount = |field| if measured { pointer_or(&current[field], "<nil>") } else { UNKNOWN };
    let average = pointer_or(&target["averageValue"], "<nil>");
    match source {
        "pods" => format!("{}/{average}", amount("averageValue")),
        "external" | "object" if !target["averageValue"].is_null() => {
            format!("{}/{average} (avg)", pointer_or(&current["averageValue"], UNKNOWN))
        }
        "external" | "object" => format!("{}/{}", amount("value"), pointer_or(&target["value"], "<nil>")),
        _ if !target["averageValue"].is_null() => {
            format!("{}: {}/{average}", text(&spec["name"]), amount("averageValue"))
        }
        _ => {
            let current = percent(&current["averageUtilization"], UNKNOWN);
            format!("{}: {current}/{}", text(&spec["name"]), percent(&target["averageUtilization"], "<auto>"))
        }
    }
}

fn percent(value: &Value, absent: &str) -> String {
    value.as_i64().map_or_else(|| absent.to_owned(), |percent| format!("{percent}%"))
}
