//! The admission plugin `DefaultTolerationSeconds`: a pod stays for five minutes on a node that is lost.

use serde_json::{Value, json};

use pillion_rules::pod::read::{list, text};

/// Adds the two tolerations to a new or updated pod that does not say itself how long it stays.
pub fn apply_default_tolerations(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else { return };
    let mut tolerations = list(spec, "tolerations").to_vec();
    let before = tolerations.len();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            matches!(text(toleration, "key"), own if own == key || own.is_empty())
                && matches!(text(toleration, "effect"), "NoExecute" | "")
        };
        if !list(spec, "tolerations").iter().any(tolerates) {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    if let Some(spec) = spec.as_object_mut().filter(|_| tolerations.len() > before) {
        spec.insert("tolerations".to_owned(), Value::Array(tolerations));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tolerations_are_added_unless_the_pod_says_otherwise() {
        let count = |tolerations: Value| {
            let mut pod = json!({"spec": {"tolerations": tolerations}});
            apply_default_tolerations(&mut pod);
            list(&pod["spec"], "tolerations").len()
        };
        assert_eq!(count(json!([])), 2);
        assert_eq!(count(json!([{"operator": "Exists"}])), 1);
        assert_eq!(
            count(json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}])),
            2
        );
        assert_eq!(count(json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])), 3);
    }
}
