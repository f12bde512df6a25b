//! Objects that a kube-apiserver 1.35 was asked to create or update (dry run), and what it answered.
//!
//! Inputs are as Go's types read them. Objects in answers are without what differs from run to run; the uid is `UID`.

use pillion_kinds::resource::{self, Resource, Service};
use pillion_kinds::service;
use pillion_rules::field::{Error, Path};
use pillion_rules::metadata::{self, path_segment_name};
use serde_json::{Value, json};

pub(crate) fn cases(fixture: &str) -> Vec<Value> {
    fixture.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn resource_of(case: &Value) -> &'static Resource {
    let whole = case["resource"].as_str().unwrap();
    let named = |resource: &&Resource| {
        let slash = if resource.group.is_empty() { "" } else { "/" };
        format!("{}{slash}{}/{}", resource.group, resource.version, resource.plural) == whole
    };
    resource::all().iter().find(named).unwrap()
}

/// The answer to one request: the object, or what is wrong with it, and the warnings.
struct Answer {
    object: Value,
    errors: Vec<Error>,
    warnings: Vec<String>,
}

/// What the API server checks of every object.
fn common(meta: &Value, resource: &Resource) -> Vec<Error> {
    metadata::validate(meta, &Path::new("metadata"), resource.namespaced, path_segment_name)
}

fn create(case: &Value, resource: &Resource) -> Answer {
    let rules = resource.rules;
    let mut object = case["input"].clone();
    (rules.default)(&mut object);
    let answered = resource.service == Service::Answered;
    if !answered {
        object["metadata"]["uid"] = json!("UID");
    }
    if let Some(storage) = resource.storage {
        (storage.to_storage)(&mut object);
    }
    if resource.plural == "services" && service::complete_addresses(&mut object, None) {
        let address = case["object"]["spec"]["clusterIP"].as_str().unwrap_or("10.0.0.10");
        object["spec"]["clusterIP"] = json!(address);
        object["spec"]["clusterIPs"] = json!([address]);
    }
    (rules.prepare_create)(&mut object);
    let mut errors = (rules.validate)(&object);
    if errors.is_empty() && !answered {
        errors = common(&object["metadata"], resource);
    }
    let deprecation = resource.deprecation.into_iter().map(str::to_owned);
    let warnings = deprecation.chain((rules.warnings)(&object, None)).collect();
    if let Some(storage) = resource.storage {
        (storage.from_storage)(&mut object);
    }
    Answer { object, errors, warnings }
}

fn update(case: &Value, resource: &Resource) -> Answer {
    let (rules, old) = (resource.rules, &case["old"]);
    let mut object = old.clone();
    merge(&mut object, &case["patch"]);
    (rules.default)(&mut object);
    if resource.plural == "services" {
        service::complete_addresses(&mut object, Some(old));
    }
    let mut errors = Vec::new();
    let warnings = if case["subresource"] == "status" {
        (rules.prepare_status)(&mut object, old);
        errors.extend(common(&object["metadata"], resource));
        errors.extend(metadata::validate_update(&object["metadata"], &old["metadata"], &Path::new("metadata")));
        errors.extend((rules.validate_status)(&object, old));
        Vec::new()
    } else {
        (rules.prepare_update)(&mut object, old);
        errors.extend(common(&object["metadata"], resource));
        errors.extend(metadata::validate_update(&object["metadata"], &old["metadata"], &Path::new("metadata")));
        errors.extend((rules.validate_update)(&object, old));
        (rules.warnings)(&object, Some(old))
    };
    Answer { object, errors, warnings }
}

/// RFC 7396, as the requests were made.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}

/// Without what differs from run to run, and without nulls and empty lists, which only say how a field is written when it is empty.
fn normal(mut object: Value) -> Value {
    if let Some(meta) = object["metadata"].as_object_mut() {
        for field in ["uid", "creationTimestamp", "resourceVersion"] {
            meta.remove(field);
        }
    }
    if let Some(status) = object["status"].as_object_mut() {
        status.remove("lastPhaseTransitionTime");
    }
    without_empty(object)
}

fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null() && *value != json!([]))
            .map(|(field, value)| (field, without_empty(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        other => other,
    }
}

/// Whether everything in a value is in another one. An empty string counts as absent.
fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(field, value)| whole.get(field).is_some_and(|whole| is_within(value, whole)))
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(part, whole)| is_within(part, whole))
        }
        _ => part == whole || *part == json!(""),
    }
}

/// What is only stored is stored as it was sent, with some of the defaults of the API server. Not all kinds count changes.
fn compare_stored(case: &Value, answer: Answer, wrong: &mut Vec<String>) {
    let sent = case.get("input").cloned().unwrap_or_else(|| {
        let mut sent = case["old"].clone();
        merge(&mut sent, &case["patch"]);
        sent
    });
    let [sent, stored, theirs] = [sent, answer.object, case["object"].clone()].map(|mut object| {
        object["metadata"].as_object_mut().unwrap().remove("generation");
        normal(object)
    });
    if !answer.errors.is_empty() || !is_within(&sent, &stored) || !is_within(&stored, &theirs) {
        let errors: Vec<String> = answer.errors.iter().map(ToString::to_string).collect();
        wrong.push(format!("{}:\n  sent   {sent}\n  stored {stored}\n  theirs {theirs}\n  {errors:?}", case["name"]));
    }
}

fn compare(case: &Value, answer: Answer, wrong: &mut Vec<String>) {
    let name = case["name"].as_str().unwrap();
    let mut differ = |what: &str, expected: &dyn std::fmt::Display, actual: &dyn std::fmt::Display| {
        wrong.push(format!("{name}: {what}\n  expected {expected}\n  actual   {actual}"));
    };
    let errors: Vec<Value> = answer.errors.iter().map(|error| error.to_string().into()).collect();
    let (errors, expected) = (Value::from(errors), case.get("errors").cloned().unwrap_or(json!([])));
    if errors != expected {
        differ("errors", &expected, &errors);
    }
    if expected == json!([]) {
        let (object, expected) = (normal(answer.object), normal(case["object"].clone()));
        if object != expected {
            differ("object", &expected, &object);
        }
        let warnings = Value::from(answer.warnings);
        let expected = case.get("warnings").cloned().unwrap_or(json!([]));
        if warnings != expected {
            differ("warnings", &expected, &warnings);
        }
    }
}

fn replay(fixture: &str, least: usize, answer: impl Fn(&Value, &Resource) -> Answer) {
    let cases = cases(fixture);
    assert!(cases.len() >= least, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let resource = resource_of(case);
        let compare = if resource.service == Service::StoredOnly { compare_stored } else { compare };
        compare(case, answer(case, resource), &mut wrong);
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn what_is_created_is_completed_and_refused_as_by_the_api_server() {
    replay(include_str!("../fixtures/create.jsonl"), 150, create);
}

#[test]
fn what_is_updated_is_completed_and_refused_as_by_the_api_server() {
    replay(include_str!("../fixtures/update.jsonl"), 40, update);
}
