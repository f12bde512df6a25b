//! Metadata of pods: that of every kind, and finalizers that are Kubernetes' own.

use serde_json::Value;

use super::report::{Errors, Report};
use crate::field::Path;
use crate::metadata;
use crate::pod::read::list;

/// Checks the metadata of a new pod.
pub fn validate(errors: &mut Errors, metadata: &Value) {
    let path = Path::new("metadata");
    errors.extend(metadata::validate(metadata, &path, true, metadata::subdomain_name));
    validate_finalizers(errors, metadata, &path);
}

/// Checks what may be changed of the metadata of a pod.
pub fn validate_update(errors: &mut Errors, new: &Value, old: &Value) {
    let path = Path::new("metadata");
    errors.extend(metadata::validate_update(new, old, &path));
    validate_finalizers(errors, new, &path);
}

/// A finalizer without a domain is Kubernetes' own.
fn validate_finalizers(errors: &mut Errors, metadata: &Value, path: &Path) {
    for (i, name) in list(metadata, "finalizers").iter().filter_map(Value::as_str).enumerate() {
        if !name.contains('/') && !matches!(name, "kubernetes" | "orphan" | "foregroundDeletion") {
            let rule = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(&path.child("finalizers").index(i), name, rule);
        }
    }
}
