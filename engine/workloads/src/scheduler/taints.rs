//! Which taints of a node a pod tolerates.

use k8s_openapi::api::core::v1::{Taint, Toleration};

/// Whether nothing keeps a pod with these tolerations from being put on a node with these taints.
pub(crate) fn admits(taints: &[Taint], tolerations: &[Toleration]) -> bool {
    taints
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        .all(|taint| tolerates(tolerations, taint))
}

/// Whether one of the tolerations is meant for the taint.
pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        let same = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|w| w.is_empty() || w == value);
        same(&toleration.effect, &taint.effect)
            && same(&toleration.key, &taint.key)
            && match toleration.operator.as_deref().unwrap_or_default() {
                "" | "Equal" => {
                    toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
                }
                "Exists" => true,
                _ => false,
            }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_toleration_is_for_the_taints_that_it_describes() {
        let taint = |effect: &str| {
            vec![serde_json::from_value::<Taint>(json!({"key": "a", "value": "b", "effect": effect})).unwrap()]
        };
        for (toleration, effect, admitted) in [
            (json!({"key": "a", "value": "b", "effect": "NoSchedule"}), "NoSchedule", true),
            (json!({"key": "a", "value": "c"}), "NoSchedule", false),
            (json!({"key": "a", "operator": "Exists"}), "NoExecute", true),
            (json!({"key": "a", "operator": "Exists", "effect": "NoExecute"}), "NoSchedule", false),
            (json!({"operator": "Exists"}), "NoSchedule", true),
            (json!({"key": "z", "operator": "Exists"}), "NoSchedule", false),
            (json!({"key": "z", "operator": "Exists"}), "PreferNoSchedule", true),
        ] {
            let tolerations = [serde_json::from_value::<Toleration>(toleration.clone()).unwrap()];
            assert_eq!(admits(&taint(effect), &tolerations), admitted, "{toleration} {effect}");
        }
    }
}
