//! Images: their names, and when they are pulled.

use serde_json::Value;

use super::report::{Errors, Report};
use crate::field::Path;
use crate::pod::read::text;

/// Checks when an image is pulled.
pub fn validate_pull_policy(errors: &mut Errors, policy: &str, path: &Path) {
    errors.required_one_of(path, policy, &["Always", "IfNotPresent", "Never"]);
}

/// Checks what is asked of the image's name in a pod and not in a template.
pub fn validate_image_spaces(errors: &mut Errors, container: &Value, path: &Path) {
    let image = text(container, "image");
    if image.trim() != image {
        errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
}
