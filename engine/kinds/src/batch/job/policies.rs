//! When pods of a Job count as failed, and when the Job has succeeded.

use pillion_rules::field::{Error, Path, quoted};
use pillion_rules::format::{check, qualified_name};
use pillion_rules::value::{has, int, list, text};
use serde_json::{Value, json};

use super::indexes;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];

fn required_one_of(path: &Path, values: &[&str]) -> Error {
    let listed: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    Error::required(path, format!("valid values: [{}]", listed.join(" ")))
}

pub(super) fn validate_failure_policy(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 20;
    let path = path.child("rules");
    let rules = list(&spec["podFailurePolicy"], "rules");
    if rules.len() > LIMIT {
        errors.push(Error::too_many(&path, rules.len(), LIMIT));
    }
    let pod = &spec["template"]["spec"];
    let containers: Vec<&str> = list(pod, "containers")
        .iter()
        .chain(list(pod, "initContainers"))
        .map(|container| text(container, "name"))
        .collect();
    for (i, rule) in rules.iter().enumerate() {
        validate_rule(rule, has(spec, "backoffLimitPerIndex"), &containers, &path.index(i), errors);
    }
}

fn validate_rule(rule: &Value, per_index: bool, containers: &[&str], path: &Path, errors: &mut Vec<Error>) {
    let action_path = path.child("action");
    match text(rule, "action") {
        "" => errors.push(required_one_of(&action_path, &ACTIONS)),
        "FailIndex" if !per_index => {
            errors.push(Error::invalid(&action_path, "FailIndex", "requires the backoffLimitPerIndex to be set"));
        }
        action if !ACTIONS.contains(&action) => errors.push(Error::not_supported(&action_path, action, &ACTIONS)),
        _ => {}
    }
    let (on_exit_codes, conditions) = (has(rule, "onExitCodes"), list(rule, "onPodConditions"));
    if on_exit_codes {
        validate_exit_codes(&rule["onExitCodes"], containers, &path.child("onExitCodes"), errors);
    }
    validate_conditions(conditions, &path.child("onPodConditions"), errors);
    match (on_exit_codes, conditions.is_empty()) {
        (true, false) => {
            let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.push(Error::malformed(path, detail));
        }
        (false, true) => {
            let detail = "specifying one of OnExitCodes and OnPodConditions is required";
            errors.push(Error::malformed(path, detail));
        }
        _ => {}
    }
}

fn validate_conditions(conditions: &[Value], path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 20;
    if conditions.len() > LIMIT {
        errors.push(Error::too_many(path, conditions.len(), LIMIT));
    }
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let kind = text(condition, "type");
        check(qualified_name(kind), kind, &path.child("type"), errors);
        let path = path.child("status");
        match text(condition, "status") {
            "" => errors.push(required_one_of(&path, &STATUSES)),
            status if !STATUSES.contains(&status) => errors.push(Error::not_supported(&path, status, &STATUSES)),
            _ => {}
        }
    }
}

fn validate_exit_codes(on_exit_codes: &Value, containers: &[&str], path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 255;
    let operator_path = path.child("operator");
    let operator = text(on_exit_codes, "operator");
    match operator {
        "" => errors.push(required_one_of(&operator_path, &OPERATORS)),
        other if !OPERATORS.contains(&other) => errors.push(Error::not_supported(&operator_path, other, &OPERATORS)),
        _ => {}
    }
    if let Some(name) = on_exit_codes["containerName"].as_str().filter(|name| !containers.contains(name)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(Error::invalid(&path.child("containerName"), name, detail));
    }
    let (values, path) = (list(on_exit_codes, "values"), path.child("values"));
    if values.is_empty() {
        errors.push(Error::invalid(&path, on_exit_codes["values"].clone(), "at least one value is required"));
    } else if values.len() > LIMIT {
        errors.push(Error::too_many(&path, values.len(), LIMIT));
    }
    for (i, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.push(Error::invalid(&path.index(i), 0, "must not be 0 for the In operator"));
        }
        if values.iter().take(i).any(|earlier| earlier == value) {
            errors.push(Error::duplicate(&path.index(i), value.clone()));
        }
    }
    if !values.is_sorted_by_key(|value| value.as_i64().unwrap_or_default()) {
        errors.push(Error::invalid(&path, on_exit_codes["values"].clone(), "must be ordered"));
    }
}

pub(super) fn validate_replacement_policy(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let Some(policy) = spec["podReplacementPolicy"].as_str() else { return };
    let supported: &[&str] =
        if has(spec, "podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if !supported.contains(&policy) {
        errors.push(Error::not_supported(path, policy, supported));
    }
}

pub(super) fn validate_success_policy(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 20;
    let path = path.child("rules");
    let rules = list(&spec["successPolicy"], "rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.push(Error::required(&path, detail));
    }
    if rules.len() > LIMIT {
        errors.push(Error::too_many(&path, rules.len(), LIMIT));
    }
    for (i, rule) in rules.iter().enumerate() {
        validate_success_rule(rule, int(spec, "completions"), &path.index(i), errors);
    }
}

fn validate_success_rule(rule: &Value, completions: i64, path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 64 * 1024;
    let (count, listed) = (rule["succeededCount"].as_i64(), rule["succeededIndexes"].as_str());
    if count.is_none() && listed.is_none() {
        let detail = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(Error::required(path, detail));
    }
    let mut total = 0;
    if let Some(listed) = listed {
        let path = path.child("succeededIndexes");
        if listed.len() > LIMIT {
            errors.push(Error::too_long(&path, LIMIT));
        }
        match indexes::count(listed, completions) {
            Ok(count) => total = count,
            Err(error) => {
                errors.push(Error::invalid(&path, listed, format!("error parsing succeededIndexes: {error}")));
            }
        }
    }
    let Some(count) = count else { return };
    super::validate_count(rule, "succeededCount", path, errors);
    let path = path.child("succeededCount");
    if count > completions {
        let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(Error::invalid(&path, count, detail));
    }
    if listed.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(Error::invalid(&path, count, detail));
    }
}

/// The policy with the names of its fields in Go, as the API server shows it.
pub(super) fn shown_success_policy(policy: &Value) -> Value {
    let rules: Vec<Value> = list(policy, "rules")
        .iter()
        .map(|rule| json!({"SucceededIndexes": rule["succeededIndexes"], "SucceededCount": rule["succeededCount"]}))
        .collect();
    json!({"Rules": if rules.is_empty() { Value::Null } else { rules.into() }})
}
