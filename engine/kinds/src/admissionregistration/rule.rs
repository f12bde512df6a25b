//! Which requests a webhook or a policy is about.

use serde_json::Value;

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, path_segment, qualified_name};
use pillion_rules::selector;
use pillion_rules::value::{fill, has, items_mut, list, object_mut, text};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
pub(super) const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];

pub(super) fn default_rules(object: &mut Value, field: &str) {
    for rule in items_mut(object, field) {
        fill(rule, "scope", "*");
    }
}

/// Fills in whom a webhook or a policy is for: everybody.
pub(super) fn default_selectors(object: &mut Value) {
    fill(object, "matchPolicy", "Equivalent");
    object_mut(object, "namespaceSelector");
    object_mut(object, "objectSelector");
}

pub(super) fn validate(rule: &Value, path: &Path, errors: &mut Vec<Error>) {
    let operations = list(rule, "operations");
    validate_wildcard(rule, "operations", "operations", path, errors);
    for (i, operation) in operations.iter().filter_map(Value::as_str).enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(&path.child("operations").index(i), operation, &OPERATIONS));
        }
    }
    validate_wildcard(rule, "apiGroups", "API groups", path, errors);
    validate_wildcard(rule, "apiVersions", "API versions", path, errors);
    for (i, version) in list(rule, "apiVersions").iter().enumerate() {
        if version == "" {
            errors.push(Error::required(&path.child("apiVersions").index(i), ""));
        }
    }
    validate_resources(list(rule, "resources"), &path.child("resources"), errors);
    if let Some(scope) = rule["scope"].as_str().filter(|scope| !SCOPES.contains(scope)) {
        errors.push(Error::not_supported(&path.child("scope"), scope, &SCOPES));
    }
}

/// Refuses an empty list, and one in which `*` is not alone.
fn validate_wildcard(rule: &Value, field: &str, words: &str, path: &Path, errors: &mut Vec<Error>) {
    let (items, path) = (list(rule, field), path.child(field));
    if items.is_empty() {
        errors.push(Error::required(&path, ""));
    }
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {words}");
        errors.push(Error::invalid(&path, items.to_vec(), detail));
    }
}

fn validate_resources(resources: &[Value], path: &Path, errors: &mut Vec<Error>) {
    if resources.is_empty() {
        errors.push(Error::required(path, ""));
    }
    let (mut all_below, mut everywhere): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut plain = false;
    for (i, both) in resources.iter().filter_map(Value::as_str).enumerate() {
        let path = path.index(i);
        if both.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        let Some((resource, subresource)) = both.split_once('/') else {
            plain = both != "*";
            continue;
        };
        if all_below.contains(&resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {both}");
            errors.push(Error::invalid(&path, both, detail));
        }
        if everywhere.contains(&subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {both}");
            errors.push(Error::invalid(&path, both, detail));
        }
        if subresource == "*" {
            all_below.push(resource);
        }
        if resource == "*" {
            everywhere.push(subresource);
        }
    }
    if resources.len() > 1 && resources.iter().any(|resource| resource == "*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(Error::invalid(path, resources.to_vec(), detail));
    }
    if plain && resources.iter().any(|resource| resource == "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(Error::invalid(path, resources.to_vec(), detail));
    }
}

/// The `MatchResources` of a policy or of its binding.
pub(super) fn validate_match(resources: &Value, path: &Path, errors: &mut Vec<Error>) {
    match resources["matchPolicy"].as_str() {
        None => errors.push(Error::required(&path.child("matchPolicy"), "")),
        Some(policy) if !MATCH_POLICIES.contains(&policy) => {
            errors.push(Error::not_supported(&path.child("matchPolicy"), policy, &MATCH_POLICIES));
        }
        Some(_) => {}
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if has(resources, field) {
            selector::validate(&resources[field], &path.child(field), errors);
        } else {
            errors.push(Error::required(&path.child(field), ""));
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in list(resources, field).iter().enumerate() {
            let path = path.child(field).index(i);
            let names = list(rule, "resourceNames");
            for (i, name) in names.iter().filter_map(Value::as_str).enumerate() {
                let path = path.child("resourceNames").index(i);
                check(path_segment(name), name, &path, errors);
                if names.iter().take(i).any(|earlier| earlier == name) {
                    errors.push(Error::duplicate(&path, name));
                }
            }
            validate(rule, &path, errors);
        }
    }
}

/// The conditions of a webhook or a policy, but for their expressions.
pub(super) fn validate_conditions(conditions: &[Value], path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 64;
    if conditions.len() > LIMIT {
        errors.push(Error::too_many(path, conditions.len(), LIMIT));
    }
    for (i, condition) in conditions.iter().enumerate() {
        let (name, path) = (text(condition, "name"), path.index(i));
        if text(condition, "expression").trim().is_empty() {
            errors.push(Error::required(&path.child("expression"), ""));
        }
        if name.is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
            continue;
        }
        check(qualified_name(name), name, &path.child("name"), errors);
        if conditions.iter().take(i).any(|earlier| text(earlier, "name") == name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
    }
}
