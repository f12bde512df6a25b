//! Conditions of the common form.

use serde_json::Value;

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, pattern, qualified_name};
use pillion_rules::value::{has, int, text};

/// Checks a list of conditions.
pub(crate) fn validate_all(conditions: &[Value], path: &Path, errors: &mut Vec<Error>) {
    for (i, condition) in conditions.iter().enumerate() {
        let kind = text(condition, "type");
        if conditions.iter().take(i).any(|earlier| text(earlier, "type") == kind) {
            errors.push(Error::duplicate(&path.index(i).child("type"), kind));
        }
        validate(condition, &path.index(i), errors);
    }
}

fn validate(condition: &Value, path: &Path, errors: &mut Vec<Error>) {
    const REASON_LIMIT: usize = 1024;
    const MESSAGE_LIMIT: usize = 32 * 1024;
    let (kind, status, reason) = (text(condition, "type"), text(condition, "status"), text(condition, "reason"));
    check(qualified_name(kind), kind, &path.child("type"), errors);
    if !["False", "True", "Unknown"].contains(&status) {
        errors.push(Error::not_supported(&path.child("status"), status, &["False", "True", "Unknown"]));
    }
    let generation = int(condition, "observedGeneration");
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(Error::invalid(&path.child("observedGeneration"), generation, detail));
    }
    if !has(condition, "lastTransitionTime") {
        errors.push(Error::required(&path.child("lastTransitionTime"), ""));
    }
    let reason_path = path.child("reason");
    if reason.is_empty() {
        errors.push(Error::required(&reason_path, ""));
    } else {
        if !is_reason(reason) {
            let detail = pattern(
                "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
                "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
                &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
            );
            errors.push(Error::invalid(&reason_path, reason, detail));
        }
        if reason.len() > REASON_LIMIT {
            errors.push(Error::too_long(&reason_path, REASON_LIMIT));
        }
    }
    if text(condition, "message").len() > MESSAGE_LIMIT {
        errors.push(Error::too_long(&path.child("message"), MESSAGE_LIMIT));
    }
}

fn is_reason(reason: &str) -> bool {
    reason.starts_with(|c: char| c.is_ascii_alphabetic())
        && reason.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && reason.bytes().all(|b| b.is_ascii_alphanumeric() || b"_,:".contains(&b))
}
