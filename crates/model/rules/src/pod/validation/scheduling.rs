//! Tolerations, spreading and gates.

use std::collections::BTreeSet;

use serde_json::Value;

use super::format;
use super::report::{Errors, Report};
use crate::field::Path;
use crate::pod::read::{entries, list, number, part, pointer_number, pointer_text, text};
use crate::selector;

/// Checks which taints a pod tolerates.
pub fn validate_tolerations(errors: &mut Errors, tolerations: &[Value], path: &Path) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let path = path.index(i);
        let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
        let (value, effect) = (text(toleration, "value"), text(toleration, "effect"));
        if !key.is_empty() {
            errors.each(&path.child("key"), key, format::qualified_name(key));
        } else if operator != "Exists" {
            let rule = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&path.child("operator"), operator, rule);
        }
        if part(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let rule = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&path.child("effect"), effect, rule);
        }
        match operator {
            "Equal" | "" => {
                let objections = format::label_value(value);
                if !objections.is_empty() {
                    errors.invalid(&path.child("operator"), value, objections.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let rule = "value must be empty when `operator` is 'Exists'";
                    errors.invalid(&path.child("operator"), value, rule);
                }
            }
            // They wait for the gate TaintTolerationComparisonOperators, and are yet said to be supported.
            "Lt" | "Gt" => errors.unsupported(&path.child("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]),
            _ => errors.unsupported(&path.child("operator"), operator, &["Equal", "Exists"]),
        }
        if !effect.is_empty() {
            errors.one_of(&path.child("effect"), effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        }
    }
}

/// Checks how pods are spread.
pub fn validate_spread(errors: &mut Errors, spec: &Value, path: &Path) {
    let constraints = list(spec, "topologySpreadConstraints");
    for (i, constraint) in constraints.iter().enumerate() {
        let path = path.index(i);
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        errors.positive(&path.child("maxSkew"), number(constraint, "maxSkew"));
        if key.is_empty() {
            errors.required(&path.child("topologyKey"), "can not be empty");
        }
        errors.one_of(&path.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        let is_same = |other: &Value| text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == action;
        if constraints.iter().skip(i + 1).any(is_same) {
            errors.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), &format!("{{{key}, {action}}}"));
        }
        if let Some(domains) = pointer_number(constraint, "minDomains") {
            let path = path.child("minDomains");
            errors.positive(&path, domains);
            if action != "DoNotSchedule" {
                let rule = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&path, domains, rule);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = pointer_text(constraint, field) {
                errors.one_of(&path.child(field), policy, &["Honor", "Ignore"]);
            }
        }
        validate_label_keys(errors, constraint, &path);
        selector::validate(&constraint["labelSelector"], &path.child("labelSelector"), errors);
    }
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys` beside a label selector.
pub fn validate_label_keys(errors: &mut Errors, term: &Value, path: &Path) {
    let keys = |field: &str| -> Vec<&str> { list(term, field).iter().filter_map(Value::as_str).collect() };
    let (matched, mismatched) = (keys("matchLabelKeys"), keys("mismatchLabelKeys"));
    let selector = part(term, "labelSelector");
    for (field, keys) in [("matchLabelKeys", &matched), ("mismatchLabelKeys", &mismatched)] {
        let path = path.child(field);
        if !keys.is_empty() && selector.is_none() {
            errors.forbidden(&path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in keys.iter().enumerate() {
            errors.each(&path.index(i), *key, format::qualified_name(key));
        }
    }
    // The pod's own value of each key is added to the selector, so that a key that is there already is there twice.
    let mut selected: BTreeSet<&str> = BTreeSet::new();
    if let Some(selector) = selector {
        selected.extend(entries(selector, "matchLabels").into_iter().map(|(key, _)| key));
        for expression in list(selector, "matchExpressions") {
            let key = text(expression, "key");
            if let Some(i) = matched.iter().rposition(|matched| *matched == key)
                && selected.contains(key)
            {
                errors.invalid(&path.index(i), key, "exists in both matchLabelKeys and labelSelector");
            }
            selected.insert(key);
        }
    }
    for (i, key) in matched.iter().enumerate().filter(|(_, key)| mismatched.contains(key)) {
        let path = path.child("matchLabelKeys").index(i);
        errors.invalid(&path, *key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// Checks the gates before which a pod is not scheduled.
pub fn validate_gates(errors: &mut Errors, spec: &Value, path: &Path) {
    let mut names = BTreeSet::new();
    for (i, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        errors.each(&path.index(i), name, format::qualified_name(name));
        if !names.insert(name) {
            errors.duplicate(&path.index(i), name);
        }
    }
}
