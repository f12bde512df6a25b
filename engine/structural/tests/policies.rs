//! Policies that were written to kube-apiserver 1.35, requests that it judged by them, and what it answered.

use pillion_rules::field::{Error, ErrorKind};
use pillion_structural::policy::{self, Policy, Request, denial};
use serde_json::{Value, json};

const FIXTURE: &str = include_str!("fixtures/policies.json");

fn line(error: &Error) -> String {
    let reason = if matches!(error.kind, ErrorKind::Internal) { "InternalError" } else { "FieldValueInvalid" };
    format!("{reason} {}: {}", error.path, error.message())
}

#[test]
fn expressions_are_checked_as_the_real_server_checks_them() {
    let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
    for case in fixture["written"].as_array().unwrap() {
        let ours: Vec<String> = policy::validate_policy(&case["policy"]).iter().map(line).collect();
        let real: Vec<String> = case["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cause| {
                format!("{} {}: {}", cause[0].as_str().unwrap(), cause[1].as_str().unwrap(), cause[2].as_str().unwrap())
            })
            .collect();
        assert_eq!(ours, real, "{}", case["name"]);
    }
}

#[test]
fn requests_are_judged_as_the_real_server_judges_them() {
    let request = json!({
        "operation": "CREATE", "name": "x", "namespace": "structural", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "userInfo": {"username": "admin"}, "dryRun": true,
    });
    let namespace = json!({"metadata": {"name": "structural"}});
    let fixture: Value = serde_json::from_str(FIXTURE).unwrap();
    for case in fixture["evaluated"].as_array().unwrap() {
        let policy = Policy::compile(&json!({"metadata": {"name": "structural"}, "spec": case["spec"]}));
        // The API server does not keep an empty map.
        let mut object = case["object"].clone();
        if object["data"] == json!({}) {
            object.as_object_mut().unwrap().remove("data");
        }
        let asked = Request {
            object: &object,
            old_object: &Value::Null,
            request: &request,
            namespace: &namespace,
            params: None,
        };
        let decisions = policy.evaluate(&asked);
        let name = &case["name"];
        match decisions.first() {
            None => assert_eq!(case["code"], 201, "{name}"),
            Some(decision) => {
                let message = format!(
                    "configmaps \"x\" is forbidden: {}",
                    denial("structural", Some("structural"), &decision.message)
                );
                assert_eq!(case["message"], message, "{name}");
                assert_eq!(
                    (&case["code"], &case["reason"]),
                    (&json!(decision.code()), &json!(decision.reason)),
                    "{name}"
                );
            }
        }
        let warnings: Vec<String> = decisions
            .iter()
            .filter(|decision| decision.validation.is_some() || case["warnings"] != json!([]))
            .map(|decision| decision.warning("structural", "structural"))
            // A warning with a line break is not sent.
            .filter(|warning| !warning.contains('\n'))
            .collect();
        assert_eq!(case["warnings"], json!(warnings), "{name}");
    }
}
