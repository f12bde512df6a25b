//! The tree of `openAPIV3Schema`: read once per version of a `CustomResourceDefinition`, then walked by everything else.

mod shown;

use std::collections::BTreeMap;

use pillion_regexp::Regexp;
use pillion_rules::field::{Error, Path};
use serde_json::{Map, Value};

pub(crate) use shown::{set_fields, shown_rule, shown_schema, sorted};

use crate::format::Format;

/// Schemas nest a few dozen levels in practice; the bound keeps the recursions over them shallow.
pub(crate) const MAX_DEPTH: usize = 64;

/// The error for a schema that nests deeper.
pub(crate) fn too_deep(path: &Path) -> Error {
    Error::invalid(path, "", format!("nests more than {MAX_DEPTH} levels deep"))
}

/// One schema, with all that Kubernetes reads of it.
#[allow(clippy::struct_excessive_bools, reason = "each is one keyword that is there or not")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    pub(crate) kind: String,
    pub(crate) format: Option<Format>,
    /// `format` as written, known or not.
    pub(crate) format_name: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Vec<String>,
    pub(crate) enumeration: Vec<Value>,
    pub(crate) items: Option<Box<Schema>>,
    /// `items` as a list of schemas, which is refused.
    pub(crate) item_list: Option<Vec<Schema>>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional_properties: Option<Additional>,
    pub(crate) preserve_unknown_fields: Option<bool>,
    pub(crate) embedded_resource: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_type: Option<String>,
    pub(crate) list_map_keys: Vec<String>,
    pub(crate) map_type: Option<String>,
    pub(crate) validations: Vec<Rule>,
    pub(crate) unsupported: Unsupported,
}

/// Keywords that JSON Schema has and Kubernetes refuses.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is one keyword that is there or not")]
pub(crate) struct Unsupported {
    pub(crate) id: bool,
    pub(crate) schema: bool,
    pub(crate) reference: bool,
    pub(crate) pattern_properties: bool,
    pub(crate) dependencies: bool,
    pub(crate) additional_items: bool,
    pub(crate) definitions: bool,
}

/// `additionalProperties`: a schema, or whether there may be any.
#[derive(Clone, Debug)]
pub(crate) enum Additional {
    Schema(Box<Schema>),
    Allowed(bool),
}

/// `pattern`, and its compiled form or why it has none.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) source: String,
    pub(crate) regex: Result<Regexp, pillion_regexp::Error>,
}

/// One of `x-kubernetes-validations`.
#[allow(clippy::struct_field_names, reason = "the names that its users have for them")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    pub(crate) rule: String,
    pub(crate) message: String,
    pub(crate) message_expression: String,
    pub(crate) reason: Option<String>,
    pub(crate) field_path: String,
    pub(crate) optional_old_self: Option<bool>,
}

impl Schema {
    /// Reads a schema. `None` where it nests deeper than anything sensible.
    pub(crate) fn read(schema: &Value) -> Option<Schema> {
        read(schema, 0)
    }

    /// The schema of what is under `key`: its property, else that of additional properties.
    pub(crate) fn field(&self, key: &str) -> Option<&Schema> {
        self.properties.get(key).or_else(|| self.additional_schema())
    }

    pub(crate) fn additional_schema(&self) -> Option<&Schema> {
        match &self.additional_properties {
            Some(Additional::Schema(schema)) => Some(schema),
            _ => None,
        }
    }

    pub(crate) fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
    }

    pub(crate) fn is_list_type(&self, list_type: &str) -> bool {
        self.list_type.as_deref() == Some(list_type)
    }

    /// The types that a value may have.
    pub(crate) fn types(&self) -> &[&str] {
        if self.int_or_string {
            return &["integer", "string"];
        }
        match self.kind.as_str() {
            "" => &[],
            "object" => &["object"],
            "array" => &["array"],
            "string" => &["string"],
            "integer" => &["integer"],
            "number" => &["number"],
            "boolean" => &["boolean"],
            _ => &["unknown"],
        }
    }
}

fn read(value: &Value, depth: usize) -> Option<Schema> {
    if depth > MAX_DEPTH {
        return None;
    }
    let one = |key: &str| match &value[key] {
        Value::Object(_) => read(&value[key], depth + 1).map(Box::new).map(Some),
        _ => Some(None),
    };
    let many = |key: &str| -> Option<Vec<Schema>> {
        value[key].as_array().into_iter().flatten().map(|schema| read(schema, depth + 1)).collect()
    };
    let present = |key: &str| value.get(key).is_some_and(|found| !found.is_null());
    let filled = |key: &str| match &value[key] {
        Value::Object(entries) => !entries.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => false,
    };
    let format_name = text(value, "format");
    let pattern = text(value, "pattern");
    Some(Schema {
        kind: text(value, "type"),
        format: Format::named(&format_name),
        format_name,
        title: text(value, "title"),
        description: text(value, "description"),
        nullable: flag(value, "nullable"),
        default: value.get("default").filter(|default| !default.is_null()).cloned(),
        maximum: value["maximum"].as_f64(),
        exclusive_maximum: flag(value, "exclusiveMaximum"),
        minimum: value["minimum"].as_f64(),
        exclusive_minimum: flag(value, "exclusiveMinimum"),
        multiple_of: value["multipleOf"].as_f64(),
        max_length: value["maxLength"].as_i64(),
        min_length: value["minLength"].as_i64(),
        pattern: (!pattern.is_empty()).then(|| Pattern { regex: Regexp::new(&pattern), source: pattern }),
        max_items: value["maxItems"].as_i64(),
        min_items: value["minItems"].as_i64(),
        unique_items: flag(value, "uniqueItems"),
        max_properties: value["maxProperties"].as_i64(),
        min_properties: value["minProperties"].as_i64(),
        required: texts(value, "required"),
        enumeration: value["enum"].as_array().cloned().unwrap_or_default(),
        items: one("items")?,
        item_list: if value["items"].is_array() { Some(many("items")?) } else { None },
        all_of: many("allOf")?,
        one_of: many("oneOf")?,
        any_of: many("anyOf")?,
        not: one("not")?,
        properties: properties(value["properties"].as_object(), depth)?,
        additional_properties: match &value["additionalProperties"] {
            Value::Bool(allowed) => Some(Additional::Allowed(*allowed)),
            schema @ Value::Object(_) => Some(Additional::Schema(Box::new(read(schema, depth + 1)?))),
            _ => None,
        },
        preserve_unknown_fields: value["x-kubernetes-preserve-unknown-fields"].as_bool(),
        embedded_resource: flag(value, "x-kubernetes-embedded-resource"),
        int_or_string: flag(value, "x-kubernetes-int-or-string"),
        list_type: value["x-kubernetes-list-type"].as_str().map(str::to_owned),
        list_map_keys: texts(value, "x-kubernetes-list-map-keys"),
        map_type: value["x-kubernetes-map-type"].as_str().map(str::to_owned),
        validations: value["x-kubernetes-validations"].as_array().into_iter().flatten().map(Rule::read).collect(),
        unsupported: Unsupported {
            id: filled("id"),
            schema: filled("$schema"),
            reference: present("$ref"),
            pattern_properties: filled("patternProperties"),
            dependencies: present("dependencies"),
            additional_items: present("additionalItems"),
            definitions: filled("definitions"),
        },
    })
}

fn properties(properties: Option<&Map<String, Value>>, depth: usize) -> Option<BTreeMap<String, Schema>> {
    properties.into_iter().flatten().map(|(name, schema)| Some((name.clone(), read(schema, depth + 1)?))).collect()
}

impl Rule {
    fn read(value: &Value) -> Rule {
        Rule {
            rule: text(value, "rule"),
            message: text(value, "message"),
            message_expression: text(value, "messageExpression"),
            reason: value["reason"].as_str().map(str::to_owned),
            field_path: text(value, "fieldPath"),
            optional_old_self: value["optionalOldSelf"].as_bool(),
        }
    }

    /// How error messages name the rule.
    pub(crate) fn name(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn flag(value: &Value, key: &str) -> bool {
    value[key].as_bool().unwrap_or_default()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    value[key].as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}
