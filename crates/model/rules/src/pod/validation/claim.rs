//! The claim that an ephemeral volume makes.

use serde_json::{Value, json};

use super::report::{Errors, Report};
use crate::field::Path;
use crate::metadata::validate_annotations;
use crate::pod::read::part;
use crate::selector::validate_labels;
use crate::volume_claim::validate_spec;

/// Fields of metadata that a template cannot say, in the order of the type.
const NOT_IN_TEMPLATE: [&str; 10] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
    "ownerReferences",
    "finalizers",
];

/// Checks the template of a claim.
pub(super) fn validate_template(errors: &mut Errors, template: &Value, path: &Path) {
    let (metadata, metadata_path) = (&template["metadata"], path.child("metadata"));
    validate_annotations(&metadata["annotations"], &metadata_path.child("annotations"), errors);
    validate_labels(&metadata["labels"], &metadata_path.child("labels"), errors);
    for field in NOT_IN_TEMPLATE {
        if part(metadata, field).is_some_and(|value| *value != json!("") && *value != json!(0)) {
            errors.forbidden(&metadata_path.child(field), "cannot be set");
        }
    }
    validate_spec(&template["spec"], &path.child("spec"), errors);
}
