//! Horizontal autoscalers and disruption budgets.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{age, int, int_or_string, name, text};
use super::{AGE, NAME, Table, integer, string};

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "autoscaling",
        kind: "HorizontalPodAutoscaler",
        columns: &[
            NAME,
            string("Reference", "What is scaled."),
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
        spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |fewest| fewest.to_string()).into(),
        int(&spec["maxReplicas"]).into(),
        int(&status["currentReplicas"]).into(),
        age(object, now),
    ]
}
