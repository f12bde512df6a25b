//! Structural schemas: every field of an object has one type, declared in one place. `allOf`, `anyOf`, `oneOf` and `not` only narrow values.

use std::collections::BTreeMap;

use pillion_rules::field::{Error, Path};

use crate::schema::{Additional, Schema};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Whether a schema has only keywords that structural schemas can have.
///
/// # Errors
/// The first that has another.
pub(super) fn convertible(schema: &Schema) -> Result<(), &'static str> {
    let unsupported = schema.unsupported;
    for (is_set, reason) in [
        (unsupported.id, "OpenAPIV3Schema 'id' is not supported"),
        (unsupported.schema, "OpenAPIV3Schema 'schema' is not supported"),
        (unsupported.reference, "OpenAPIV3Schema '$ref' is not supported"),
        (unsupported.pattern_properties, "OpenAPIV3Schema 'patternProperties' is not supported"),
        (unsupported.dependencies, "OpenAPIV3Schema 'dependencies' is not supported"),
        (unsupported.additional_items, "OpenAPIV3Schema 'additionalItems' is not supported"),
        (unsupported.definitions, "OpenAPIV3Schema 'definitions' is not supported"),
        (schema.item_list.is_some(), "OpenAPIV3Schema 'items' must be a schema, but is an array"),
        (
            schema.preserve_unknown_fields == Some(false),
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
        ),
    ] {
        if is_set {
            return Err(reason);
        }
    }
    let branches = schema.all_of.iter().chain(&schema.any_of).chain(&schema.one_of).chain(schema.not.as_deref());
    let parts = schema.properties.values().chain(schema.items.as_deref()).chain(schema.additional_schema());
    branches.chain(parts).try_for_each(convertible)
}

/// What is not structural, in the order of the messages.
pub(super) fn validate(schema: &Schema, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    structure(schema, Level::Root, path, &mut errors);
    completeness(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn structure(schema: &Schema, level: Level, path: &Path, errors: &mut Vec<Error>) {
    if schema.kind == "array" && schema.items.is_none() {
        errors.push(Error::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = &schema.items {
        structure(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in &schema.properties {
        structure(property, Level::Field, &path.child("properties").key(name.as_str()), errors);
    }
    if let Some(additional) = &schema.additional_properties {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(&path, "must not be used at the root"));
        }
        if let Additional::Schema(additional) = additional {
            structure(additional, Level::Field, &path, errors);
        }
    }
    extensions(schema, path, errors);
    let any_of_is_int_or_string = is_int_or_string(&schema.any_of);
    let first_is_int_or_string = schema.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of));
    values(schema, any_of_is_int_or_string, first_is_int_or_string, path, errors);
    types(schema, level, path, errors);
    metadata(schema, level, path, errors);
    if schema.embedded_resource && !schema.preserves_unknown_fields() && schema.properties.is_empty() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&path.child("properties"), detail));
    }
}

fn extensions(schema: &Schema, path: &Path, errors: &mut Vec<Error>) {
    let detail = "must be false if x-kubernetes-int-or-string is true";
    if schema.int_or_string && schema.preserves_unknown_fields() {
        errors.push(Error::invalid(&path.child("x-kubernetes-preserve-unknown-fields"), true, detail));
    }
    if schema.int_or_string && schema.embedded_resource {
        errors.push(Error::invalid(&path.child("x-kubernetes-embedded-resource"), true, detail));
    }
}

fn types(schema: &Schema, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let path_of_type = path.child("type");
    if schema.embedded_resource && schema.kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if schema.kind.is_empty() {
            Error::required(&path_of_type, detail)
        } else {
            Error::invalid(&path_of_type, schema.kind.as_str(), detail)
        });
    } else if schema.kind.is_empty() && !schema.int_or_string && !schema.preserves_unknown_fields() {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(Error::required(&path_of_type, format!("must not be empty {place}")));
    }
    if schema.embedded_resource && schema.additional_properties.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(&path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !schema.kind.is_empty() && schema.kind != "object" {
        errors.push(Error::invalid(&path_of_type, schema.kind.as_str(), "must be object at the root"));
    }
}

fn metadata(schema: &Schema, level: Level, path: &Path, errors: &mut Vec<Error>) {
    let is_resource = level == Level::Root || schema.embedded_resource;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.properties.get(name).filter(|property| is_resource && property.kind != "string")
        {
            let path = path.child("properties").key(name).child("type");
            errors.push(Error::invalid(&path, property.kind.as_str(), "must be string"));
        }
    }
    let Some(metadata) = schema.properties.get("metadata") else { return };
    let path = path.child("properties").key("metadata");
    if is_resource && metadata.kind != "object" {
        errors.push(Error::invalid(&path.child("type"), metadata.kind.as_str(), "must be object"));
    }
    let names_only = metadata.properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"));
    let only_names =
        Schema { kind: String::new(), default: None, properties: BTreeMap::new(), ..metadata.clone() }.says_nothing();
    if level == Level::Root && !(names_only && only_names) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(Error::forbidden(&path, detail));
    }
}

impl Schema {
    /// Whether no keyword is set.
    fn says_nothing(&self) -> bool {
        let texts =
            self.kind.is_empty() && self.format_name.is_empty() && self.title.is_empty() && self.description.is_empty();
        let flags = self.nullable
            || self.exclusive_maximum
            || self.exclusive_minimum
            || self.unique_items
            || self.embedded_resource
            || self.int_or_string;
        let numbers = [self.maximum, self.minimum, self.multiple_of].iter().all(Option::is_none);
        let limits = [
            self.max_length,
            self.min_length,
            self.max_items,
            self.min_items,
            self.max_properties,
            self.min_properties,
        ];
        let branches = self.all_of.len() + self.any_of.len() + self.one_of.len() + usize::from(self.not.is_some());
        let parts = self.properties.is_empty() && self.items.is_none() && self.additional_properties.is_none();
        texts
            && !flags
            && numbers
            && limits.iter().all(Option::is_none)
            && branches == 0
            && parts
            && self.default.is_none()
            && self.pattern.is_none()
            && self.required.is_empty()
            && self.enumeration.is_empty()
            && self.preserve_unknown_fields.is_none()
            && self.list_type.is_none()
            && self.list_map_keys.is_empty()
            && self.map_type.is_none()
            && self.validations.is_empty()
    }
}

/// `anyOf: [{type: integer}, {type: string}]`, which controller-gen writes for such fields.
fn is_int_or_string(any_of: &[Schema]) -> bool {
    let is = |schema: &Schema, kind: &str| {
        schema.kind == kind && Schema { kind: String::new(), ..schema.clone() }.says_nothing()
    };
    matches!(any_of, [first, second] if is(first, "integer") && is(second, "string"))
}

/// Keywords that narrow values.
fn values(schema: &Schema, skip_any_of: bool, skip_first_any_of: bool, path: &Path, errors: &mut Vec<Error>) {
    if !skip_any_of {
        for (index, branch) in schema.any_of.iter().enumerate() {
            nested(branch, false, &path.child("anyOf").index(index), errors);
        }
    }
    for (index, branch) in schema.all_of.iter().enumerate() {
        nested(branch, skip_first_any_of && index == 0, &path.child("allOf").index(index), errors);
    }
    for (index, branch) in schema.one_of.iter().enumerate() {
        nested(branch, false, &path.child("oneOf").index(index), errors);
    }
    if let Some(branch) = &schema.not {
        nested(branch, false, &path.child("not"), errors);
    }
    if let Some(pattern) = &schema.pattern
        && let Err(reason) = &pattern.regex
    {
        let detail = format!("must be a valid regular expression, but isn't: {reason}");
        errors.push(Error::invalid(&path.child("pattern"), pattern.source.as_str(), detail));
    }
}

/// A branch of `allOf`, `anyOf`, `oneOf` or `not` may say nothing about the shape.
fn nested(schema: &Schema, skip_any_of: bool, path: &Path, errors: &mut Vec<Error>) {
    values(schema, skip_any_of, false, path, errors);
    if let Some(items) = &schema.items {
        nested(items, false, &path.child("items"), errors);
    }
    for (name, property) in &schema.properties {
        nested(property, false, &path.child("properties").key(name.as_str()), errors);
    }
    let additional = !matches!(schema.additional_properties, None | Some(Additional::Allowed(false)));
    for (is_set, keyword, how) in [
        (!schema.kind.is_empty(), "type", "must be empty"),
        (additional, "additionalProperties", "must be undefined"),
        (schema.default.is_some(), "default", "must be undefined"),
        (!schema.title.is_empty(), "title", "must be empty"),
        (!schema.description.is_empty(), "description", "must be empty"),
        (schema.nullable, "nullable", "must be false"),
        (schema.preserves_unknown_fields(), "x-kubernetes-preserve-unknown-fields", "must be false"),
        (schema.embedded_resource, "x-kubernetes-embedded-resource", "must be false"),
        (schema.int_or_string, "x-kubernetes-int-or-string", "must be false"),
        (!schema.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", "must be empty"),
        (schema.list_type.is_some(), "x-kubernetes-list-type", "must be undefined"),
        (schema.map_type.is_some(), "x-kubernetes-map-type", "must be undefined"),
        (!schema.validations.is_empty(), "x-kubernetes-validations", "must be empty"),
    ] {
        if is_set {
            errors.push(Error::forbidden(&path.child(keyword), format!("{how} to be structural")));
        }
    }
    if schema.properties.contains_key("metadata") {
        let path = path.child("properties").key("metadata");
        errors.push(Error::forbidden(&path, "must not be specified in a nested context"));
    }
}

/// What branches say about must be there outside of them.
fn completeness(branch: &Schema, schema: Option<&Schema>, path: &Path, branch_path: &Path, errors: &mut Vec<Error>) {
    let mut check = |inner: &Schema, inner_path: Path| nested_completeness(inner, schema, path, &inner_path, errors);
    if let Some(not) = &branch.not {
        check(not, branch_path.child("not"));
    }
    for (keyword, branches) in [("allOf", &branch.all_of), ("anyOf", &branch.any_of), ("oneOf", &branch.one_of)] {
        for (index, inner) in branches.iter().enumerate() {
            check(inner, branch_path.child(keyword).index(index));
        }
    }
}

fn nested_completeness(
    branch: &Schema,
    schema: Option<&Schema>,
    path: &Path,
    branch_path: &Path,
    errors: &mut Vec<Error>,
) {
    let Some(schema) = schema else {
        errors.push(Error::required(path, format!("because it is defined in {branch_path}")));
        return;
    };
    completeness(branch, Some(schema), path, branch_path, errors);
    if let Some(items) = &branch.items {
        nested_completeness(items, schema.items.as_deref(), &path.child("items"), &branch_path.child("items"), errors);
    }
    for (name, property) in &branch.properties {
        let below = |path: &Path| path.child("properties").key(name.as_str());
        nested_completeness(property, schema.properties.get(name), &below(path), &below(branch_path), errors);
    }
}
