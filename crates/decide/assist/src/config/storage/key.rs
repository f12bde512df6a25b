//! What results are written to, and what the agent must be allowed for it.

use super::target::Target;

/// One value of an object in the API that a storage writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// An annotation of the pod.
    Annotation(String),
    /// A label of the pod.
    Label(String),
    /// A condition of the pod, by its type.
    Condition(String),
    /// A value of another object, by its JSON Pointer.
    Field(Target, String),
}

impl Key {
    /// Returns the parameter of the agent's admission policy that allows writes of this key, and the word to list there. Returns `None` if the policy
    /// needs no parameter: it allows targets with the name of the pod or of its owner.
    pub(crate) fn parameter(&self) -> Option<(&'static str, &str)> {
        match self {
            Key::Annotation(key) => Some(("annotations", key)),
            Key::Label(key) => Some(("labels", key)),
            Key::Condition(name) => Some(("conditions", name)),
            Key::Field(target, _) => Some(("targets", target.name.as_str())).filter(|(_, name)| !name.contains("${")),
        }
    }

    /// Returns the API group and the resources that the agent's account must be allowed to patch.
    pub fn right(&self) -> (&str, Vec<String>) {
        match self {
            Key::Annotation(_) | Key::Label(_) => ("", vec!["pods".to_owned()]),
            Key::Condition(_) => ("", vec!["pods/status".to_owned()]),
            Key::Field(Target { group, resource, .. }, _) => {
                (group, vec![resource.clone(), format!("{resource}/status")])
            }
        }
    }
}

/// Whether a label can have this value.
pub(crate) fn label_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && edge(text.chars().next())
        && edge(text.chars().next_back())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_says_what_it_has_to_be_allowed() {
        let target = |name: &str| Target {
            group: "game.kruise.io".into(),
            resource: "gameservers".into(),
            name: name.into(),
            ..Target::default()
        };
        let servers: &[&str] = &["gameservers", "gameservers/status"];
        let table = [
            (Key::Annotation("a".into()), Some(("annotations", "a")), "", &["pods"][..]),
            (Key::Label("a".into()), Some(("labels", "a")), "", &["pods"]),
            (Key::Condition("a".into()), Some(("conditions", "a")), "", &["pods/status"]),
            (Key::Field(target("lobby"), "/spec/a".into()), Some(("targets", "lobby")), "game.kruise.io", servers),
            (Key::Field(target("${SELF:POD_NAME}"), "/spec/a".into()), None, "game.kruise.io", servers),
        ];
        for (key, parameter, group, resources) in table {
            assert_eq!(key.parameter(), parameter, "{key:?}");
            let (of, found) = key.right();
            assert_eq!((of, found.iter().map(String::as_str).collect::<Vec<_>>().as_slice()), (group, resources));
        }
    }
}
