//! Keywords of a schema, one by one: which there may be, and which go together.

use pillion_rules::field::{Error, Path};
use serde_json::{Value, json};

use super::cost::Scope;
use crate::field_path;
use crate::schema::{Additional, Schema};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What holds for a schema because of what is around it.
#[derive(Clone, Default)]
struct Around {
    is_root: bool,
    in_meta: bool,
    /// Why there may be no defaults.
    no_defaults: Option<String>,
    /// The outermost thing around whose items have no identity from one version of an object to the next.
    uncorrelated: Option<Path>,
}

/// Mistakes in keywords, and in rules.
#[derive(Default)]
struct Found {
    keywords: Vec<Error>,
    rules: Vec<Error>,
}

/// What is wrong with the keywords of a schema; and with its rules, if they matter.
pub(super) fn validate(schema: &Schema, path: &Path, rules: Option<Scope<'_>>) -> Vec<Error> {
    let mut found = visit(schema, path, &Around { is_root: true, ..Around::default() }, rules);
    found.keywords.append(&mut found.rules);
    found.keywords
}

fn visit(schema: &Schema, path: &Path, around: &Around, mut rules: Option<Scope<'_>>) -> Found {
    let mut found = Found::default();
    standard(schema, path, around, &mut found.keywords);
    if schema.unique_items {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found.keywords.push(Error::forbidden(&path.child("uniqueItems"), detail));
    }
    additional_properties(schema, path, around, rules.as_mut(), &mut found);
    for (name, property) in &schema.properties {
        let mut inside = Around { is_root: false, ..around.clone() };
        if (around.is_root || schema.embedded_resource) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            inside.in_meta = true;
            if around.is_root {
                inside.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        let below = rules.as_mut().map(|rules| rules.below(schema, property, name));
        found.merge(visit(property, &path.child("properties").key(name.as_str()), &inside, below));
    }
    let inside = Around { is_root: false, ..around.clone() };
    if let Some(not) = &schema.not {
        found.merge(visit(not, &path.child("not"), &inside, None));
    }
    for (keyword, branches) in [("allOf", &schema.all_of), ("oneOf", &schema.one_of), ("anyOf", &schema.any_of)] {
        for (index, branch) in branches.iter().enumerate() {
            found.merge(visit(branch, &path.child(keyword).index(index), &inside, None));
        }
    }
    if let Some(items) = &schema.items {
        let mut inside = inside;
        if !schema.is_list_type("map") {
            inside.uncorrelated.get_or_insert_with(|| path.clone());
        }
        let below = rules.as_mut().map(|rules| rules.below(schema, items, ""));
        found.merge(visit(items, &path.child("items"), &inside, below));
    }
    if schema.preserve_unknown_fields == Some(false) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        found.keywords.push(Error::invalid(&path, false, "must be true or undefined"));
    }
    map_type(schema, path, &mut found.keywords);
    list_type(schema, path, &mut found.keywords);
    rule_fields(schema, path, &mut found.keywords);
    if let Some(rules) = rules.as_mut().filter(|_| !schema.validations.is_empty() && found.keywords.is_empty()) {
        found.rules.extend(rules.validate(schema, path, around.uncorrelated.as_ref()));
    }
    found
}

impl Found {
    fn merge(&mut self, other: Found) {
        self.keywords.extend(other.keywords);
        self.rules.extend(other.rules);
    }
}

fn standard(schema: &Schema, path: &Path, around: &Around, errors: &mut Vec<Error>) {
    if !schema.kind.is_empty() && !TYPES.contains(&schema.kind.as_str()) {
        errors.push(Error::not_supported(&path.child("type"), schema.kind.as_str(), &TYPES));
    }
    if let (Some(_), Some(reason)) = (&schema.default, &around.no_defaults) {
        errors.push(Error::forbidden(&path.child("default"), format!("must not be set {reason}")));
    }
    let unsupported = schema.unsupported;
    for (is_set, keyword) in [
        (unsupported.id, "id"),
        (unsupported.additional_items, "additionalItems"),
        (unsupported.pattern_properties, "patternProperties"),
        (unsupported.definitions, "definitions"),
        (unsupported.dependencies, "dependencies"),
        (unsupported.reference, "$ref"),
    ] {
        if is_set {
            errors.push(Error::forbidden(&path.child(keyword), format!("{keyword} is not supported")));
        }
    }
    if schema.kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(Error::forbidden(&path.child("type"), detail));
    }
    if schema.item_list.as_ref().is_some_and(|items| !items.is_empty()) {
        errors.push(Error::forbidden(&path.child("items"), "items must be a schema object and not an array"));
    }
    if around.in_meta && schema.embedded_resource {
        let path = path.child("x-kubernetes-embedded-resource");
        errors.push(Error::forbidden(&path, "must not be used inside of resource meta"));
    }
}

fn additional_properties(
    schema: &Schema,
    path: &Path,
    around: &Around,
    rules: Option<&mut Scope<'_>>,
    found: &mut Found,
) {
    let Some(additional) = &schema.additional_properties else { return };
    let path = path.child("additionalProperties");
    if !schema.properties.is_empty() && !matches!(additional, Additional::Allowed(true)) {
        let detail = "additionalProperties and properties are mutual exclusive";
        found.keywords.push(Error::forbidden(&path, detail));
    }
    let Additional::Schema(additional) = additional else { return };
    let mut inside = Around { is_root: false, ..around.clone() };
    if around.in_meta {
        inside.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
    }
    let below = rules.map(|rules| rules.below(schema, additional, ""));
    found.merge(visit(additional, &path, &inside, below));
}

fn map_type(schema: &Schema, path: &Path, errors: &mut Vec<Error>) {
    let Some(map_type) = &schema.map_type else { return };
    if schema.kind != "object" {
        errors.push(wrong_type(schema, path, "must be object if x-kubernetes-map-type is specified"));
    }
    if !matches!(map_type.as_str(), "atomic" | "granular") {
        let path = path.child("x-kubernetes-map-type");
        errors.push(Error::not_supported(&path, map_type.as_str(), &["atomic", "granular"]));
    }
}

fn wrong_type(schema: &Schema, path: &Path, detail: &str) -> Error {
    let path = path.child("type");
    if schema.kind.is_empty() {
        Error::required(&path, detail)
    } else {
        Error::invalid(&path, schema.kind.as_str(), detail)
    }
}

fn list_type(schema: &Schema, path: &Path, errors: &mut Vec<Error>) {
    let list_type = schema.list_type.as_deref();
    let keys_path = path.child("x-kubernetes-list-map-keys");
    if list_type.is_some() && schema.kind != "array" {
        errors.push(wrong_type(schema, path, "must be array if x-kubernetes-list-type is specified"));
    } else if let (Some("set"), Some(items)) = (list_type, &schema.items) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let path = path.child("items");
        let shown = items.list_type.clone().map_or(Value::Null, Value::String);
        if items.kind == "array" && items.list_type.as_deref().is_some_and(|list_type| list_type != "atomic") {
            errors.push(Error::invalid(&path.child("x-kubernetes-list-type"), shown, detail));
        } else if items.kind == "object" && items.map_type.as_deref() != Some("atomic") {
            // As the API server has it: the list type is shown where the map type is meant.
            errors.push(Error::invalid(&path.child("x-kubernetes-map-type"), shown, detail));
        }
    }
    if let Some(other) = list_type.filter(|list_type| !matches!(*list_type, "atomic" | "set" | "map")) {
        errors.push(Error::not_supported(&path.child("x-kubernetes-list-type"), other, &["atomic", "set", "map"]));
    }
    if !schema.list_map_keys.is_empty() && list_type != Some("map") {
        let path = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => Error::required(&path, detail),
            Some(other) => Error::invalid(&path, other, detail),
        });
    }
    if list_type == Some("map") {
        if schema.list_map_keys.is_empty() {
            errors.push(Error::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
        }
        map_list(schema, path, &keys_path, errors);
    }
    if let (Some(list_type @ ("set" | "map")), Some(items)) = (list_type, &schema.items) {
        if items.nullable {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            errors.push(Error::forbidden(&path.child("items").child("nullable"), detail));
        }
        if list_type == "map" {
            map_list_keys(schema, items, path, errors);
        }
    }
}

fn map_list(schema: &Schema, path: &Path, keys_path: &Path, errors: &mut Vec<Error>) {
    let items_path = path.child("items");
    let Some(items) = &schema.items else {
        if schema.item_list.is_none() {
            errors.push(Error::required(&items_path, "must have a schema if x-kubernetes-list-type is map"));
        }
        return;
    };
    if items.kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(&items_path.child("type"), items.kind.as_str(), detail));
        return;
    }
    for (index, key) in schema.list_map_keys.iter().enumerate() {
        match items.properties.get(key) {
            Some(property) if matches!(property.kind.as_str(), "array" | "object") => {
                let path = items_path.child("properties").key(key.as_str()).child("type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(Error::invalid(&path, items.kind.as_str(), detail));
            }
            Some(_) => {}
            None => errors.push(Error::invalid(
                keys_path,
                json!(schema.list_map_keys),
                "entries must all be names of item properties",
            )),
        }
        if schema.list_map_keys.iter().take(index).any(|earlier| earlier == key) {
            errors.push(Error::invalid(keys_path, json!(schema.list_map_keys), "must not contain duplicate entries"));
        }
    }
}

fn map_list_keys(schema: &Schema, items: &Schema, path: &Path, errors: &mut Vec<Error>) {
    for key in &schema.list_map_keys {
        let Some(property) = items.properties.get(key) else { continue };
        let path = path.child("items").child("properties").key(key.as_str());
        if !items.required.contains(key) && property.default.is_none() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(Error::required(&path.child("default"), detail));
        }
        if property.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&path.child("nullable"), detail));
        }
    }
}

/// The fields of each rule, but for its expressions.
fn rule_fields(schema: &Schema, path: &Path, errors: &mut Vec<Error>) {
    let breaks = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in schema.validations.iter().enumerate() {
        let path = path.child("x-kubernetes-validations").index(index);
        let (trimmed, message) = (rule.rule.trim(), rule.message.trim());
        let message_path = path.child("message");
        if trimmed.is_empty() {
            errors.push(Error::required(&path.child("rule"), "rule is not specified"));
        } else if !rule.message.is_empty() && message.is_empty() {
            errors.push(Error::invalid(&message_path, rule.message.as_str(), "must be non-empty if specified"));
        } else if breaks(message) {
            errors.push(Error::invalid(&message_path, rule.message.as_str(), "must not contain line breaks"));
        } else if breaks(trimmed) && message.is_empty() {
            errors.push(Error::required(&message_path, "message must be specified if rule contains line breaks"));
        }
        if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(Error::required(&path.child("messageExpression"), detail));
        }
        if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
            errors.push(Error::not_supported(&path.child("reason"), reason, &REASONS));
        }
        let field_path = path.child("fieldPath");
        let written = rule.field_path.as_str();
        if !written.is_empty() && written.trim().is_empty() {
            errors.push(Error::invalid(&field_path, written, "must be non-empty if specified"));
        }
        if breaks(written) {
            errors.push(Error::invalid(&field_path, written, "must not contain line breaks"));
        }
        if !written.is_empty() && field_path::read(written, schema, true).is_err() {
            errors.push(Error::invalid(&field_path, written, "must be a valid path"));
        }
    }
}
