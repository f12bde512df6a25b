//! Resources of a whole pod (KEP-2837): what is left out follows from the containers.

use serde_json::{Map, Value};

use super::Object;
use crate::pod::resources::{ResourceList, aggregate, is_pod_level};
use crate::resource_name::{is_huge_page, may_overcommit};

/// Completes `spec.resources` where it says something already. Runs after the containers' own requests are complete.
pub(super) fn apply(spec: &mut Object) {
    let said = |spec: &Object, which: &str| -> bool {
        spec.get("resources").and_then(|r| r.get(which)).and_then(Value::as_object).is_some_and(|list| !list.is_empty())
    };
    if !said(spec, "limits") && !said(spec, "requests") {
        return;
    }
    let whole = Value::Object(spec.clone());
    let huge_pages = aggregate(&whole, "limits")
        .into_iter()
        .filter(|(name, _)| is_huge_page(name) && whole["resources"]["requests"].get(name).is_none());
    fill(spec, "limits", huge_pages.collect());
    if said(spec, "limits") {
        let requests = aggregate(&whole, "requests");
        fill(
            spec,
            "requests",
            requests.into_iter().filter(|(name, _)| is_pod_level(name) && may_overcommit(name)).collect(),
        );
        let limits = spec.get("resources").and_then(|r| r.get("limits")).and_then(Value::as_object).cloned();
        for (name, limit) in limits.into_iter().flatten().filter(|(name, _)| is_pod_level(name)) {
            if let Some(requests) = list_of(spec, "requests") {
                requests.entry(name).or_insert(limit);
            }
        }
    }
}

fn fill(spec: &mut Object, which: &str, amounts: ResourceList) {
    if amounts.is_empty() {
        return;
    }
    if let Some(list) = list_of(spec, which) {
        for (name, amount) in amounts {
            list.entry(name).or_insert_with(|| Value::String(amount.to_string()));
        }
    }
}

fn list_of<'a>(spec: &'a mut Object, which: &str) -> Option<&'a mut Object> {
    let resources = spec.get_mut("resources")?.as_object_mut()?;
    resources.entry(which).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}
