//! What keeps the parameters of the agents' policies served.

use pillion_api::names::agent::NAME;
use serde_json::{Value, json};

use super::metadata;

/// The name of the policy and of its binding.
const POLICY: &str = "pillion-agent-parameters";

/// A policy that matches nothing, and has the same kind of parameters as those of agents.
///
/// When the last policy with ConfigMaps as parameters is deleted, kube-apiserver stops reading ConfigMaps, and does not begin again before it is
/// restarted: every later policy finds no parameters, and an agent that is installed again would be refused everything.
pub(super) fn objects(component: &str) -> [Value; 2] {
    let nothing =
        json!({"apiGroups": ["pillion.dev"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["nothing"]});
    let parameters = json!({"name": NAME, "namespace": "default", "parameterNotFoundAction": "Allow"});
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata(POLICY, None, component),
            "spec": {
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConstraints": {"resourceRules": [nothing]},
                "validations": [{"expression": "true"}],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata(POLICY, None, component),
            "spec": {"policyName": POLICY, "validationActions": ["Deny"], "paramRef": parameters},
        }),
    ]
}
