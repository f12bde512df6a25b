//! The pod condition that reports which SidecarSets cannot be updated in place.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::go_time;
use crate::names;

/// The message of the condition [`names::UPGRADABLE_CONDITION`]: for each SidecarSet whether its latest revision can be reached in
/// place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upgradable {
    by_set: BTreeMap<String, Value>,
}

impl Upgradable {
    /// Reads the message. One that cannot be read is the same as none.
    pub fn parse(message: &str) -> Upgradable {
        Upgradable { by_set: serde_json::from_str(message).unwrap_or_default() }
    }

    /// What is reported of a set.
    pub fn get(&self, set: &str) -> Option<bool> {
        self.by_set.get(set)?.as_bool()
    }

    /// Reports whether a set can be updated in place.
    pub fn set(&mut self, set: &str, is_upgradable: bool) {
        self.by_set.insert(set.to_owned(), json!(is_upgradable));
    }

    /// The condition with this message; `before` is the condition that the pod has.
    pub fn condition(&self, before: Option<&Value>, now: Timestamp) -> Value {
        let (status, reason) = if self.by_set.values().any(|value| *value == false) {
            ("False", "UpdateImmutableField")
        } else {
            ("True", "AllSidecarsetUpgradable")
        };
        let unchanged = before.filter(|before| before["status"] == status);
        let since = unchanged.and_then(|before| before.get("lastTransitionTime").filter(|time| time.is_string()));
        json!({
            "type": names::UPGRADABLE_CONDITION,
            "status": status,
            "lastProbeTime": null,
            "lastTransitionTime": since.cloned().unwrap_or_else(|| json!(go_time(now))),
            "reason": reason,
            "message": self.to_string(),
        })
    }
}

/// The text of the message.
impl fmt::Display for Upgradable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.by_set).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_true_when_all_sets_are_upgradable() {
        let mut upgradable = Upgradable::parse(r#"{"logs":true}"#);
        upgradable.set("mesh", false);
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = upgradable.condition(None, at(0));
        insta::assert_snapshot!(first, @r#"{"type":"SidecarSetUpgradable","status":"False","lastProbeTime":null,"lastTransitionTime":"1970-01-01T00:00:00Z","reason":"UpdateImmutableField","message":"{\"logs\":true,\"mesh\":false}"}"#);
        assert_eq!(upgradable.condition(Some(&first), at(5)), first, "the time changes only with the status");
        upgradable.set("mesh", true);
        let second = upgradable.condition(Some(&first), at(5));
        assert_eq!((&second["status"], &second["reason"]), (&json!("True"), &json!("AllSidecarsetUpgradable")));
        assert_eq!(second["lastTransitionTime"], "1970-01-01T00:00:05Z");
        assert_eq!(Upgradable::parse("nonsense"), Upgradable::default());
    }
}
