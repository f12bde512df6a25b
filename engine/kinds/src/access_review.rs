//! Questions about who someone is and what they may do. They are answered, and never stored.

use pillion_rules::field::{Error, Path};
use pillion_rules::value::{entries, has, is_empty, text};
use serde_json::Value;

use crate::rules::{Rules, STORED};

/// Rules of `SubjectAccessReviews`.
pub(crate) const SUBJECT: Rules = Rules {
    validate: |review| {
        let mut errors = Vec::new();
        validate_spec(&review["spec"], true, &mut errors);
        validate_metadata(review, &[], "must be empty", &mut errors);
        errors
    },
    ..STORED
};

/// Rules of `SelfSubjectAccessReviews`.
pub(crate) const SELF: Rules = Rules {
    validate: |review| {
        let mut errors = Vec::new();
        validate_spec(&review["spec"], false, &mut errors);
        validate_metadata(review, &[], "must be empty", &mut errors);
        errors
    },
    ..STORED
};

/// Rules of `LocalSubjectAccessReviews`.
pub(crate) const LOCAL: Rules = Rules { validate: validate_local, ..STORED };

fn validate_spec(spec: &Value, of_somebody: bool, errors: &mut Vec<Error>) {
    let path = Path::new("spec");
    let url = &spec["nonResourceAttributes"];
    match (has(spec, "resourceAttributes"), !url.is_null()) {
        (true, true) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.push(Error::invalid(&path.child("nonResourceAttributes"), shown(url), detail));
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.push(Error::invalid(&path.child("resourceAttributes"), Value::Null, detail));
        }
        _ => {}
    }
    if of_somebody && text(spec, "user").is_empty() && is_empty(spec, "groups") {
        errors.push(Error::invalid(&path.child("user"), "", "at least one of user or group must be specified"));
    }
}

/// Attributes with the names of their fields in Go, as the API server shows them.
fn shown(url: &Value) -> Value {
    serde_json::json!({"Path": text(url, "path"), "Verb": text(url, "verb")})
}

fn validate_metadata(review: &Value, allowed: &[&str], detail: &str, errors: &mut Vec<Error>) {
    let set = |(field, value): (&String, &Value)| {
        !allowed.contains(&field.as_str()) && field != "managedFields" && !value.is_null()
    };
    if entries(review, "metadata").any(set) {
        errors.push(Error::invalid(&Path::new("metadata"), review["metadata"].clone(), detail));
    }
}

fn validate_local(review: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    let spec = &review["spec"];
    validate_spec(spec, true, &mut errors);
    validate_metadata(review, &["namespace"], "must be empty except for namespace", &mut errors);
    let namespace = text(&spec["resourceAttributes"], "namespace");
    if has(spec, "resourceAttributes") && namespace != text(&review["metadata"], "namespace") {
        let path = Path::new("spec.resourceAttributes.namespace");
        errors.push(Error::invalid(&path, namespace, "must match metadata.namespace"));
    }
    if has(spec, "nonResourceAttributes") {
        let path = Path::new("spec.nonResourceAttributes");
        let shown = shown(&spec["nonResourceAttributes"]);
        errors.push(Error::invalid(&path, shown, "disallowed on this kind of request"));
    }
    errors
}
