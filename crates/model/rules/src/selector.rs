//! Label selectors inside objects.

use serde_json::Value;

use crate::field::{Error, IMMUTABLE, Path};
use crate::format::{check, label_value, qualified_name};
use crate::value::{entries, is_empty, list, same, sorted, text};

/// Checks a `LabelSelector`; an absent one is fine.
pub fn validate(selector: &Value, path: &Path, errors: &mut Vec<Error>) {
    validate_labels(&selector["matchLabels"], &path.child("matchLabels"), errors);
    for (i, requirement) in list(selector, "matchExpressions").iter().enumerate() {
        validate_requirement(requirement, &path.child("matchExpressions").index(i), errors);
    }
}

/// Checks the keys and values of labels.
pub fn validate_labels(labels: &Value, path: &Path, errors: &mut Vec<Error>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        check(qualified_name(key), key, path, errors);
        check(label_value(value), value, path, errors);
    }
}

fn validate_requirement(requirement: &Value, path: &Path, errors: &mut Vec<Error>) {
    let values = list(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(Error::required(&path.child("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(Error::forbidden(
                &path.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(Error::invalid(&path.child("operator"), other, "not a valid selector operator")),
    }
    let key = text(requirement, "key");
    check(qualified_name(key), key, &path.child("key"), errors);
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        check(label_value(value), value, &path.child("values").index(i), errors);
    }
}

/// A selector as the API server shows it: in the order of Go's fields, and labels by name.
pub fn shown(selector: &Value) -> Value {
    let mut shown = serde_json::Map::new();
    if !is_empty(selector, "matchLabels") {
        shown.insert("matchLabels".to_owned(), sorted(&selector["matchLabels"]));
    }
    if !is_empty(selector, "matchExpressions") {
        shown.insert("matchExpressions".to_owned(), selector["matchExpressions"].clone());
    }
    if selector.is_null() { Value::Null } else { Value::Object(shown) }
}

/// Refuses a change of `selector` in a spec.
pub fn validate_immutable(new: &Value, old: &Value, path: &Path, errors: &mut Vec<Error>) {
    if !same(&new["selector"], &old["selector"]) {
        errors.push(Error::invalid(&path.child("selector"), shown(&new["selector"]), IMMUTABLE));
    }
}

/// Whether a selector has neither labels nor expressions.
pub fn selects_all(selector: &Value) -> bool {
    is_empty(selector, "matchLabels") && is_empty(selector, "matchExpressions")
}

/// Whether labels match. `None` for a selector that cannot be evaluated; an absent one matches nothing, an empty one everything.
pub fn matches(selector: &Value, labels: &Value) -> Option<bool> {
    if selector.is_null() {
        return Some(false);
    }
    let mut sound = Vec::new();
    validate(selector, &Path::root(), &mut sound);
    if !sound.is_empty() {
        return None;
    }
    let exact = entries(selector, "matchLabels").all(|(key, value)| labels[key.as_str()] == *value);
    let requirements = list(selector, "matchExpressions");
    Some(exact && requirements.iter().all(|requirement| satisfies(requirement, labels)))
}

fn satisfies(requirement: &Value, labels: &Value) -> bool {
    let label = labels.get(text(requirement, "key"));
    let listed = label.is_some_and(|label| list(requirement, "values").contains(label));
    match text(requirement, "operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => label.is_some(),
        _ => label.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Rows of `TestLabelSelectorAsSelector`.
    #[test]
    fn labels_match_or_cannot_be_compared() {
        let labels = json!({"app": "a", "tier": "b"});
        for (selector, expected) in [
            (json!(null), Some(false)),
            (json!({}), Some(true)),
            (json!({"matchLabels": {"app": "a"}}), Some(true)),
            (json!({"matchLabels": {"app": "b"}}), Some(false)),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "c"]}]}), Some(true)),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}), Some(false)),
            (json!({"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["a"]}]}), Some(true)),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), Some(true)),
            (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), Some(false)),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Foo"}]}), None),
            (json!({"matchExpressions": [{"key": "tier", "operator": "In"}]}), None),
        ] {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }
}
