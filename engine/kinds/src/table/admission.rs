//! Webhook configurations, admission policies and their bindings.

use serde_json::Value;

use super::format::{age, count, items, name, text};
use super::{AGE, Column, NAME, Table, integer, string};

const WEBHOOKS: &[Column] = &[NAME, integer("Webhooks", "How many webhooks."), AGE];

pub(super) const TABLES: &[Table] = &[
    Table {
        group: "admissionregistration.k8s.io",
        kind: "MutatingWebhookConfiguration",
        columns: WEBHOOKS,
        cells: |object, now| vec![name(object), count(&object["webhooks"]).into(), age(object, now)],
    },
    Table {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingWebhookConfiguration",
        columns: WEBHOOKS,
        cells: |object, now| vec![name(object), count(&object["webhooks"]).into(), age(object, now)],
    },
    Table {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicy",
        columns: &[
            NAME,
            integer("Validations", "How many rules."),
            string("ParamKind", "Kind of the objects that parameterise it."),
            AGE,
        ],
        cells: |object, now| {
            let spec = &object["spec"];
            let kind = match &spec["paramKind"] {
                Value::Null => "<unset>".to_owned(),
                kind => format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"])),
            };
            vec![name(object), count(&spec["validations"]).into(), kind.into(), age(object, now)]
        },
    },
    Table {
        group: "admissionregistration.k8s.io",
        kind: "ValidatingAdmissionPolicyBinding",
        columns: &[
            NAME,
            string("PolicyName", "The policy that is put in force."),
            string("ParamRef", "The object that parameterises it."),
            AGE,
        ],
        cells: |object, now| {
            let spec = &object["spec"];
            vec![name(object), text(&spec["policyName"]).into(), parameters(&spec["paramRef"]).into(), age(object, now)]
        },
    },
];

fn parameters(reference: &Value) -> String {
    match (text(&reference["namespace"]), text(&reference["name"])) {
        (_, "") if reference["selector"].is_null() => "<unset>".to_owned(),
        (_, "") => go_selector(&reference["selector"]),
        // Whether the kind has namespaces is not known here.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

/// A label selector as Go prints the struct, which is what the API server shows.
fn go_selector(selector: &Value) -> String {
    let mut labels: Vec<(&String, &Value)> = selector["matchLabels"].as_object().into_iter().flatten().collect();
    labels.sort_unstable_by_key(|(key, _)| *key);
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}: {},", text(value))).collect();
    let expression = |expression: &Value| {
        let values = items(&expression["values"]).iter().map(text).collect::<Vec<_>>().join(" ");
        let (key, operator) = (text(&expression["key"]), text(&expression["operator"]));
        format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
    };
    let expressions: Vec<String> = items(&selector["matchExpressions"]).iter().map(expression).collect();
    let (labels, expressions) = (labels.concat(), expressions.concat());
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}
