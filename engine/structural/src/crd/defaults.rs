//! Defaults must be values that their schema accepts.

use pillion_rules::field::{Error, Path};
use serde_json::{Map, Value, json};

use crate::rules::{self, Rules};
use crate::schema::{Schema, sorted};
use crate::{embedded, openapi, prune};

/// Steps from a resource down to a default inside its metadata, to build an object around it.
type Around<'a> = Vec<Step<'a>>;

#[derive(Clone, Copy)]
enum Step<'a> {
    Field(&'a str),
    Item,
}

/// What is wrong with the defaults of a schema.
pub(super) fn validate(schema: &Schema, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    let root = Schema { embedded_resource: true, ..schema.clone() };
    visit(&root, &root, &Vec::new(), false, path, &mut errors);
    errors
}

fn visit<'a>(
    schema: &'a Schema,
    resource: &'a Schema,
    around: &Around<'a>,
    in_meta: bool,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let empty = Vec::new();
    let (resource, around, in_meta) =
        if schema.embedded_resource { (schema, &empty, false) } else { (resource, around, in_meta) };
    if let Some(default) = &schema.default {
        let path = path.child("default");
        if in_meta {
            errors.extend(validate_meta(schema, default, resource, around, &path));
        } else {
            validate_value(schema, default, &path, errors);
        }
    }
    let with = |step: Step<'a>| {
        let mut around = around.clone();
        around.push(step);
        around
    };
    // Below additionalProperties defaults are refused for another reason.
    if let Some(items) = &schema.items {
        visit(items, resource, &with(Step::Item), in_meta, &path.child("items"), errors);
    }
    for (name, property) in &schema.properties {
        let is_meta = schema.embedded_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let path = path.child("properties").key(name.as_str());
        visit(property, resource, &with(Step::Field(name)), in_meta || is_meta, &path, errors);
    }
}

fn validate_value(schema: &Schema, default: &Value, path: &Path, errors: &mut Vec<Error>) {
    let mut pruned = default.clone();
    prune::prune_value(schema, &mut pruned);
    if pruned != *default {
        errors.push(Error::invalid(path, sorted(default), "must not have unknown fields"));
    }
    let mut coerced = default.clone();
    if let Err(error) = embedded::coerce(schema, &mut coerced, schema.embedded_resource, path, &mut Vec::new()) {
        errors.push(error);
        return;
    }
    let mut found = Vec::new();
    embedded::validate(schema, &coerced, schema.embedded_resource, path, &mut found);
    if found.is_empty() {
        found = openapi::validate(schema, &coerced, None, Some(path));
    }
    if found.is_empty() {
        found = validate_rules(schema, &coerced, path);
    }
    errors.extend(found);
}

/// A default has to satisfy the rules both as a value that stays and as one that is new.
fn validate_rules(schema: &Schema, default: &Value, path: &Path) -> Vec<Error> {
    let Some(rules) = Rules::compile(schema, schema.embedded_resource) else { return Vec::new() };
    let mut found = rules::evaluate(&rules, schema, default, None, path);
    if found.errors.is_empty() {
        found = rules::evaluate_unchanged(&rules, schema, default, path);
    }
    found.errors
}

/// A default inside metadata has to make valid metadata.
fn validate_meta(schema: &Schema, default: &Value, resource: &Schema, around: &Around<'_>, path: &Path) -> Vec<Error> {
    let mut object = around.iter().rev().fold(default.clone(), |inner, step| match step {
        Step::Field(name) => Value::Object(Map::from_iter([((*name).to_owned(), inner)])),
        Step::Item => json!([inner]),
    });
    if let Value::Object(fields) = &mut object {
        fields.entry("kind").or_insert_with(|| json!("Validation"));
        fields.entry("apiVersion").or_insert_with(|| json!("validation/v1"));
    }
    let refused = |reason: String| {
        vec![Error::invalid(path, sorted(default), format!("must result in valid metadata: {reason}"))]
    };
    if let Err(error) = embedded::coerce(resource, &mut object, true, &Path::root(), &mut Vec::new()) {
        return refused(error.to_string());
    }
    let mut found = Vec::new();
    embedded::validate(resource, &object, true, &Path::root(), &mut found);
    if !found.is_empty() {
        let reasons: Vec<String> = found.iter().map(ToString::to_string).collect();
        return refused(match reasons.as_slice() {
            [reason] => reason.clone(),
            reasons => format!("[{}]", reasons.join(", ")),
        });
    }
    openapi::validate(schema, default, None, Some(path))
}
