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
        findings.push(Finding::ok(CHECK, format!("SidecarSets report no problem; there are {}", sets.len())));
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
        return vec![Finding::ok(CHECK, format!("no pod lacks its sidecars; {} were checked", missed.seen))];
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
