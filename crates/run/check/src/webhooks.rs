//! Other webhooks that change pods. The API server calls configurations in the order of their names.

use pillion_install::CONFIGURATION;
use pillion_manager::KRUISE_MUTATING;
use serde_json::Value;

use crate::finding::Finding;
use crate::snapshot::{Snapshot, is_ours, name, webhooks};

const CHECK: &str = "webhooks";

pub(crate) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let configurations = match &snapshot.mutating {
        Ok(configurations) => configurations,
        Err(why) => return vec![Finding::unread(CHECK, why)],
    };
    let others =
        configurations.iter().filter(|configuration| !is_ours(configuration) && name(configuration) != KRUISE_MUTATING);
    let mut others: Vec<(&str, Vec<&Value>)> = others
        .map(|configuration| {
            (name(configuration), webhooks(configuration).filter(|webhook| is_for_new_pods(webhook)).collect())
        })
        .filter(|(_, webhooks): &(_, Vec<_>)| !webhooks.is_empty())
        .collect();
    others.sort_unstable_by_key(|(name, _)| *name);
    if others.is_empty() {
        return vec![Finding::ok(CHECK, "no other webhook changes new pods")];
    }
    others.into_iter().map(|(name, webhooks)| position(name, &webhooks)).collect()
}

/// Ours is called once: between two calls the API server adds to the sidecars, and a second call would revert that.
fn position(name: &str, webhooks: &[&Value]) -> Finding {
    let is_called_again = webhooks.iter().any(|webhook| webhook["reinvocationPolicy"] == "IfNeeded");
    if name < CONFIGURATION {
        let again = if is_called_again { ", and again after it has injected" } else { "" };
        let message = format!(
            "webhook configuration {name:?} changes new pods before Pillion{again}: what it adds counts as the pod's own"
        );
        return Finding::ok(CHECK, message);
    }
    let message = format!(
        "webhook configuration {name:?} changes new pods after Pillion: resourcesPolicy does not see the containers that it adds"
    );
    Finding::warning(CHECK, message)
        .with_remedy(format!("if they should count, give it a name that sorts before {CONFIGURATION:?}"))
}

fn is_for_new_pods(webhook: &Value) -> bool {
    let has = |rule: &Value, key: &str, wanted: &[&str]| {
        let values = rule[key].as_array().into_iter().flatten();
        values.filter_map(Value::as_str).any(|value| wanted.contains(&value))
    };
    let mut rules = webhook["rules"].as_array().into_iter().flatten();
    rules.any(|rule| {
        has(rule, "apiGroups", &["", "*"])
            && has(rule, "resources", &["pods", "*", "*/*"])
            && has(rule, "operations", &["CREATE", "*"])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration(name: &str, resource: &str, policy: &str) -> Value {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "operations": ["CREATE"]}]);
        json!({"metadata": {"name": name}, "webhooks": [{"rules": rules, "reinvocationPolicy": policy}]})
    }

    #[test]
    fn webhooks_on_new_pods_are_reported_by_whether_they_come_before_or_after() {
        let mutating = vec![
            configuration("vault-agent-injector", "pods", "Never"),
            configuration("istio-sidecar-injector", "pods", "IfNeeded"),
            configuration("pillion", "pods", "Never"),
            configuration("cert-manager-webhook", "secrets", "Never"),
            configuration(KRUISE_MUTATING, "pods", "Never"),
        ];
        let snapshot = Snapshot::empty("2026-01-01T00:00:00Z".parse().unwrap());
        let found = findings(&Snapshot { mutating: Ok(mutating), ..snapshot.clone() });
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(found.join("\n"), @r#"
        ok       webhook configuration "istio-sidecar-injector" changes new pods before Pillion, and again after it has injected: what it adds counts as the pod's own
        warning  webhook configuration "vault-agent-injector" changes new pods after Pillion: resourcesPolicy does not see the containers that it adds; if they should count, give it a name that sorts before "pillion"
        "#);
        assert_eq!(findings(&snapshot)[0].message, "no other webhook changes new pods");
    }
}
