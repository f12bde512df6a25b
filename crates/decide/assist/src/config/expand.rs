//! `${SELF:NAME}` in the strings of a configuration.

use std::collections::BTreeMap;

use pillion_yaml::{Document, Mistake, Positions, Step};
use serde_json::Value;

/// What `${SELF:NAME}` stands for: the agent's environment, where the downward API puts the pod's fields.
pub type Fields = BTreeMap<String, String>;

/// Replaces every variable of a document. What is not known is a mistake at its place.
pub(super) fn expand(document: &mut Document, fields: &Fields) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    let before = document.value.clone();
    walk(&mut document.value, &mut Vec::new(), &mut |text, path| {
        if !text.contains("${") {
            return;
        }
        match replace(text, fields) {
            Ok(expanded) => *text = expanded,
            Err(problem) => mistakes.push(Mistake::new(position(&document.positions, &before, path), problem)),
        }
    });
    mistakes
}

#[derive(Clone)]
enum Part {
    Key(String),
    Index(usize),
}

fn position(positions: &Positions, value: &Value, path: &[Part]) -> pillion_yaml::Position {
    positions.find(
        value,
        path.iter().map(|part| match part {
            Part::Key(key) => Step::Key(key),
            Part::Index(index) => Step::Index(*index),
        }),
    )
}

fn walk(value: &mut Value, path: &mut Vec<Part>, change: &mut impl FnMut(&mut String, &[Part])) {
    match value {
        Value::String(text) => change(text, path),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(Part::Index(index));
                walk(item, path, change);
                path.pop();
            }
        }
        Value::Object(object) => {
            for (key, item) in object {
                path.push(Part::Key(key.clone()));
                walk(item, path, change);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The text with something in the place of each variable that is left: outside of a pod nothing is known of them, but what is around them is checked.
pub(super) fn stand_in(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, from)) = rest.split_once("${") {
        let Some((_, after)) = from.split_once('}') else { break };
        result.push_str(before);
        result.push('1');
        rest = after;
    }
    result + rest
}

/// Each variable is replaced where it is; text around it stays. `$${` is a literal `${`.
fn replace(text: &str, fields: &Fields) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            result.push_str(before);
            result.push_str("${");
            rest = &from[2..];
            continue;
        }
        result.push_str(before);
        let Some(end) = from.find('}') else {
            return Err(format!("{from:?} has no closing brace; write $${{ for a literal ${{"));
        };
        let variable = &from[2..end];
        match variable.split_once(':') {
            Some(("SELF", name)) => match fields.get(name) {
                Some(value) => result.push_str(value),
                None => {
                    return Err(format!(
                        "${{{variable}}} is not set: add the environment variable {name} to the agent's container, by fieldRef for a field of the pod"
                    ));
                }
            },
            Some(("POD", name)) => {
                return Err(format!(
                    "${{{variable}}} cannot be read: the agent has no right to read its pod; set {name} on the agent's container and write ${{SELF:{name}}}"
                ));
            }
            // Another program's syntax stays as it is.
            _ => result.push_str(&from[..=end]),
        }
        rest = &from[end + 1..];
    }
    result.push_str(rest);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_where_they_stand() {
        let fields = Fields::from([("POD_NAME".to_owned(), "web-1".to_owned()), ("EMPTY".to_owned(), String::new())]);
        let table = [
            ("plain", Ok("plain")),
            ("${SELF:POD_NAME}", Ok("web-1")),
            ("gs-${SELF:POD_NAME}-${SELF:POD_NAME}!", Ok("gs-web-1-web-1!")),
            ("[${SELF:EMPTY}]", Ok("[]")),
            ("$${SELF:POD_NAME}", Ok("${SELF:POD_NAME}")),
            ("${OTHER}", Ok("${OTHER}")),
        ];
        for (text, expected) in table {
            assert_eq!(replace(text, &fields).as_deref(), expected, "{text}");
        }
        for text in ["${SELF:NODE_NAME}", "${POD:X}", "${SELF:POD_NAME"] {
            assert!(replace(text, &fields).is_err(), "{text}");
        }
    }
}
