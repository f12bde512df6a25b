//! Objects that were posted to kube-apiserver 1.35 (and updates that were put), and what it answered.

use pillion_rules::field::{Error, ErrorKind};
use pillion_structural::{Part, Report, Structural};
use serde_json::{Value, json};

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

/// What we answer, in the form of the fixture.
fn answer(schema: &Structural, case: &Value) -> Value {
    let mut object = case["object"].clone();
    let unknown = match schema.coerce(&mut object) {
        Ok(unknown) => unknown,
        Err(reason) => {
            return json!({"refused": format!("Case in version \"v1\" cannot be handled as a Case: {reason}")});
        }
    };
    if case["strict"] == true && !unknown.is_empty() {
        let reported: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
        let reported = reported.join(", ");
        return json!({"refused": format!("Case in version \"v1\" cannot be handled as a Case: strict decoding error: {reported}")});
    }
    schema.apply_defaults(&mut object);
    let old = case.get("old").map(|old| {
        let mut old = old.clone();
        // What was stored has been read before.
        let _unknown = schema.coerce(&mut old);
        schema.apply_defaults(&mut old);
        old
    });
    let mut report = Report::default();
    schema.validate_into(&object, old.as_ref(), Part::Object, &mut report);
    let mut answer = if report.errors.is_empty() {
        json!({"result": object})
    } else {
        let causes = report.errors.iter().map(|error| json!([reason(error), error.path.to_string(), error.message()]));
        json!({"errors": causes.collect::<Vec<_>>()})
    };
    if !report.warnings.is_empty() {
        answer["warnings"] = json!(report.warnings);
    }
    answer
}

/// The real server walks maps in random order, so errors are compared as a set.
fn sorted(mut answer: Value) -> Value {
    for key in ["errors", "warnings"] {
        if let Some(items) = answer.get_mut(key).and_then(Value::as_array_mut) {
            items.sort_by_key(ToString::to_string);
        }
    }
    answer
}

#[test]
fn objects_are_answered_as_the_real_server_answers() {
    let fixture: Value = serde_json::from_str(include_str!("fixtures/objects.json")).unwrap();
    let cases = fixture["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let schema = Structural::compile(&fixture["schemas"][case["schema"].as_str().unwrap()]).unwrap();
        let mut real = case.clone();
        real.as_object_mut()
            .unwrap()
            .retain(|key, _| matches!(key.as_str(), "result" | "errors" | "refused" | "warnings"));
        let ours = answer(&schema, case);
        if sorted(ours.clone()) != sorted(real.clone()) {
            wrong.push(format!(
                "{} {} was {}\n  ours: {ours}\n  real: {real}",
                case["schema"], case["object"], case["old"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
