//! Annotations that mean something to the API server.

use serde_json::Value;

use super::report::{Errors, Report};
use super::scheduling::validate_tolerations;
use crate::field::Path;
use crate::pod::read::{annotation, text};

pub const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Checks those annotations of a pod or a template; `path` is that of its annotations.
pub fn validate(errors: &mut Errors, object: &Value, path: &Path) {
    if let Some(value) = annotation(object, MIRROR)
        && text(&object["spec"], "nodeName").is_empty()
    {
        errors.invalid(&path.key(MIRROR), value, "must set spec.nodeName if mirror pod annotation is set");
    }
    if let Some(value) = annotation(object, TOLERATIONS).filter(|value| !value.is_empty()) {
        match serde_json::from_str::<Vec<Value>>(value) {
            Ok(tolerations) => validate_tolerations(errors, &tolerations, &path.child(TOLERATIONS)),
            Err(error) => errors.invalid(path, TOLERATIONS, error.to_string()),
        }
    }
    if let Some(value) = annotation(object, DELETION_COST)
        && !is_deletion_cost(value)
    {
        errors.invalid(&path.key(DELETION_COST), value, "must be a 32bit integer");
    }
}

/// A whole number without a sign or zeros that it does not need.
fn is_deletion_cost(value: &str) -> bool {
    let has_good_start = |value: &str| value == "0" || value.bytes().next().is_some_and(|b| matches!(b, b'1'..=b'9'));
    has_good_start(value.strip_prefix('-').unwrap_or(value)) && value.parse::<i32>().is_ok()
}
