//! The policy that bounds what the manager writes for agents: RBAC cannot name objects that are created, nor namespaces that are not known yet.

use pillion_api::names::agent::{CONFIG, MIRROR_OF, NAME, RESULTS};
use serde_json::{Value, json};

use super::metadata;

/// The name of the policy and of its binding.
const POLICY: &str = "pillion-agents";

/// The policy for the accounts of a component in the namespace `home`.
pub(super) fn objects(accounts: &[&str], home: &str, component: &str) -> Vec<Value> {
    let users: Vec<String> =
        accounts.iter().map(|account| format!("'system:serviceaccount:{home}:{account}'")).collect();
    let condition = json!({
        "name": "manager",
        "expression": format!("request.userInfo.username in [{}] && request.namespace != '{home}'", users.join(", ")),
    });
    let is_mirror =
        |object: &str| format!("has({object}.metadata.annotations) && '{MIRROR_OF}' in {object}.metadata.annotations");
    let data = |object: &str| format!("(has({object}.data) ? {object}.data : {{}})");
    let validations = [
        (
            format!("request.name in ['{CONFIG}', '{NAME}', '{RESULTS}']"),
            "the manager writes no other ConfigMap than those of agents".to_owned(),
        ),
        (
            format!(
                "request.name != '{CONFIG}' || (request.operation == 'CREATE' ? {} : {})",
                is_mirror("object"),
                is_mirror("oldObject")
            ),
            format!("a {CONFIG} that is no mirror is not the manager's"),
        ),
        (
            format!("request.name == '{CONFIG}' || request.operation == 'UPDATE'"),
            format!("the manager neither creates nor deletes {NAME} and {RESULTS}"),
        ),
        (
            format!(
                "request.name != '{RESULTS}' || request.operation != 'UPDATE' || {new}.all(k, k in {old} && {old}[k] == {new}[k])",
                new = data("object"),
                old = data("oldObject")
            ),
            format!("the manager only removes entries of {RESULTS}"),
        ),
    ];
    let rule = |(expression, message): (String, String)| json!({"expression": expression, "message": message, "reason": "Forbidden"});
    let validations: Vec<Value> = validations.into_iter().map(rule).collect();
    let maps = json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["configmaps"],
    });
    vec![
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata(POLICY, None, component),
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [maps]},
                "matchConditions": [condition],
                "validations": validations,
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata(POLICY, None, component),
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        }),
    ]
}
