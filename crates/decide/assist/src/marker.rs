//! What a state means for the pod and for a target.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::config::{Policy, Storage, Target, label_value};
use crate::state::{FAILED, State, UNKNOWN};
use crate::update::UpdateOutcome;

/// All that one source of results wants written: complete, so that it does not matter what was written before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// Annotations of the pod; `None` is removed.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Labels of the pod; `None` is removed.
    pub labels: BTreeMap<String, Option<String>>,
    /// A condition of the pod.
    pub condition: Option<Condition>,
    /// Values in another object, by JSON Pointer.
    pub fields: Option<(Target, BTreeMap<String, Value>)>,
    /// A gauge.
    pub gauge: Option<(String, f64)>,
    /// What could not be written, and why.
    pub problems: Vec<String>,
}

/// A condition of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub name: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A word in camel case.
    pub reason: String,
    /// A sentence.
    pub message: String,
}

/// What is written while a source is in this state. Keys of other states' policies are removed.
///
/// ```
/// use pillion_assist::{Policy, State, Storage, desired};
///
/// let idle = Policy { state: "idle".into(), labels: [("idle".to_owned(), "true".to_owned())].into(), ..Policy::default() };
/// let storage = Storage { policies: vec![idle], ..Storage::default() };
/// assert_eq!(desired(&storage, &State::succeeded("idle")).labels["idle"].as_deref(), Some("true"));
/// assert_eq!(desired(&storage, &State::failed("refused")).labels["idle"], None);
/// ```
pub fn desired(storage: &Storage, state: &State) -> Desired {
    let text = match (state, policy(&storage.policies, state)) {
        (State::Succeeded(text), _) => text.as_str(),
        // The vocabulary is that of the policies, of the proposal without any.
        (State::Failed(_), Some(policy)) => policy.state.as_str(),
        (State::Failed(_), None) if storage.policies.iter().any(|policy| policy.state == "Succeeded") => FAILED,
        (State::Failed(_) | State::Unknown(_), _) => UNKNOWN,
    };
    let condition = storage.condition_type.as_ref().map(|name| condition(name, state));
    Desired { condition, ..written(storage, state, text, text) }
}

/// What is written once an update has come to something: the sentence itself, also that of a failure.
pub fn desired_of_update(storage: &Storage, outcome: &UpdateOutcome) -> Desired {
    let state = outcome.state();
    let (status, reason) =
        if outcome.failure.is_none() { ("True", "UpdateSucceeded") } else { ("False", "UpdateFailed") };
    let condition = storage.condition_type.as_ref().map(|name| Condition {
        name: name.clone(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: state.message().to_owned(),
    });
    Desired { condition, ..written(storage, &state, state.message(), &outcome.label()) }
}

/// Everything but the condition: what the policies say of the state, and the result as a text.
fn written(storage: &Storage, state: &State, text: &str, label: &str) -> Desired {
    let mut desired = Desired::default();
    let policy = policy(&storage.policies, state);
    for other in &storage.policies {
        desired.annotations.extend(other.annotations.keys().map(|key| (key.clone(), None)));
        desired.labels.extend(other.labels.keys().map(|key| (key.clone(), None)));
    }
    if let Some(policy) = policy {
        let set = |values: &BTreeMap<String, String>| -> Vec<_> {
            values.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect()
        };
        desired.annotations.extend(set(&policy.annotations));
        desired.labels.extend(set(&policy.labels));
    }
    if let Some(key) = &storage.annotation_key {
        desired.annotations.insert(key.clone(), Some(text.to_owned()));
    }
    if let Some(key) = &storage.label_key {
        let value = label_value(label).then(|| label.to_owned());
        if value.is_none() {
            desired.problems.push(format!(
                "{label:?} is not a value that the label {key} can have: at most 63 letters, digits, `-`, `_` and `.`"
            ));
        }
        desired.labels.insert(key.clone(), value);
    }
    if let Some(target) = &storage.target {
        let mut values: BTreeMap<String, Value> = policy.map(|policy| policy.values.clone()).unwrap_or_default();
        if let Some(path) = &storage.json_path {
            values.entry(path.clone()).or_insert_with(|| Value::String(text.to_owned()));
        }
        desired.fields = Some((target.clone(), values));
    }
    if let Some(name) = &storage.metric {
        match (state, text.parse()) {
            (State::Succeeded(_), Ok(value)) => desired.gauge = Some((name.clone(), value)),
            (State::Succeeded(_), Err(_)) => {
                desired.problems.push(format!("{text:?} is not a number, as the metric {name} needs"));
            }
            _ => {}
        }
    }
    desired
}

/// The policy of a state. A failed probe is `unknown`, or `Failed` as in a PodProbeMarker; a success without a policy of its own is
/// `Succeeded`.
fn policy<'a>(policies: &'a [Policy], state: &State) -> Option<&'a Policy> {
    let find = |name: &str| policies.iter().find(|policy| policy.state == name);
    let loose = |name: &str| policies.iter().find(|policy| policy.state.eq_ignore_ascii_case(name));
    match state {
        State::Succeeded(text) => find(text).or_else(|| find("Succeeded")),
        State::Failed(_) => find(FAILED).or_else(|| loose(UNKNOWN)),
        State::Unknown(_) => loose(UNKNOWN),
    }
}

/// A condition that reports a state.
pub fn condition(name: &str, state: &State) -> Condition {
    let (status, reason) = match state {
        State::Succeeded(_) => ("True", "ProbeSucceeded"),
        State::Failed(_) => ("False", "ProbeFailed"),
        State::Unknown(_) => ("Unknown", "ProbeImpossible"),
    };
    Condition {
        name: name.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: state.message().to_owned(),
    }
}

/// The reason of a condition that nothing reports any more.
pub const REMOVED: &str = "PluginRemoved";

/// What is left to write of a source that is no longer there: its labels and annotations go, its condition is not known any more.
pub fn retired(last: &Desired) -> Desired {
    Desired {
        annotations: last.annotations.keys().map(|key| (key.clone(), None)).collect(),
        labels: last.labels.keys().map(|key| (key.clone(), None)).collect(),
        condition: last.condition.as_ref().map(|condition| Condition {
            status: "Unknown".to_owned(),
            reason: REMOVED.to_owned(),
            message: "the agent does not probe this any more".to_owned(),
            ..condition.clone()
        }),
        ..Desired::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Fields};

    fn storage() -> Storage {
        let fields = Fields::from([("POD_NAME".into(), "web-1".into()), ("POD_NAMESPACE".into(), "games".into())]);
        let config = Config::parse(include_str!("config/samples/proposal-3.yaml"), Some(&fields)).unwrap();
        config.storages().next().unwrap().clone()
    }

    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

    #[test]
    fn policies_of_the_proposal_mark_the_pod() {
        let table = [
            (State::succeeded("idle"), "idle", Some("-10"), Some("true")),
            (State::succeeded("allocated"), "allocated", Some("10"), Some("false")),
            (State::failed("connection refused"), "unknown", Some("5"), Some("false")),
            (State::succeeded("draining"), "draining", None, None),
        ];
        for (state, text, cost, idle) in table {
            let desired = desired(&storage(), &state);
            assert_eq!(desired.annotations["http_probe"].as_deref(), Some(text), "{state:?}");
            assert_eq!(desired.annotations[COST].as_deref(), cost, "{state:?}");
            assert_eq!(desired.labels["gameserver-idle"].as_deref(), idle, "{state:?}");
            let (target, values) = desired.fields.unwrap();
            assert_eq!((target.name.as_str(), &values["/spec/opsState"]), ("web-1", &Value::String(text.into())));
        }
    }

    #[test]
    fn a_target_without_policies_gets_the_result_itself() {
        let storage = Storage { policies: Vec::new(), ..storage() };
        let (_, values) = desired(&storage, &State::succeeded("3")).fields.unwrap();
        assert_eq!(values["/spec/opsState"], "3");
    }

    #[test]
    fn a_label_that_cannot_have_the_result_is_removed_and_reported() {
        let storage = Storage { label_key: Some("state".into()), ..Storage::default() };
        assert_eq!(desired(&storage, &State::succeeded("idle")).labels["state"].as_deref(), Some("idle"));
        let refused = desired(&storage, &State::succeeded("<html>"));
        assert_eq!((refused.labels["state"].as_deref(), refused.problems.len()), (None, 1));
    }

    #[test]
    fn conditions_say_true_false_or_unknown() {
        let storage = Storage { condition_type: Some("game/idle".into()), ..Storage::default() };
        let status = |state: &State| desired(&storage, state).condition.unwrap().status;
        assert_eq!(status(&State::succeeded("idle")), "True");
        assert_eq!(status(&State::failed("x")), "False");
        assert_eq!(status(&State::Unknown("exec in another container".into())), "Unknown");
    }

    #[test]
    fn an_update_that_failed_is_a_failure_and_keeps_its_sentence() {
        let policy = |state: &str| Policy {
            state: state.into(),
            annotations: [("updated".to_owned(), state.to_owned())].into(),
            ..Policy::default()
        };
        let storage = Storage {
            annotation_key: Some("result".into()),
            label_key: Some("update".into()),
            condition_type: Some("game/updated".into()),
            policies: vec![policy("Succeeded"), policy("Failed")],
            ..Storage::default()
        };
        let rows = [
            ("v1: Update success", "True", "UpdateSucceeded", "Succeeded", "v1-succeeded"),
            ("v2: Failed to download the file: http://x answered 404", "False", "UpdateFailed", "Failed", "v2-failed"),
        ];
        for (sentence, status, reason, policy, label) in rows {
            let desired = desired_of_update(&storage, &UpdateOutcome::read(sentence));
            let condition = desired.condition.unwrap();
            let said = (condition.status.as_str(), condition.reason.as_str(), condition.message.as_str());
            assert_eq!(said, (status, reason, sentence));
            assert_eq!(desired.annotations["result"].as_deref(), Some(sentence));
            assert_eq!(desired.annotations["updated"].as_deref(), Some(policy));
            assert_eq!((desired.labels["update"].as_deref(), desired.problems.len()), (Some(label), 0));
        }
        let unknown = Storage { policies: vec![Policy { state: "unknown".into(), ..policy("x") }], ..storage };
        let desired = desired_of_update(&unknown, &UpdateOutcome::read("v2: Failed"));
        assert_eq!(desired.annotations["updated"].as_deref(), Some("x"), "the proposal's word for a failure");
    }

    #[test]
    fn numbers_become_gauges() {
        let storage = Storage { metric: Some("players".into()), ..Storage::default() };
        assert_eq!(desired(&storage, &State::succeeded("3")).gauge, Some(("players".into(), 3.0)));
        assert_eq!(desired(&storage, &State::succeeded("many")).problems.len(), 1);
    }
}
