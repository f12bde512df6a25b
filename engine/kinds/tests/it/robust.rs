//! Objects come decoded, so a field has the type that it should have. Should that ever fail, nothing may panic: every value of every object
//! that was asked about is put wrong, one at a time.

use pillion_kinds::resource;
use serde_json::{Value, json};

use super::replay::{cases, resource_of};

/// Pointers to every value inside, the outermost first.
fn pointers(value: &Value, here: &str, found: &mut Vec<String>) {
    let mut visit = |key: &str, value: &Value| {
        let pointer = format!("{here}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(pointer.clone());
        pointers(value, &pointer, found);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| visit(key, value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| visit(&i.to_string(), value)),
        _ => {}
    }
}

fn run_all_rules(resource: &resource::Resource, object: &Value, old: &Value) -> usize {
    let rules = resource.rules;
    let mut new = object.clone();
    (rules.default)(&mut new);
    if let Some(storage) = resource.storage {
        (storage.to_storage)(&mut new);
    }
    let mut created = new.clone();
    (rules.prepare_create)(&mut created);
    let mut errors = (rules.validate)(&created).len() + (rules.warnings)(&created, None).len();
    let mut updated = new.clone();
    (rules.prepare_update)(&mut updated, old);
    errors += (rules.validate_update)(&updated, old).len() + (rules.warnings)(&updated, Some(old)).len();
    (rules.prepare_status)(&mut new, old);
    errors += (rules.validate_status)(&new, old).len();
    errors += usize::from((rules.selectable)(&new, "status.phase").is_some());
    if let Some(storage) = resource.storage {
        (storage.from_storage)(&mut new);
    }
    errors
}

#[test]
fn no_object_makes_the_rules_panic() {
    let wrong = [json!(null), json!(i64::MIN), json!("é-"), json!([{}]), json!({"": [null]})];
    let mut runs = 0_usize;
    // The values are those of good and bad objects alike; one in three keeps the test short.
    for case in cases(include_str!("../fixtures/create.jsonl")).iter().step_by(3) {
        let (resource, object) = (resource_of(case), &case["input"]);
        let mut places = Vec::new();
        pointers(object, "", &mut places);
        for (i, place) in places.iter().enumerate() {
            let mut broken = object.clone();
            *broken.pointer_mut(place).unwrap() = wrong[i % wrong.len()].clone();
            run_all_rules(resource, &broken, object);
            run_all_rules(resource, object, &broken);
            runs += 1;
        }
    }
    assert!(runs > 1000, "only {runs} objects");
}
