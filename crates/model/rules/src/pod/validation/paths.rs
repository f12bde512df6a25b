//! Paths of files inside volumes and on the host.

use super::report::{Errors, Report};
use crate::field::Path;

/// Checks that a path goes down from where it starts.
pub(super) fn validate_descending(errors: &mut Errors, target: &str, path: &Path) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    validate_no_backsteps(errors, target, path);
}

/// Checks that a path has no `..`.
pub(super) fn validate_no_backsteps(errors: &mut Errors, target: &str, path: &Path) {
    if has_backstep(target) {
        errors.invalid(path, target, "must not contain '..'");
    }
}

/// Whether a path has a `..`.
pub(super) fn has_backstep(target: &str) -> bool {
    target.split('/').any(|part| part == "..")
}

/// Checks that a path goes down, and is not one of those that Kubernetes writes itself.
pub(super) fn validate_unreserved(errors: &mut Errors, target: &str, path: &Path) {
    validate_descending(errors, target, path);
    if target.starts_with("..") && !target.starts_with("../") {
        errors.invalid(path, target, "must not start with '..'");
    }
}
