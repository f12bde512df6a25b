//! `type: InKube`: results go to the pod and to other objects.

use std::collections::BTreeMap;

use serde_json::Value;

use super::key::{Key, label_value};
use super::target::Target;
use crate::config::reader::Field;

/// What is written to objects in the API.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InKube {
    /// What gets the result itself.
    pub results: Vec<Key>,
    /// What each state means.
    pub policies: Vec<Policy>,
}

/// What is written while a probe answers with a state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The state, compared exactly; `unknown` is a probe that failed.
    pub state: String,
    /// The values: strings for labels and annotations.
    pub values: BTreeMap<Key, Value>,
}

const KNOWN: &[&str] = &[
    "annotationKey",
    "labelKey",
    "conditionType",
    "podConditionType",
    "target",
    "jsonPath",
    "markerPolices",
    "markerPolicies",
    "markerPolicy",
];

/// Types of conditions that belong to the kubelet and the scheduler.
const NOT_OURS: &[&str] = &[
    "PodScheduled",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodResizeInProgress",
    "PodResizePending",
    "PodReadyToStartContainers",
    "AllContainersRestarting",
    "DisruptionTarget",
];

impl InKube {
    pub(super) fn read(field: &Field<'_>) -> InKube {
        if !field.mapping(KNOWN) {
            return InKube::default();
        }
        let policies = field.get(&["markerPolices", "markerPolicies", "markerPolicy"]);
        let policies = policies.map(|list| list.items()).unwrap_or_default();
        let is_game_server = policies.iter().any(|policy| policy.get(&["gameServerOpsState"]).is_some());
        let named = field.get(&["target"]).map(|target| Target::read(&target));
        let target = named.or_else(|| is_game_server.then(|| Target::game_server(field)));
        let place = |path: &Field<'_>| Key::Field(target.clone().unwrap_or_default(), pointer(path));
        let results = [
            field.get(&["annotationKey"]).map(|key| Key::Annotation(key_of(&key))),
            field.get(&["labelKey"]).map(|key| Key::Label(key_of(&key))),
            field.get(&["conditionType", "podConditionType"]).map(|condition| Key::Condition(condition_of(&condition))),
            field.get(&["jsonPath"]).map(|path| place(&path)),
        ];
        let storage = InKube {
            results: results.into_iter().flatten().collect(),
            policies: policies.iter().map(|policy| Policy::read(policy, target.as_ref())).collect(),
        };
        match (&target, storage.keys().any(|key| matches!(key, Key::Field(..)))) {
            (None, true) => field.wrong("`jsonPath` needs a `target`: the object that it leads into"),
            (Some(_), false) => field.wrong("`target` needs a `jsonPath`: where in the object the result is written"),
            _ => {}
        }
        storage
    }

    /// Returns everything that is written in any state.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.results.iter().chain(self.policies.iter().flat_map(|policy| policy.values.keys()))
    }
}

impl Policy {
    /// A policy without a target cannot name values of one, which `InKube::read` reports.
    fn read(field: &Field<'_>, target: Option<&Target>) -> Policy {
        let mut policy = Policy::default();
        if !field.mapping(&["state", "labels", "annotations", "gameServerOpsState", "jsonPathConfigs"]) {
            return policy;
        }
        match field.get(&["state"]) {
            Some(state) => policy.state = state.word(),
            None => field.wrong("a policy needs a `state`"),
        }
        for (key, value) in field.get(&["labels"]).map(|labels| labels.entries()).unwrap_or_default() {
            let text = value.text();
            if !label_value(&text) {
                value.wrong(format!("{text:?} of {key} is not a value that a label can have"));
            }
            policy.values.insert(Key::Label(key.to_owned()), text.into());
        }
        for (key, value) in field.get(&["annotations"]).map(|map| map.entries()).unwrap_or_default() {
            policy.values.insert(Key::Annotation(key.to_owned()), value.text().into());
        }
        let target = target.cloned().unwrap_or_default();
        for config in field.get(&["jsonPathConfigs"]).map(|list| list.items()).unwrap_or_default() {
            config.mapping(&["jsonPath", "fieldType", "value"]);
            match (config.get(&["jsonPath"]), config.get(&["value"])) {
                (Some(path), Some(value)) => {
                    policy.values.insert(Key::Field(target.clone(), pointer(&path)), value.value().clone());
                }
                _ => config.wrong("this needs a `jsonPath` and a `value`"),
            }
        }
        if let Some(state) = field.get(&["gameServerOpsState"]) {
            policy.values.insert(Key::Field(target, "/spec/opsState".to_owned()), state.word().into());
        }
        policy
    }
}

/// The type of a condition that the agent may have for itself.
fn condition_of(field: &Field<'_>) -> String {
    let name = key_of(field);
    if NOT_OURS.contains(&name.as_str()) {
        field.wrong(format!("the condition {name} belongs to Kubernetes; choose a name of your own"));
    }
    name
}

fn pointer(field: &Field<'_>) -> String {
    let text = field.word();
    if !text.starts_with('/') || text.len() == 1 {
        field.wrong(format!("{text:?} is not a JSON Pointer; write it as /spec/opsState"));
    }
    text
}

/// A key of a label, an annotation or a condition.
fn key_of(field: &Field<'_>) -> String {
    let text = field.word();
    let name = text.rsplit_once('/').map_or(text.as_str(), |(_, name)| name);
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_./${}:".contains(c);
    if name.is_empty() || text.len() > 317 || text.matches('/').count() > 1 || !text.chars().all(legal) {
        field.wrong(format!("{text:?} is not a key: [prefix/]name, with letters, digits, `-`, `_` and `.`"));
    }
    text
}
