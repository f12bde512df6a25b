//! What a state means for the pod and for a target.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::config::{HttpMetric, InKube, Key, Policy, Storage, label_value};
use crate::state::{FAILED, State, UNKNOWN};
use crate::update::UpdateOutcome;

/// All that one source of results wants written: complete, so that it does not matter what was written before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Desired {
    /// Values in the API. `None` removes a label or an annotation; fields of targets are never removed.
    pub values: BTreeMap<Key, Option<Value>>,
    pub gauge: Option<(String, f64)>,
    /// What could not be written, and why.
    pub problems: Vec<String>,
}

impl Desired {
    /// Returns what wants this value written and nothing else.
    pub fn one(key: Key, value: Value) -> Desired {
        Desired { values: [(key, Some(value))].into(), ..Desired::default() }
    }
}

/// A result, in the form in which each kind of key has it.
struct Report<'a> {
    state: &'a State,
    /// The status and the reason of a condition.
    condition: (&'a str, &'a str),
    /// The text and the value of a label; `None` if the policies choose them.
    texts: Option<(&'a str, &'a str)>,
}

/// What is written while a source is in this state. Keys of other states' policies are removed.
///
/// ```
/// use pillion_assist::{InKube, Key, Policy, State, Storage, desired};
///
/// let key = Key::Label("idle".into());
/// let idle = Policy { state: "idle".into(), values: [(key.clone(), "true".into())].into() };
/// let storage = Storage::InKube(InKube { policies: vec![idle], ..InKube::default() });
/// assert_eq!(desired(&storage, &State::succeeded("idle")).values[&key], Some("true".into()));
/// assert_eq!(desired(&storage, &State::failed("refused")).values[&key], None);
/// ```
pub fn desired(storage: &Storage, state: &State) -> Desired {
    let condition = match state {
        State::Succeeded(_) => ("True", "ProbeSucceeded"),
        State::Failed(_) => ("False", "ProbeFailed"),
        State::Unknown(_) => ("Unknown", "ProbeImpossible"),
    };
    written(storage, &Report { state, condition, texts: None })
}

/// What is written once an update has come to something: the sentence itself, also that of a failure.
pub fn desired_of_update(storage: &Storage, outcome: &UpdateOutcome) -> Desired {
    let (state, label) = (outcome.state(), outcome.label());
    let condition = if outcome.failure.is_none() { ("True", "UpdateSucceeded") } else { ("False", "UpdateFailed") };
    written(storage, &Report { state: &state, condition, texts: Some((state.message(), &label)) })
}

fn written(storage: &Storage, report: &Report<'_>) -> Desired {
    match storage {
        Storage::Nowhere => Desired::default(),
        Storage::InKube(kube) => kube.written(report),
        Storage::HttpMetric(metric) => metric.written(report.state),
    }
}

impl InKube {
    /// Returns what the policies say of the state, and the result itself.
    fn written(&self, report: &Report<'_>) -> Desired {
        let Report { state, condition: (status, reason), texts } = report;
        let policy = policy(&self.policies, state);
        let (text, label) = texts.unwrap_or_else(|| {
            let text = text(&self.policies, policy, state);
            (text, text)
        });
        let mut desired = Desired::default();
        let others = self.policies.iter().flat_map(|policy| policy.values.keys());
        desired.values.extend(others.filter(|key| !matches!(key, Key::Field(..))).map(|key| (key.clone(), None)));
        let own = policy.iter().flat_map(|policy| &policy.values);
        desired.values.extend(own.map(|(key, value)| (key.clone(), Some(value.clone()))));
        for key in &self.results {
            let value = match key {
                // The policy of the state counts more.
                Key::Field(..) if desired.values.contains_key(key) => continue,
                Key::Annotation(_) | Key::Field(..) => Some(text.into()),
                Key::Condition(name) => Some(condition(name, status, reason, state.message())),
                Key::Label(_) if label_value(label) => Some(label.into()),
                Key::Label(name) => {
                    desired.problems.push(format!(
                        "{label:?} is not a value that the label {name} can have: at most 63 letters, digits, `-`, `_` and `.`"
                    ));
                    None
                }
            };
            desired.values.insert(key.clone(), value);
        }
        desired
    }
}

impl HttpMetric {
    /// Returns the gauge. A result that is not a number removes it.
    fn written(&self, state: &State) -> Desired {
        let HttpMetric { name } = self;
        let mut desired = Desired::default();
        if let State::Succeeded(text) = state {
            match text.parse() {
                Ok(value) => desired.gauge = Some((name.clone(), value)),
                Err(_) => desired.problems.push(format!("{text:?} is not a number, as the metric {name} needs")),
            }
        }
        desired
    }
}

/// Returns the state in the words of the policies, or in those of the proposal if there are none.
fn text<'a>(policies: &'a [Policy], policy: Option<&'a Policy>, state: &'a State) -> &'a str {
    match (state, policy) {
        (State::Succeeded(text), _) => text,
        (State::Failed(_), Some(policy)) => &policy.state,
        (State::Failed(_), None) if policies.iter().any(|policy| policy.state == "Succeeded") => FAILED,
        (State::Failed(_) | State::Unknown(_), _) => UNKNOWN,
    }
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

/// Returns a condition of the pod, without its times.
pub fn condition(name: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": name, "status": status, "reason": reason, "message": message})
}

/// The reason of a condition that nothing reports any more.
pub const REMOVED: &str = "PluginRemoved";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Fields};

    fn kube() -> InKube {
        let fields = Fields::from([("POD_NAME".into(), "web-1".into()), ("POD_NAMESPACE".into(), "games".into())]);
        let config = Config::parse(include_str!("config/samples/proposal-3.yaml"), Some(&fields)).unwrap();
        let Some(Storage::InKube(kube)) = config.storages().next() else { panic!() };
        kube.clone()
    }

    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

    fn annotation(desired: &Desired, name: &str) -> Option<Value> {
        desired.values[&Key::Annotation(name.into())].clone()
    }

    fn label(desired: &Desired, name: &str) -> Option<Value> {
        desired.values[&Key::Label(name.into())].clone()
    }

    /// The pointer, the target's name and the value of the one field of a target.
    fn field(desired: &Desired) -> (&str, &str, &Value) {
        let mut fields = desired.values.iter().filter_map(|(key, value)| match (key, value) {
            (Key::Field(target, pointer), Some(value)) => Some((pointer.as_str(), target.name.as_str(), value)),
            _ => None,
        });
        fields.next().unwrap()
    }

    #[test]
    fn policies_of_the_proposal_mark_the_pod() {
        let table = [
            (State::succeeded("idle"), "idle", Some("-10"), Some("true")),
            (State::succeeded("allocated"), "allocated", Some("10"), Some("false")),
            (State::failed("connection refused"), "unknown", Some("5"), Some("false")),
            (State::succeeded("draining"), "draining", None, None),
        ];
        for (state, text, cost, idle) in table {
            let desired = desired(&Storage::InKube(kube()), &state);
            assert_eq!(annotation(&desired, "http_probe"), Some(text.into()), "{state:?}");
            assert_eq!(annotation(&desired, COST), cost.map(Value::from), "{state:?}");
            assert_eq!(label(&desired, "gameserver-idle"), idle.map(Value::from), "{state:?}");
            assert_eq!(field(&desired), ("/spec/opsState", "web-1", &text.into()));
        }
    }

    #[test]
    fn a_target_without_policies_gets_the_result_itself() {
        let storage = Storage::InKube(InKube { policies: Vec::new(), ..kube() });
        assert_eq!(field(&desired(&storage, &State::succeeded("3"))).2, "3");
    }

    #[test]
    fn a_policy_for_a_field_counts_more_than_the_result() {
        let mut kube = kube();
        let place = kube.results.iter().find(|key| matches!(key, Key::Field(..))).unwrap().clone();
        kube.policies[0].values.insert(place, "WaitToBeDeleted".into());
        let storage = Storage::InKube(kube);
        assert_eq!(field(&desired(&storage, &State::succeeded("idle"))).2, "WaitToBeDeleted");
        assert_eq!(field(&desired(&storage, &State::succeeded("allocated"))).2, "allocated");
    }

    #[test]
    fn a_label_that_cannot_have_the_result_is_removed_and_reported() {
        let storage = Storage::from(Key::Label("state".into()));
        assert_eq!(label(&desired(&storage, &State::succeeded("idle")), "state"), Some("idle".into()));
        let refused = desired(&storage, &State::succeeded("<html>"));
        assert_eq!((label(&refused, "state"), refused.problems.len()), (None, 1));
    }

    #[test]
    fn conditions_say_true_false_or_unknown() {
        let key = Key::Condition("game/idle".into());
        let storage = Storage::from(key.clone());
        let status = |state: &State| desired(&storage, state).values[&key].as_ref().unwrap()["status"].clone();
        assert_eq!(status(&State::succeeded("idle")), "True");
        assert_eq!(status(&State::failed("x")), "False");
        assert_eq!(status(&State::Unknown("exec in another container".into())), "Unknown");
    }

    #[test]
    fn an_update_that_failed_is_a_failure_and_keeps_its_sentence() {
        let policy = |state: &str, value: &str| Policy {
            state: state.into(),
            values: [(Key::Annotation("updated".into()), value.into())].into(),
        };
        let condition_key = Key::Condition("game/updated".into());
        let kube = InKube {
            results: vec![Key::Annotation("result".into()), Key::Label("update".into()), condition_key.clone()],
            policies: vec![policy("Succeeded", "Succeeded"), policy("Failed", "Failed")],
        };
        let rows = [
            ("v1: Update success", "True", "UpdateSucceeded", "Succeeded", "v1-succeeded"),
            ("v2: Failed to download the file: http://x answered 404", "False", "UpdateFailed", "Failed", "v2-failed"),
        ];
        for (sentence, status, reason, policy, version) in rows {
            let desired = desired_of_update(&Storage::InKube(kube.clone()), &UpdateOutcome::read(sentence));
            let said = condition("game/updated", status, reason, sentence);
            assert_eq!(desired.values[&condition_key], Some(said));
            assert_eq!(annotation(&desired, "result"), Some(sentence.into()));
            assert_eq!(annotation(&desired, "updated"), Some(policy.into()));
            assert_eq!((label(&desired, "update"), desired.problems.len()), (Some(version.into()), 0));
        }
        let unknown = Storage::InKube(InKube { policies: vec![policy("unknown", "x")], ..kube });
        let desired = desired_of_update(&unknown, &UpdateOutcome::read("v2: Failed"));
        assert_eq!(annotation(&desired, "updated"), Some("x".into()), "the proposal's word for a failure");
    }

    #[test]
    fn numbers_become_gauges() {
        let storage = Storage::HttpMetric(HttpMetric { name: "players".into() });
        assert_eq!(desired(&storage, &State::succeeded("3")).gauge, Some(("players".into(), 3.0)));
        assert_eq!(desired(&storage, &State::succeeded("many")).problems.len(), 1);
        assert_eq!(desired(&storage, &State::failed("3")), Desired::default());
    }
}
