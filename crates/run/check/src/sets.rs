//! What SidecarSets and pods say about the manager's work.

use pillion_api::names::{FAILURE_POLICY_ENFORCED, PODS_INJECTED};

use crate::finding::Finding;
use crate::snapshot::Snapshot;

pub(crate) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    if !snapshot.is_installed() {
        return Vec::new();
    }
    let unusable = snapshot.unusable.iter().map(|why| Finding::warning("sidecarsets", why.clone()));
    unusable.chain(conditions(snapshot)).chain(pods(snapshot)).collect()
}

fn conditions(snapshot: &Snapshot) -> Vec<Finding> {
    const CHECK: &str = "sidecarsets";
    let sets = match &snapshot.sets {
        Ok(sets) => sets,
        Err(why) => return vec![Finding::unread(CHECK, why)],
    };
    let mut findings = Vec::new();
    for set in sets {
        for condition_type in [PODS_INJECTED, FAILURE_POLICY_ENFORCED] {
            // The pods themselves say more.
            let is_counted = snapshot.missed.as_ref().is_ok_and(|missed| missed.by_set.contains_key(set.name()));
            if condition_type == PODS_INJECTED && is_counted {
                continue;
            }
            let condition = set.status.as_ref().and_then(|status| status.condition(condition_type));
            let Some(condition) = condition.filter(|condition| condition.status == "False") else { continue };
            let message =
                format!("SidecarSet {:?} has the condition {condition_type}=False: {}", set.name(), condition.message);
            let remedy = if condition_type == PODS_INJECTED { RECREATE } else { TOO_MANY };
            findings.push(Finding::error(CHECK, message, remedy));
        }
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, format!("SidecarSets report no problem; checked: {}", sets.len())));
    }
    findings
}

const RECREATE: &str = "recreate the pods, or set spec.injectionStrategy.repair.policy to Evict";
const TOO_MANY: &str = "set failurePolicy to Ignore on SidecarSets that do not need Fail";

fn pods(snapshot: &Snapshot) -> Vec<Finding> {
    const CHECK: &str = "pods";
    let missed = match &snapshot.missed {
        Ok(missed) => missed,
        Err(why) => return vec![Finding::unread(CHECK, why)],
    };
    if missed.by_set.is_empty() {
        return vec![Finding::ok(CHECK, format!("no pod lacks its sidecars; checked: {}", missed.seen))];
    }
    let sets = missed.by_set.iter();
    sets.map(|(set, missed)| {
        let pods = if missed.count == 1 { "1 pod lacks" } else { &format!("{} pods lack", missed.count) };
        let mut names = missed.names.clone();
        if missed.count > names.len() {
            names.push(format!("and {} more", missed.count - names.len()));
        }
        Finding::error(CHECK, format!("{pods} the sidecars of SidecarSet {set:?}"), RECREATE).with_details(names)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use pillion_testkit::mk_set;
    use serde_json::{Value, json};

    use super::*;
    use crate::missed::{Missed, MissedPods};

    fn snapshot(missed: &[(&str, usize)]) -> Snapshot {
        let condition = |condition_type: &str, message: &str| -> Value {
            json!({
                "type": condition_type, "status": "False", "reason": "R", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let mut set = mk_set("mesh", json!({"app": "web"}), json!({}));
        let conditions = [condition(PODS_INJECTED, "3 pods"), condition(FAILURE_POLICY_ENFORCED, "there are too many")];
        let status = json!({"matchedPods": 0, "updatedPods": 0, "readyPods": 0, "conditions": conditions});
        set.status = serde_json::from_value(status).unwrap();
        let missed = missed.iter().map(|(set, count)| {
            let names = (0..*count.min(&10)).map(|i| format!("shop/web-{i}")).collect();
            ((*set).to_owned(), Missed { count: *count, names })
        });
        Snapshot {
            deployment: Ok(Some(Value::Null)),
            sets: Ok(vec![Arc::new(set)]),
            missed: Ok(MissedPods { by_set: missed.collect::<BTreeMap<_, _>>(), seen: 100 }),
            ..Snapshot::empty("2026-01-01T00:00:00Z".parse().unwrap())
        }
    }

    fn text(snapshot: &Snapshot) -> String {
        findings(snapshot).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_sidecar_sets_report_is_repeated() {
        insta::assert_snapshot!(text(&snapshot(&[])), @r#"
        error    SidecarSet "mesh" has the condition PodsInjected=False: 3 pods; recreate the pods, or set spec.injectionStrategy.repair.policy to Evict
        error    SidecarSet "mesh" has the condition FailurePolicyEnforced=False: there are too many; set failurePolicy to Ignore on SidecarSets that do not need Fail
        ok       no pod lacks its sidecars; checked: 100
        "#);
    }

    #[test]
    fn pods_that_were_found_say_more_than_the_condition() {
        insta::assert_snapshot!(text(&snapshot(&[("mesh", 12)])), @r#"
        error    SidecarSet "mesh" has the condition FailurePolicyEnforced=False: there are too many; set failurePolicy to Ignore on SidecarSets that do not need Fail
        error    12 pods lack the sidecars of SidecarSet "mesh": shop/web-0, shop/web-1, shop/web-2, shop/web-3, shop/web-4, shop/web-5, shop/web-6, shop/web-7, shop/web-8, shop/web-9, and 2 more; recreate the pods, or set spec.injectionStrategy.repair.policy to Evict
        "#);
    }
}
