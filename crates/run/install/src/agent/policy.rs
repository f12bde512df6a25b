//! The admission policy that bounds what the agent's account may write.
//!
//! RBAC cannot say "only my own pod" or "only this annotation". The account's token is bound to its pod, and the API server says which in the user's
//! extra fields: the policy compares that with the object. What is named by the configuration comes from a ConfigMap, so that the policy itself
//! changes only with the kinds of targets.

use std::collections::{BTreeMap, BTreeSet};

use pillion_api::names::agent::{NAME as AGENT, RESULTS};
use pillion_assist::{Config, Key, LONGEST_ENTRY, Target};
use serde_json::{Value, json};

/// What the API server itself changes in an object's metadata.
const MANAGED: [&str; 3] = ["resourceVersion", "managedFields", "generation"];
/// The ends of generated names, and of the hash of a pod template before them.
const GENERATED: &str = "-([bcdfghjklmnpqrstvwxz2456789]{5,10}-)?[^-]+$";

/// The policy and its binding.
pub(super) fn policy(config: &Config, namespace: &str, user: &str) -> Vec<Value> {
    let name = format!("{AGENT}.{namespace}");
    let keys = config.keys();
    let kinds = kinds(&keys);
    let condition = json!({"name": "agent", "expression": format!("request.userInfo.username == '{user}'")});
    vec![
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                // Parameters are looked up before the conditions: without this, a namespace that is deleted would stop every other one.
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "resourceRules": resources(&kinds),
                },
                "matchConditions": [condition],
                "variables": variables(),
                "validations": validations(&kinds),
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "paramRef": {"name": AGENT, "namespace": namespace, "parameterNotFoundAction": "Deny"},
            },
        }),
    ]
}

/// The kinds of targets, each with the JSON Pointers that may change.
type Kinds<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>;

fn kinds(keys: &BTreeSet<Key>) -> Kinds<'_> {
    let mut kinds = Kinds::new();
    for key in keys {
        if let Key::Field(Target { group, resource, .. }, pointer) = key {
            kinds.entry((group, resource)).or_default().insert(pointer);
        }
    }
    kinds
}

fn resources(kinds: &Kinds<'_>) -> Value {
    let rule = |group: &str, versions: &str, resources: &[&str]| json!({"apiGroups": [group], "apiVersions": [versions], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": resources});
    let mut rules = vec![rule("", "v1", &["pods", "pods/status", "configmaps"])];
    for (group, resource) in kinds.keys() {
        rules.push(rule(group, "*", &[resource, &format!("{resource}/status")]));
    }
    Value::Array(rules)
}

fn variables() -> Vec<Value> {
    let mut variables = vec![json!({
        "name": "pod",
        "expression": "has(request.userInfo.extra) && 'authentication.kubernetes.io/pod-name' in request.userInfo.extra ? request.userInfo.extra['authentication.kubernetes.io/pod-name'][0] : ''",
    })];
    for field in ["annotations", "labels"] {
        variables.push(json!({"name": format!("new_{field}"), "expression": map("object.metadata", field)}));
        variables.push(json!({"name": format!("old_{field}"), "expression": map("oldObject.metadata", field)}));
    }
    for field in ["annotations", "labels", "conditions", "targets"] {
        variables
            .push(json!({"name": format!("may_{field}"), "expression": format!("params.data.{field}.split(',')")}));
    }
    variables
}

fn validations(kinds: &Kinds<'_>) -> Vec<Value> {
    let pods = "request.resource.resource != 'pods'";
    let only = |field: &str| {
        format!(
            "{pods} || (variables.new_{field}.all(k, k in variables.may_{field} || (k in variables.old_{field} && variables.old_{field}[k] == variables.new_{field}[k])) && variables.old_{field}.all(k, k in variables.may_{field} || k in variables.new_{field}))"
        )
    };
    let others = |object: &str| {
        format!(
            "(has({object}.status.conditions) ? {object}.status.conditions.filter(c, !(c.type in variables.may_conditions)) : [])"
        )
    };
    let results = format!(
        "request.resource.resource != 'configmaps' || (request.name == '{RESULTS}' && {new}.all(k, k == variables.pod || (k in {old} && {old}[k] == {new}[k])) && {old}.all(k, k == variables.pod || k in {new}) && (!(variables.pod in {new}) || size({new}[variables.pod]) <= {LONGEST_ENTRY}))",
        new = map("object", "data"),
        old = map("oldObject", "data")
    );
    let rest = same_but("object", "oldObject", &["metadata", "status"]);
    let pod = ("metadata", &["annotations", "labels"][..]);
    let status = same_but(&map("object", "status"), &map("oldObject", "status"), &["conditions"]);
    let owner = format!("variables.pod.matches('^' + request.name.replace('.', '[.]') + '{GENERATED}')");
    let mut validations = vec![
        ("request.operation == 'UPDATE'".to_owned(), "the agent creates and deletes nothing"),
        ("variables.pod != ''".to_owned(), "the agent's token is not bound to a pod"),
        (format!("{pods} || request.name == variables.pod"), "the agent changes only its own pod"),
        (format!("{pods} || ({rest})"), "the agent does not change the spec of a pod"),
        (
            format!("{pods} || ({})", metadata(pod.1)),
            "the agent changes no owners, no finalizers and nothing else of a pod's metadata",
        ),
        (only("annotations"), "the agent changes only annotations that its configuration names"),
        (only("labels"), "the agent changes only labels that its configuration names"),
        (
            format!("{pods} || {} == {}", others("object"), others("oldObject")),
            "the agent changes only conditions that its configuration names",
        ),
        (format!("{pods} || ({status})"), "the agent changes nothing of a pod's status but conditions"),
        (results, "the agent changes only its own pod's entry of sidecar-result, which has a bounded size"),
        (
            format!(
                "request.resource.resource in ['pods', 'configmaps'] || request.name == variables.pod || request.name in variables.may_targets || {owner}"
            ),
            "a target of the agent has the name of the pod or of its owner, or one that the configuration names",
        ),
    ];
    for ((group, resource), pointers) in kinds {
        let pointers: Vec<Vec<String>> = pointers.iter().map(|pointer| segments(pointer)).collect();
        let others = format!("request.resource.group != '{group}' || request.resource.resource != '{resource}'");
        let expression = format!("{others} || ({})", target(&pointers));
        validations.push((expression, "the agent changes only those fields of a target that its configuration names"));
    }
    let rule = |(expression, message): (String, &str)| json!({"expression": expression, "message": message, "reason": "Forbidden"});
    validations.into_iter().map(rule).collect()
}

/// A map of an object, or an empty one.
fn map(object: &str, field: &str) -> String {
    format!("(has({object}.{field}) ? {object}.{field} : {{}})")
}

/// Whether two maps are equal but for these keys.
fn same_but(new: &str, old: &str, keys: &[&str]) -> String {
    let keys = keys.iter().map(|key| format!("'{}'", quoted(key))).collect::<Vec<_>>().join(", ");
    format!(
        "{new}.all(k, k in [{keys}] || (k in {old} && {old}[k] == {new}[k])) && {old}.all(k, k in [{keys}] || k in {new})"
    )
}

fn metadata(keys: &[&str]) -> String {
    same_but("object.metadata", "oldObject.metadata", &[keys, &MANAGED].concat())
}

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

fn segments(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

/// Whether a target is as it was but for what the pointers lead to.
fn target(pointers: &[Vec<String>]) -> String {
    let mut pointers = pointers.to_vec();
    // What the API server changes is the API server's.
    pointers.extend(MANAGED.map(|field| vec!["metadata".to_owned(), field.to_owned()]));
    below("object", "oldObject", &pointers)
}

fn below(new: &str, old: &str, pointers: &[Vec<String>]) -> String {
    let mut by_key: BTreeMap<&str, Vec<Vec<String>>> = BTreeMap::new();
    for pointer in pointers {
        if let Some((first, rest)) = pointer.split_first() {
            by_key.entry(first).or_default().push(rest.to_vec());
        }
    }
    let keys: Vec<&str> = by_key.keys().copied().collect();
    let mut all = vec![same_but(new, old, &keys)];
    for (key, rest) in by_key {
        // Of a list no single item can be named: the whole of it may change.
        let is_open = |rest: &Vec<String>| rest.first().is_none_or(|next| next == "-" || next.parse::<u64>().is_ok());
        if !rest.iter().any(is_open) {
            let inner = |object: &str| format!("('{key}' in {object} ? {object}['{key}'] : {{}})", key = quoted(key));
            all.push(format!("({})", below(&inner(new), &inner(old), &rest)));
        }
    }
    all.join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_pointers_are_quoted_and_lists_are_open() {
        let shown = target(&[segments("/spec/a~1'b"), segments("/status/list/0/x")]);
        assert!(shown.contains(r"'a/\'b'"), "{shown}");
        assert!(shown.contains("k in ['list']") && !shown.contains("'0'"), "{shown}");
    }
}
