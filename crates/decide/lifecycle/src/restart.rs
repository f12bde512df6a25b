//! Whether a container that has ended is run again.

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule};

use crate::facts::{Attempt, Why};
use crate::role::Role;
use crate::view::{Latest, Subject, View};

/// Whether the container is started again after it exited with `code`: its own rules first, then its own policy, then
/// the pod's.
pub(crate) fn by_policy(container: &Container, pod_policy: Option<&str>, code: i32) -> bool {
    let own = container.restart_policy.as_deref();
    if own.is_some() && matching_rule(container, code).is_some_and(|rule| rule.action == "Restart") {
        return true;
    }
    match own.filter(|policy| matches!(*policy, "Always" | "OnFailure" | "Never")).or(pod_policy) {
        Some("Never") => false,
        Some("OnFailure") => code != 0,
        _ => true,
    }
}

/// Whether the rules of a container restart the whole pod after it exited with `code`, on kubelets that do so (1.36; behind a gate in 1.35).
pub(crate) fn restarts_all(view: &View<'_>, code: i32) -> bool {
    let rule = view.spec.filter(|spec| spec.restart_policy.is_some()).and_then(|spec| matching_rule(spec, code));
    rule.is_some_and(|rule| rule.action == "RestartAllContainers")
}

/// The first rule that knows the exit code, whatever it asks for.
fn matching_rule(container: &Container, code: i32) -> Option<&ContainerRestartRule> {
    container.restart_policy_rules.iter().flatten().find(|rule| {
        rule.exit_codes.as_ref().is_some_and(|exit_codes| {
            let listed = exit_codes.values.iter().flatten().any(|value| *value == code);
            match exit_codes.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                _ => false,
            }
        })
    })
}

/// Whether a container that is stopped for `why` is meant to run again, before its exit code is known. A rule on exit
/// codes has no say.
pub(crate) fn intended(view: &View<'_>, subject: &Subject<'_>, why: &Why) -> bool {
    match why {
        Why::DefinitionChanged | Why::Resize | Why::PostStart { .. } => true,
        Why::Probe(_) => policy(view, subject) != Some("Never"),
        Why::Pod => false,
    }
}

/// Whether the ended attempt is followed by another one, as long as the pod lives.
pub(crate) fn follows(view: &View<'_>, subject: &Subject<'_>, attempt: &Attempt, code: i32) -> bool {
    match (attempt.stopping.as_ref().map(|stopping| &stopping.why), view.role) {
        (_, Role::Ephemeral) => false,
        // There is nothing left that it could help with.
        (_, Role::MarkedSidecar) if subject.work_done_at.is_some() => false,
        (Some(why @ (Why::DefinitionChanged | Why::Resize | Why::Probe(_))), _) => intended(view, subject, why),
        (_, Role::Init) if code == 0 => false,
        _ => view.spec.is_some_and(|spec| by_policy(spec, pod_policy(subject), code)),
    }
}

/// Whether the sandbox is gone of a pod that may not start over: one that is never restarted, with a regular container that has run.
pub(crate) fn is_forbidden(subject: &Subject<'_>) -> bool {
    let goes_on = |view: &View<'_>| match view.latest() {
        Latest::Exited(attempt, code) => follows(view, subject, attempt, code),
        Latest::Starting | Latest::Running(_) => true,
        Latest::Never => false,
    };
    let is_lost = |view: &View<'_>| view.current().is_some_and(|attempt| attempt.in_earlier_sandbox);
    pod_policy(subject) == Some("Never") && subject.regular().any(is_lost) && !subject.regular().any(goes_on)
}

pub(crate) fn pod_policy<'a>(subject: &Subject<'a>) -> Option<&'a str> {
    subject.spec()?.restart_policy.as_deref()
}

fn policy<'a>(view: &View<'a>, subject: &Subject<'a>) -> Option<&'a str> {
    view.spec.and_then(|spec| spec.restart_policy.as_deref()).or_else(|| pod_policy(subject))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_come_before_the_containers_policy_and_that_before_the_pods() {
        let rules = json!([
            {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}},
            {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [43, 0]}},
            {"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0, 1, 43]}},
        ]);
        // The container's policy, whether it has the rules, the pod's policy; whether 0, 1, 42, 43 and 99 restart it.
        let table = [
            (None, false, "Always", [true, true, true, true, true]),
            (None, false, "OnFailure", [false, true, true, true, true]),
            (None, false, "Never", [false; 5]),
            (Some("Always"), false, "Never", [true; 5]),
            (Some("OnFailure"), false, "Never", [false, true, true, true, true]),
            (Some("Never"), false, "Always", [false; 5]),
            (Some("Never"), true, "Always", [false, false, true, false, true]),
            (Some("OnFailure"), true, "Never", [false, true, true, true, true]),
            // Rules without a policy beside them do not count.
            (None, true, "Never", [false; 5]),
        ];
        for (own, with_rules, pod, expected) in table {
            let mut container = json!({"name": "main"});
            if let Some(own) = own {
                container["restartPolicy"] = json!(own);
            }
            if with_rules {
                container["restartPolicyRules"] = rules.clone();
            }
            let container: Container = serde_json::from_value(container).unwrap();
            let answers = [0, 1, 42, 43, 99].map(|code| by_policy(&container, Some(pod), code));
            assert_eq!(answers, expected, "container {own:?}, rules {with_rules}, pod {pod}");
        }
    }
}
