//! Schemas that were posted to kube-apiserver 1.35 as `CustomResourceDefinitions` of one version, and what it answered.

use pillion_rules::field::{Error, ErrorKind, Path};
use pillion_structural::crd::{self, Context};
use serde_json::Value;

fn reason(error: &Error) -> &'static str {
    match error.kind {
        ErrorKind::Required => "FieldValueRequired",
        ErrorKind::Invalid(_) | ErrorKind::Malformed => "FieldValueInvalid",
        ErrorKind::NotSupported(..) => "FieldValueNotSupported",
        ErrorKind::Duplicate(_) => "FieldValueDuplicate",
        ErrorKind::Forbidden => "FieldValueForbidden",
        ErrorKind::NotFound(_) => "FieldValueNotFound",
        ErrorKind::TooLong(_) => "FieldValueTooLong",
        ErrorKind::TooMany(..) => "FieldValueTooMany",
        ErrorKind::Internal => "InternalError",
        ErrorKind::TypeInvalid(_) => "FieldValueTypeInvalid",
    }
}

#[test]
fn definitions_are_answered_as_the_real_server_answers() {
    let cases: Value = serde_json::from_str(include_str!("fixtures/crds.json")).unwrap();
    let mut wrong = Vec::new();
    for case in cases.as_array().unwrap() {
        let schema = &case["schema"];
        let context = Context { has_status: case["status"] == true, is_unchanged: false };
        let mut errors = crd::validate_schema(schema, &Path::new("spec").child("validation"), context);
        if let Some(paths) = case["selectable"].as_array() {
            let fields: Value = paths.iter().map(|path| serde_json::json!({"jsonPath": path})).collect();
            errors.extend(crd::validate_selectable_fields(
                &fields,
                schema,
                &Path::new("spec").child("selectableFields"),
            ));
        }
        let found: Vec<String> =
            errors.iter().map(|error| format!("{} {}: {}", reason(error), error.path, error.message())).collect();
        let answered: Vec<String> = case["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cause| {
                format!("{} {}: {}", cause[0].as_str().unwrap(), cause[1].as_str().unwrap(), cause[2].as_str().unwrap())
            })
            .collect();
        let sorted = |mut lines: Vec<String>| {
            lines.sort();
            lines
        };
        // The real server walks properties in random order.
        if sorted(found.clone()) != sorted(answered.clone()) {
            wrong.push(format!(
                "{}\n  ours:  {}\n  real:  {}",
                case["name"],
                found.join("\n         "),
                answered.join("\n         ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.as_array().unwrap().len(), wrong.join("\n"));
}
