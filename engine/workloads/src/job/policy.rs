//! What a Job's policies say of a failed pod, and of the indexes that succeeded.

use k8s_openapi::api::batch::v1::{PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, SuccessPolicy};

use super::indexes::Indexes;
use crate::pod::{ContainerStatus, PodView};

/// What the failure of a pod means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It counts towards the limits.
    Counts,
    /// As if it had not been.
    Ignored,
    /// The index of the pod fails at once.
    FailsIndex,
    /// The whole Job fails, and this is why.
    FailsJob(String),
}

/// What the first rule that matches says.
pub(super) fn failure(policy: Option<&PodFailurePolicy>, pod: &PodView) -> Failure {
    let rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
    let (namespace, name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref());
    let pod_name = format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default());
    for (index, rule) in rules.iter().enumerate() {
        let why = if let Some(requirement) = &rule.on_exit_codes {
            exit_code(pod, requirement).map(|(container, code)| {
                format!("Container {container} for pod {pod_name} failed with exit code {code}")
            })
        } else {
            let patterns = rule.on_pod_conditions.as_deref().unwrap_or_default();
            let matching = pod.status.conditions.iter().find(|condition| {
                patterns.iter().any(|pattern| {
                    pattern.type_ == condition.type_ && pattern.status.as_deref().unwrap_or("True") == condition.status
                })
            });
            matching.map(|condition| format!("Pod {pod_name} has condition {}", condition.type_))
        };
        let Some(why) = why else { continue };
        match rule.action.as_str() {
            "Ignore" => return Failure::Ignored,
            "FailIndex" => return Failure::FailsIndex,
            "Count" => return Failure::Counts,
            "FailJob" => return Failure::FailsJob(format!("{why} matching FailJob rule at index {index}")),
            _ => {}
        }
    }
    Failure::Counts
}

/// The first container that ended with a code that is meant.
fn exit_code<'a>(pod: &'a PodView, requirement: &PodFailurePolicyOnExitCodesRequirement) -> Option<(&'a str, i32)> {
    pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses).find_map(|status| {
        let code = terminated_with(status)?;
        let named = requirement.container_name.as_ref().is_none_or(|name| *name == status.name);
        let wanted = match requirement.operator.as_str() {
            "In" => requirement.values.contains(&code),
            "NotIn" => !requirement.values.contains(&code),
            _ => false,
        };
        (named && code != 0 && wanted).then_some((status.name.as_str(), code))
    })
}

fn terminated_with(status: &ContainerStatus) -> Option<i32> {
    Some(status.state.as_ref()?.terminated.as_ref()?.exit_code)
}

/// Why a Job has succeeded before all of its indexes have, if it has.
pub(super) fn success(policy: Option<&SuccessPolicy>, completions: i32, succeeded: &Indexes) -> Option<String> {
    let rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default();
    if succeeded.is_empty() {
        return None;
    }
    let matching = rules.iter().position(|rule| match &rule.succeeded_indexes {
        Some(text) => {
            let required = Indexes::parse(text, completions);
            let contained = required.overlap(succeeded);
            !required.is_empty()
                && (contained == required.total() || rule.succeeded_count.is_some_and(|count| contained >= count))
        }
        None => rule.succeeded_count.is_some_and(|count| succeeded.total() >= count),
    })?;
    Some(format!("Matched rules at index {matching}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: serde_json::Value) -> PodView {
        serde_json::from_value(json!({"metadata": {"namespace": "default", "name": "p"}, "status": status})).unwrap()
    }

    fn exited(container: &str, code: i32) -> PodView {
        pod(
            json!({"phase": "Failed", "containerStatuses": [{"name": container, "state": {"terminated": {"exitCode": code}}}]}),
        )
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy: PodFailurePolicy = serde_json::from_value(json!({"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [2]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}},
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "NotIn", "values": [1, 2, 3]}},
            {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]},
        ]}))
        .unwrap();
        let disrupted = pod(json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}));
        let misconfigured = pod(json!({"phase": "Failed", "conditions": [{"type": "ConfigIssue", "status": "True"}]}));
        let fails = |why: &str| Failure::FailsJob(why.to_owned());
        for (pod, meaning) in [
            (disrupted, Failure::Ignored),
            (exited("main", 1), Failure::Counts),
            (exited("main", 2), Failure::Counts),
            (exited("main", 3), Failure::FailsIndex),
            (
                exited("main", 4),
                fails("Container main for pod default/p failed with exit code 4 matching FailJob rule at index 3"),
            ),
            (exited("other", 4), Failure::Counts),
            (misconfigured, fails("Pod default/p has condition ConfigIssue matching FailJob rule at index 4")),
        ] {
            assert_eq!(failure(Some(&policy), &pod), meaning, "{pod:?}");
        }
        assert_eq!(failure(None, &exited("main", 4)), Failure::Counts);
    }

    #[test]
    fn success_needs_the_indexes_or_the_count_of_a_rule() {
        for (rules, succeeded, met) in [
            (json!([{"succeededIndexes": "0-2"}]), "0-2", Some("Matched rules at index 0")),
            (json!([{"succeededIndexes": "0-2"}]), "0,1,5", None),
            (json!([{"succeededIndexes": "0-4", "succeededCount": 2}]), "3,4", Some("Matched rules at index 0")),
            (json!([{"succeededIndexes": "9"}, {"succeededCount": 2}]), "0,7", Some("Matched rules at index 1")),
            (json!([{"succeededCount": 1}]), "", None),
        ] {
            let policy: SuccessPolicy = serde_json::from_value(json!({"rules": rules})).unwrap();
            let said = success(Some(&policy), 10, &Indexes::parse(succeeded, 10));
            assert_eq!(said.as_deref(), met, "{rules} {succeeded}");
        }
    }
}
