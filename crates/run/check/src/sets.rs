//! What SidecarSets and pods say about the manager's work.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pillion_api::names::{FAILURE_POLICY_ENFORCED, PODS_INJECTED};
use pillion_api::sidecarset::{RepairPolicy, SidecarSet};
use pillion_install::ControllerName;
use pillion_rollout::{AVAILABLE, BLOCKED, PROGRESSING, missing_pin};

use crate::finding::Finding;
use crate::missed::Missed;
use crate::snapshot::{Snapshot, is_led};

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
            let Some(condition) = condition(set, condition_type, "False") else { continue };
            let remedy = if condition_type == PODS_INJECTED { remedy(snapshot, set, None) } else { TOO_MANY };
            findings.push(Finding::error(CHECK, described(set, condition), remedy));
        }
        findings.extend(set.status.as_ref().and_then(missing_pin).map(|condition| {
            let remedy = format!(
                "pin one of the revisions that `pillion rollout history {}` lists, or remove the pin",
                set.name()
            );
            Finding::error(CHECK, described(set, condition), remedy)
        }));
        findings.extend(rollout(set).map(|condition| {
            let remedy = format!("see `pillion rollout status {}`", set.name());
            Finding::warning(CHECK, format!("{} ({})", described(set, condition), condition.reason)).with_remedy(remedy)
        }));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CHECK, format!("SidecarSets report no problem; checked: {}", sets.len())));
    }
    findings
}

fn condition<'s>(set: &'s SidecarSet, condition_type: &str, status: &str) -> Option<&'s Condition> {
    set.status.as_ref()?.condition(condition_type).filter(|condition| condition.status == status)
}

/// What is in the way of a set's rollout. What blocks it says why it makes no progress, and why pods are not available.
fn rollout(set: &SidecarSet) -> Option<&Condition> {
    let conditions = [(BLOCKED, "True"), (PROGRESSING, "False"), (AVAILABLE, "False")];
    conditions.into_iter().find_map(|(condition_type, status)| condition(set, condition_type, status))
}

fn described(set: &SidecarSet, condition: &Condition) -> String {
    let Condition { type_, status, message, .. } = condition;
    format!("SidecarSet {:?} has the condition {type_}={status}: {message}", set.name())
}

/// What brings the sidecars into pods that lack them; which pods these are may not be known.
fn remedy(snapshot: &Snapshot, set: &SidecarSet, missed: Option<&Missed>) -> &'static str {
    let policy = set.spec.injection_strategy.repair.as_ref().and_then(|repair| repair.policy.as_ref());
    let (evicted, not_evicted) =
        missed.map_or((true, true), |missed| (missed.count > missed.not_evicted, missed.not_evicted > 0));
    match (policy == Some(&RepairPolicy::Evict), evicted, not_evicted) {
        (true, true, _) if !is_repaired(snapshot) => {
            "recreate the pods, or run the controller repair, which evicts them (`--controllers`)"
        }
        (true, true, true) => {
            "the controller repair evicts them within their budgets, but neither bare pods nor pods of Jobs: recreate those"
        }
        (true, true, false) => {
            "the controller repair evicts them within their budgets; if they stay, events of the SidecarSet say why"
        }
        (true, false, _) => "recreate the pods: bare pods and pods of Jobs are never evicted",
        (false, true, _) => "recreate the pods, or set spec.injectionStrategy.repair.policy to Evict",
        (false, false, _) => "recreate the pods",
    }
}

/// Whether the controller that evicts pods runs somewhere, as far as that can be read.
fn is_repaired(snapshot: &Snapshot) -> bool {
    let Ok(leases) = &snapshot.leases else { return true };
    is_led(leases, ControllerName::Repair, snapshot.now)
}

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
        let known = snapshot.sets.iter().flatten().find(|known| known.name() == set);
        let remedy = known.map_or("recreate the pods", |known| remedy(snapshot, known, Some(missed)));
        Finding::error(CHECK, format!("{pods} the sidecars of SidecarSet {set:?}"), remedy).with_details(names)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use pillion_rollout::PINNED_REVISION;
    use pillion_testkit::mk_set;
    use serde_json::{Value, json};

    use super::*;
    use crate::missed::MissedPods;

    fn condition(condition_type: &str, status: &str, message: &str) -> Value {
        json!({
            "type": condition_type, "status": status, "reason": "R", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    }

    fn reporting(spec: Value, conditions: &[Value]) -> SidecarSet {
        let mut set = mk_set("mesh", json!({"app": "web"}), spec);
        let status = json!({"matchedPods": 0, "updatedPods": 0, "readyPods": 0, "conditions": conditions});
        set.status = serde_json::from_value(status).unwrap();
        set
    }

    fn of(set: SidecarSet, missed: &[(usize, usize)]) -> Snapshot {
        let missed = missed.iter().map(|&(count, not_evicted)| {
            let names = (0..count.min(10)).map(|i| format!("shop/web-{i}")).collect();
            ("mesh".to_owned(), Missed { count, not_evicted, names })
        });
        Snapshot {
            deployment: Ok(Some(Value::Null)),
            sets: Ok(vec![Arc::new(set)]),
            missed: Ok(MissedPods { by_set: missed.collect::<BTreeMap<_, _>>(), seen: 100 }),
            ..Snapshot::empty("2026-01-01T00:00:00Z".parse().unwrap())
        }
    }

    fn snapshot(missed: &[(usize, usize)]) -> Snapshot {
        let conditions = [
            condition(PODS_INJECTED, "False", "3 pods"),
            condition(FAILURE_POLICY_ENFORCED, "False", "there are too many"),
        ];
        of(reporting(json!({}), &conditions), missed)
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
        insta::assert_snapshot!(text(&snapshot(&[(12, 0)])), @r#"
        error    SidecarSet "mesh" has the condition FailurePolicyEnforced=False: there are too many; set failurePolicy to Ignore on SidecarSets that do not need Fail
        error    12 pods lack the sidecars of SidecarSet "mesh": shop/web-0, shop/web-1, shop/web-2, shop/web-3, shop/web-4, shop/web-5, shop/web-6, shop/web-7, shop/web-8, shop/web-9, and 2 more; recreate the pods, or set spec.injectionStrategy.repair.policy to Evict
        "#);
    }

    #[test]
    fn a_pinned_revision_that_is_missing_is_an_error() {
        let missing = condition(PINNED_REVISION, "False", "ControllerRevision \"v1\" does not exist");
        insta::assert_snapshot!(text(&of(reporting(json!({}), &[missing]), &[])), @r#"
        error    SidecarSet "mesh" has the condition PinnedRevisionFound=False: ControllerRevision "v1" does not exist; pin one of the revisions that `pillion rollout history mesh` lists, or remove the pin
        ok       no pod lacks its sidecars; checked: 100
        "#);
        let found = condition(PINNED_REVISION, "True", "the pinned revision exists");
        let said = text(&of(reporting(json!({}), &[found]), &[]));
        assert!(said.starts_with("ok       SidecarSets report no problem"), "{said}");
    }

    #[test]
    fn a_rollout_that_is_blocked_or_makes_no_progress_is_a_warning() {
        let late = condition(PROGRESSING, "False", "1 of 3 pods have revision mesh-2");
        let blocked = condition(BLOCKED, "True", "maxUnavailable is 0: no ready pod may be updated");
        let idle = condition(BLOCKED, "False", "");
        let unavailable = condition(AVAILABLE, "False", "2 pods are not ready");
        let said = |conditions: &[Value]| text(&of(reporting(json!({}), conditions), &[]));
        let rows = [
            (vec![late.clone(), blocked], "Blocked=True: maxUnavailable is 0: no ready pod may be updated (R)"),
            (vec![idle.clone(), late], "Progressing=False: 1 of 3 pods have revision mesh-2 (R)"),
            (vec![idle.clone(), unavailable], "Available=False: 2 pods are not ready (R)"),
        ];
        for (conditions, expected) in rows {
            let expected = format!(
                "warning  SidecarSet \"mesh\" has the condition {expected}; see `pillion rollout status mesh`\n"
            );
            let said = said(&conditions);
            assert!(said.starts_with(&expected), "{said}");
        }
        assert!(said(&[idle]).starts_with("ok       SidecarSets report no problem"));
    }

    #[test]
    fn the_remedy_for_missed_pods_fits_the_set_and_the_pods() {
        let evict = json!({"injectionStrategy": {"repair": {"policy": "Evict"}}});
        let rows = [
            (json!({}), (2, 0), "recreate the pods, or set spec.injectionStrategy.repair.policy to Evict"),
            (json!({}), (2, 2), "recreate the pods"),
            (
                evict.clone(),
                (2, 0),
                "the controller repair evicts them within their budgets; if they stay, events of the SidecarSet say why",
            ),
            (
                evict.clone(),
                (2, 1),
                "the controller repair evicts them within their budgets, but neither bare pods nor pods of Jobs: recreate those",
            ),
            (evict.clone(), (2, 2), "recreate the pods: bare pods and pods of Jobs are never evicted"),
        ];
        let lease = json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}});
        let leases =
            BTreeMap::from([(ControllerName::Repair.lease().to_owned(), serde_json::from_value(lease).unwrap())]);
        let mut rows: Vec<_> =
            rows.into_iter().map(|(spec, missed, expected)| (spec, missed, Ok(leases.clone()), expected)).collect();
        let run = "recreate the pods, or run the controller repair, which evicts them (`--controllers`)";
        rows.push((evict, (2, 1), Ok(BTreeMap::new()), run));
        for (spec, missed, leases, expected) in rows {
            let said = text(&Snapshot { leases, ..of(reporting(spec, &[]), &[missed]) });
            let expected =
                format!("2 pods lack the sidecars of SidecarSet \"mesh\": shop/web-0, shop/web-1; {expected}");
            assert!(said.ends_with(&expected), "{said}");
        }
    }
}
