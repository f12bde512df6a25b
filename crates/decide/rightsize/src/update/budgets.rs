//! PodDisruptionBudgets that forbid evictions at the moment.
//!
//! The API server enforces them, and the updater learns of them from its answers. This is for those who only look.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pillion_selector::Selector;
use serde_json::Value;

/// By the UID of a pod, the budget that forbids its eviction.
pub type Budgets = BTreeMap<String, String>;

/// Which of the PodDisruptionBudget objects of a namespace forbid the eviction of which pods.
pub fn forbidding(budgets: &[Value], pods: &[Value]) -> Budgets {
    let exhausted: Vec<(&str, Selector)> = budgets.iter().filter_map(exhausted).collect();
    let of_pod = |pod: &Value| {
        let metadata = &pod["metadata"];
        let label = |key: &str| metadata["labels"][key].as_str();
        let (name, _) = exhausted.iter().find(|(_, selector)| selector.matches(label))?;
        Some((metadata["uid"].as_str()?.to_owned(), (*name).to_owned()))
    };
    pods.iter().filter_map(of_pod).collect()
}

/// The name and the selector of a budget that allows no disruption. An empty selector selects all pods, a missing one none.
fn exhausted(budget: &Value) -> Option<(&str, Selector)> {
    if budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default() > 0 {
        return None;
    }
    let selector: LabelSelector = serde_json::from_value(budget["spec"].get("selector")?.clone()).ok()?;
    Some((budget["metadata"]["name"].as_str()?, Selector::from_label_selector(&selector).ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_budget_that_allows_nothing_forbids_the_eviction_of_the_pods_that_it_selects() {
        let budget = |name: &str, app: &str, allowed: i64| {
            let spec = json!({"selector": {"matchLabels": {"app": app}}});
            json!({"metadata": {"name": name}, "spec": spec, "status": {"disruptionsAllowed": allowed}})
        };
        let pod = |uid: &str, app: &str| json!({"metadata": {"uid": uid, "labels": {"app": app}}});
        let found = forbidding(
            &[budget("web", "web", 0), budget("api", "api", 1)],
            &[pod("1", "web"), pod("2", "api"), pod("3", "other")],
        );
        assert_eq!(found, Budgets::from([("1".to_owned(), "web".to_owned())]));
    }
}
