//! What a story knows of one object.

use std::collections::BTreeMap;

use serde_json::Value;

/// An object, as watches reported it.
#[derive(Clone, Default)]
pub(super) struct Record {
    pub(super) kind: &'static str,
    /// Its last state.
    pub(super) object: Value,
    /// Its phases, without repetitions.
    pub(super) phases: Vec<String>,
    /// The statuses of each container of a pod, without repetitions.
    pub(super) container_states: BTreeMap<String, Vec<String>>,
    pub(super) is_gone: bool,
}

impl Record {
    /// A field of it as text, by its JSON pointer.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}
