//! The arithmetic of a PodDisruptionBudget.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt as _;
use pillion_informer::controller_of;

use crate::pod::PodView;
use crate::scaled::scaled;

/// A pod that was evicted and is not being deleted after this was not evicted.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);

/// How many pods a controller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    /// The uid of the controller that says so.
    pub(super) of: String,
    pub(super) replicas: i32,
}

/// The status of a budget, and what is reported about it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) status: PodDisruptionBudgetStatus,
    /// Reasons and messages.
    pub(super) warnings: Vec<(&'static str, String)>,
    pub(super) wake: Option<Duration>,
}

/// Decides over the pods that the budget is for, given the scales of their controllers by uid.
pub(super) fn plan(
    budget: &PodDisruptionBudget,
    pods: &[Arc<PodView>],
    scales: &BTreeMap<String, Scale>,
    now: Timestamp,
) -> Plan {
    let known = budget.status.clone().unwrap_or_default();
    let mut warnings = Vec::new();
    let (expected, desired) = match expectation(budget, pods, scales, &mut warnings) {
        Ok(counts) => counts,
        Err(message) => {
            let reported = format!("Failed to calculate the number of expected pods: {message}");
            warnings.push(("CalculateExpectedPodCountFailed", reported));
            // Nothing may be evicted while it is not known what may be.
            let conditions = condition(&known, budget, "False", "SyncFailed", &message, now);
            let status = PodDisruptionBudgetStatus { disruptions_allowed: 0, conditions: Some(conditions), ..known };
            return Plan { status, warnings, wake: None };
        }
    };
    let (disrupted, wake) = disrupted(&known, pods, now);
    let healthy = pods.iter().filter(|pod| {
        pod.metadata.deletion_timestamp.is_none() && !disrupted.contains_key(&pod.name_any()) && pod.is_ready()
    });
    let healthy = i32::try_from(healthy.count()).unwrap_or(i32::MAX);
    let allowed = if expected <= 0 { 0 } else { (healthy - desired).max(0) };
    let (status, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let conditions = condition(&known, budget, status, reason, "", now);
    let status = PodDisruptionBudgetStatus {
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
        disruptions_allowed: allowed,
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        observed_generation: budget.metadata.generation,
        conditions: Some(conditions),
    };
    Plan { status, warnings, wake }
}

/// How many pods there should be, and how many of them healthy.
fn expectation(
    budget: &PodDisruptionBudget,
    pods: &[Arc<PodView>],
    scales: &BTreeMap<String, Scale>,
    warnings: &mut Vec<(&'static str, String)>,
) -> Result<(i32, i32), String> {
    let spec = budget.spec.clone().unwrap_or_default();
    if let Some(most) = &spec.max_unavailable {
        let expected = expected_scale(spec.selector.as_ref(), pods, scales, warnings)?;
        return Ok((expected, (expected - scaled(Some(most), expected, true)).max(0)));
    }
    match &spec.min_available {
        Some(IntOrString::Int(least)) => Ok((i32::try_from(pods.len()).unwrap_or(i32::MAX), *least)),
        Some(least) => {
            let expected = expected_scale(spec.selector.as_ref(), pods, scales, warnings)?;
            Ok((expected, scaled(Some(least), expected, true)))
        }
        None => Ok((0, 0)),
    }
}

fn expected_scale(
    selector: Option<&LabelSelector>,
    pods: &[Arc<PodView>],
    scales: &BTreeMap<String, Scale>,
    warnings: &mut Vec<(&'static str, String)>,
) -> Result<i32, String> {
    let mut controllers: BTreeMap<&str, i32> = BTreeMap::new();
    let mut unmanaged = false;
    for pod in pods {
        let Some(owner) = controller_of(pod.as_ref()) else {
            unmanaged = true;
            continue;
        };
        let Some(scale) = scales.get(&owner.uid) else {
            return Err(format!("found no controllers for pod {:?}", pod.name_any()));
        };
        controllers.insert(&scale.of, scale.replicas);
    }
    if unmanaged {
        let selector = selector.map(printed).unwrap_or_default();
        warnings.push(("UnmanagedPods", format!(
            "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
        )));
    }
    Ok(controllers.values().sum())
}

/// A selector as Go prints it.
fn printed(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(name, value)| format!("{name}: {value},"));
    let expressions = selector.match_expressions.iter().flatten().map(|requirement| {
        let values = requirement.values.as_deref().unwrap_or_default().join(" ");
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
            requirement.key, requirement.operator
        )
    });
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.collect::<String>(),
        expressions.collect::<String>()
    )
}

/// Pods that were evicted and are not being deleted yet, and when to look at them again.
fn disrupted(
    known: &PodDisruptionBudgetStatus,
    pods: &[Arc<PodView>],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Duration>) {
    let (mut still, mut wake) = (BTreeMap::new(), None);
    for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let Some(evicted) = known.disrupted_pods.as_ref().and_then(|pods| pods.get(&pod.name_any())) else { continue };
        let rest = DELETION_TIMEOUT - now.duration_since(evicted.0);
        if let Ok(rest) = Duration::try_from(rest) {
            wake = Some(wake.map_or(rest, |known: Duration| known.min(rest)));
            still.insert(pod.name_any(), evicted.clone());
        }
    }
    (still, wake)
}

fn condition(
    known: &PodDisruptionBudgetStatus,
    budget: &PodDisruptionBudget,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = known.conditions.clone().unwrap_or_default();
    let mut new = Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: budget.metadata.generation,
        last_transition_time: Time(now),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == new.type_) {
        None => conditions.push(new),
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            *old = new;
        }
    }
    conditions
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, owner: Option<&str>, ready: bool) -> Arc<PodView> {
        let owners: Vec<Value> =
            owner.iter().map(|uid| json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid, "controller": true})).collect();
        let status = json!({"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]});
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name, "ownerReferences": owners}, "status": status}))
                .unwrap(),
        )
    }

    fn budget(spec: Value, status: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({"metadata": {"generation": 2}, "spec": spec, "status": status})).unwrap()
    }

    fn status(disrupted: Value) -> Value {
        json!({"currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0, "disruptionsAllowed": 0, "disruptedPods": disrupted})
    }

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    #[test]
    fn what_is_healthy_beyond_what_must_be_may_be_disrupted() {
        let pods = [pod("a", Some("r"), true), pod("b", Some("r"), true), pod("c", Some("r"), false)];
        let scales = BTreeMap::from([("r".to_owned(), Scale { of: "d".to_owned(), replicas: 10 })]);
        for (spec, disrupted, counts) in [
            (json!({"minAvailable": 1}), json!({}), [3, 1, 2, 1]),
            (json!({"minAvailable": 3}), json!({}), [3, 3, 2, 0]),
            (json!({"minAvailable": "28%"}), json!({}), [10, 3, 2, 0]),
            (json!({"maxUnavailable": 9}), json!({}), [10, 1, 2, 1]),
            (json!({"maxUnavailable": "90%"}), json!({}), [10, 1, 2, 1]),
            (json!({"minAvailable": 1}), json!({"a": "2026-01-01T00:00:00Z"}), [3, 1, 1, 0]),
            (json!({"minAvailable": 1}), json!({"a": "2025-12-31T00:00:00Z"}), [3, 1, 2, 1]),
        ] {
            let plan = plan(&budget(spec.clone(), status(disrupted)), &pods, &scales, now());
            let status = plan.status;
            let found =
                [status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed];
            assert_eq!(found, counts, "{spec}");
            assert_eq!(status.observed_generation, Some(2));
        }
    }

    #[test]
    fn pods_without_a_controller_cannot_be_counted_by_share() {
        let selector = json!({"matchLabels": {"app": "web"}});
        let bare = [pod("bare", None, true)];
        let planned = plan(
            &budget(json!({"maxUnavailable": 1, "selector": selector}), status(json!({}))),
            &bare,
            &BTreeMap::new(),
            now(),
        );
        assert_eq!(planned.status.disruptions_allowed, 0);
        assert!(planned.warnings[0].1.starts_with("Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged."));
        let strange = [pod("strange", Some("unknown"), true)];
        let planned = plan(&budget(json!({"maxUnavailable": 1}), status(json!({}))), &strange, &BTreeMap::new(), now());
        assert_eq!(
            planned.warnings,
            [(
                "CalculateExpectedPodCountFailed",
                "Failed to calculate the number of expected pods: found no controllers for pod \"strange\"".to_owned()
            )]
        );
        assert_eq!(planned.status.conditions.unwrap()[0].reason, "SyncFailed");
    }
}
