//! Checks the expressions of policies and webhooks when they are written. What else there is to check of them is not done here.

use pillion_rules::field::{Error, Path};
use serde_json::Value as Json;

use super::environment::{self, Allowed};
use super::text;
use crate::cel::Environment;

/// Checks the expressions of `matchConditions` at `path`. `params` may be read only in those of policies.
pub fn validate_match_conditions(conditions: &Json, path: &Path, params: bool) -> Vec<Error> {
    let environment = environment::of(params, true, Vec::new());
    let mut errors = Vec::new();
    for (index, condition) in conditions.as_array().into_iter().flatten().enumerate() {
        let source = text(condition, "expression");
        check(source.trim(), &path.index(index).child("expression"), &environment, &[Allowed::Bool], &mut errors);
    }
    errors
}

/// Checks the expressions of a `ValidatingAdmissionPolicy`.
pub fn validate_policy(policy: &Json) -> Vec<Error> {
    let spec = &policy["spec"];
    let path = Path::new("spec");
    let params = spec["paramKind"].is_object();
    let mut errors = validate_match_conditions(&spec["matchConditions"], &path.child("matchConditions"), true);
    let mut composed = Vec::new();
    let each = |key: &str| spec[key].as_array().into_iter().flatten().enumerate();
    for (index, variable) in each("variables") {
        let path = path.child("variables").index(index).child("expression");
        check(&text(variable, "expression"), &path, &environment::among_variables(params, &composed), &[], &mut errors);
        let expression = environment::variable(variable, params, &composed);
        composed.push((expression.name.clone(), environment::result_type(&expression)));
    }
    let environment = environment::of(params, true, composed.clone());
    // Parameters can be read in any message, as in the API server.
    let for_messages = environment::of(true, false, composed);
    for (index, validation) in each("validations") {
        let path = path.child("validations").index(index);
        let allowed = [Allowed::Bool];
        check(&text(validation, "expression"), &path.child("expression"), &environment, &allowed, &mut errors);
        let allowed = [Allowed::String];
        check(
            &text(validation, "messageExpression"),
            &path.child("messageExpression"),
            &for_messages,
            &allowed,
            &mut errors,
        );
    }
    for (index, annotation) in each("auditAnnotations") {
        let path = path.child("auditAnnotations").index(index).child("valueExpression");
        let allowed = [Allowed::String, Allowed::Null];
        check(text(annotation, "valueExpression").trim(), &path, &environment, &allowed, &mut errors);
    }
    errors
}

/// An empty expression is reported by the other checks.
fn check(source: &str, path: &Path, environment: &Environment, allowed: &[Allowed], errors: &mut Vec<Error>) {
    if source.trim().is_empty() {
        return;
    }
    if let Err(reason) = environment::compile(source, environment, allowed) {
        let internal = reason.starts_with("program instantiation failed");
        errors.push(if internal { Error::internal(path, reason) } else { Error::invalid(path, source, reason) });
    }
}
