//! What goes into one request: the keys of one object, or of one subresource of it.

use serde_json::{Map, Value, json};

use crate::config::{Key, Target};
use crate::marker::condition;
use crate::update::RESULTS;

/// The keys that one request can write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Metadata,
    Conditions,
    /// With whether it is the status.
    Target(Target, bool),
}

/// An object that is written to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Pod,
    Target(Target),
}

pub(super) const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(super) const JSON: &str = "application/json-patch+json";

impl Group {
    pub(super) fn object(&self) -> Object {
        match self {
            Group::Metadata | Group::Conditions => Object::Pod,
            Group::Target(target, _) => Object::Target(target.clone()),
        }
    }

    /// Returns the path of the URL, for this path of the pod.
    pub(super) fn path(&self, pod: String) -> String {
        match self {
            Group::Metadata => pod,
            Group::Conditions => format!("{pod}/status"),
            Group::Target(target, status) => target.path(status.then_some("status")),
        }
    }

    /// Returns the media type and the patch that sets these values. `since` is when a condition got its status.
    pub(super) fn patch(
        &self,
        sets: &[(Key, Option<Value>)],
        since: impl Fn(&str, &Value) -> String,
    ) -> (&'static str, Value) {
        let mut metadata = json!({});
        let (mut conditions, mut values) = (Vec::new(), Vec::new());
        for (key, value) in sets {
            match (key, value.clone()) {
                (Key::Annotation(name), value) => metadata["annotations"][name] = value.unwrap_or_default(),
                (Key::Label(name), value) => metadata["labels"][name] = value.unwrap_or_default(),
                (Key::Condition(name), Some(mut value)) => {
                    value["lastTransitionTime"] = since(name, &value).into();
                    conditions.push(value);
                }
                (Key::Field(_, pointer), Some(value)) => values.push((pointer.as_str(), value)),
                (Key::Condition(_) | Key::Field(..), None) => {}
            }
        }
        match self {
            Group::Metadata => (MERGE, json!({"metadata": metadata})),
            Group::Conditions => (STRATEGIC, json!({"status": {"conditions": conditions}})),
            Group::Target(..) => fields(values),
        }
    }
}

impl Key {
    pub(super) fn group(&self) -> Group {
        match self {
            Key::Annotation(_) | Key::Label(_) => Group::Metadata,
            Key::Condition(_) => Group::Conditions,
            Key::Field(target, pointer) => Group::Target(target.clone(), pointer.starts_with("/status/")),
        }
    }

    /// Whether the object shows that another client has changed it. The manager removes results of updates when there are too many.
    pub(super) fn is_comparable(&self) -> bool {
        match self {
            Key::Field(target, pointer) => target.name != RESULTS && !pointer.split('/').any(|part| part == "-"),
            _ => true,
        }
    }

    /// Its value in an object, in the form in which it is written.
    pub(super) fn value_in(&self, object: &Value) -> Option<Value> {
        let metadata = |field: &str, key: &str| object["metadata"][field].get(key).cloned();
        match self {
            Key::Annotation(key) => metadata("annotations", key),
            Key::Label(key) => metadata("labels", key),
            Key::Condition(name) => {
                let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
                let found = conditions.find(|condition| condition["type"] == name.as_str())?;
                let text = |field: &str| found[field].as_str().unwrap_or_default();
                Some(condition(name, text("status"), text("reason"), text("message")))
            }
            Key::Field(_, pointer) => object.pointer(pointer).cloned(),
        }
    }

    /// Returns what it is, for people.
    pub(super) fn subject(&self) -> String {
        match self {
            Key::Annotation(name) => format!("annotation {name}"),
            Key::Label(name) => format!("label {name}"),
            Key::Condition(name) => format!("condition {name}"),
            Key::Field(_, pointer) => pointer.clone(),
        }
    }
}

/// A merge patch creates what is missing on the way; elements of lists need a JSON patch.
fn fields(values: Vec<(&str, Value)>) -> (&'static str, Value) {
    let indexed = |pointer: &str| pointer.split('/').any(|part| part == "-" || part.parse::<usize>().is_ok());
    if values.iter().any(|(pointer, _)| indexed(pointer)) {
        let operations = values.into_iter().map(|(pointer, value)| {
            let operation = if pointer.ends_with("/-") { "add" } else { "replace" };
            json!({"op": operation, "path": pointer, "value": value})
        });
        return (JSON, Value::Array(operations.collect()));
    }
    let mut body = Value::Object(Map::new());
    for (pointer, value) in values {
        let mut at = &mut body;
        for part in pointer.split('/').skip(1) {
            let name = part.replace("~1", "/").replace("~0", "~");
            if !at.is_object() {
                *at = Value::Object(Map::new());
            }
            at = &mut at[name];
        }
        *at = value;
    }
    (MERGE, body)
}
