//! Label selectors: well formed, and not so wide that they take everything.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pillion_selector::{Selector, SelectorError};
use serde_json::json;

use crate::field::{Error, Path};

pub(super) fn validate(selector: &LabelSelector, path: &Path, errors: &mut Vec<Error>) {
    match Selector::from_label_selector(selector) {
        Ok(parsed) if parsed.is_empty() => {
            errors.push(Error::invalid(path, json!({}), "empty selector is not valid for sidecarset."));
        }
        Ok(_) => {}
        Err(error) => errors.push(explain(error, path)),
    }
}

/// A selector's mistake as the API server words it.
fn explain(error: SelectorError, path: &Path) -> Error {
    let labels = path.child("matchLabels");
    let expression = |index: usize| path.child("matchExpressions").index(index);
    match error {
        SelectorError::Operator { index, operator } => {
            Error::invalid(&expression(index).child("operator"), operator, "not a valid selector operator")
        }
        SelectorError::NoValues { index } => {
            Error::required(&expression(index).child("values"), "must be specified when `operator` is 'In' or 'NotIn'")
        }
        SelectorError::Values { index } => Error::forbidden(
            &expression(index).child("values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        SelectorError::Key { index: Some(index), key, reason } => {
            Error::invalid(&expression(index).child("key"), key, reason)
        }
        SelectorError::Key { index: None, key, reason } => Error::invalid(&labels, key, reason),
        SelectorError::Value { index: Some(index), value, reason, .. } => {
            Error::invalid(&expression(index).child("values"), value, reason)
        }
        SelectorError::Value { index: None, key, value, reason } => Error::invalid(&labels.key(key), value, reason),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::errors;

    #[test]
    fn a_selector_is_needed_and_may_not_match_everything() {
        insta::assert_snapshot!(errors(json!({"selector": null})), @"spec.selector: Required value: no selector defined for SidecarSet");
        insta::assert_snapshot!(errors(json!({"selector": {}, "namespaceSelector": {"matchLabels": {}}})), @"
        spec.selector: Invalid value: {}: empty selector is not valid for sidecarset.
        spec.namespaceSelector: Invalid value: {}: empty selector is not valid for sidecarset.
        ");
    }

    #[test]
    fn a_malformed_term_is_named() {
        let expression =
            |expression: serde_json::Value| errors(json!({"selector": {"matchExpressions": [expression]}}));
        insta::assert_snapshot!(expression(json!({"key": "a", "operator": "Is", "values": ["b"]})), @r#"spec.selector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator"#);
        insta::assert_snapshot!(expression(json!({"key": "a", "operator": "In"})), @"spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'");
        insta::assert_snapshot!(expression(json!({"key": "a", "operator": "Exists", "values": ["b"]})), @"spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        insta::assert_snapshot!(expression(json!({"key": "a b", "operator": "Exists"})), @r#"spec.selector.matchExpressions[0].key: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"#);
        insta::assert_snapshot!(expression(json!({"key": "a", "operator": "NotIn", "values": ["b-"]})), @r#"spec.selector.matchExpressions[0].values: Invalid value: "b-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"#);
        insta::assert_snapshot!(errors(json!({"selector": {"matchLabels": {"a b": "c"}}})), @r#"spec.selector.matchLabels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"#);
        insta::assert_snapshot!(errors(json!({"selector": {"matchLabels": {"a": "b c"}}})), @r#"spec.selector.matchLabels[a]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"#);
    }
}
