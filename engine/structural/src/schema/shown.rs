//! A schema as kube-apiserver shows it in an error: its internal struct written as JSON, with every field and Go's own names.

use serde_json::{Map, Value, json};

use super::Rule;

/// How the value of a keyword is shown.
#[derive(Clone, Copy)]
enum Form {
    /// As it is; `null` where it is missing.
    Plain,
    /// A string that is empty where it is missing.
    Text,
    /// A boolean that is false where it is missing.
    Flag,
    Schema,
    Schemas,
    SchemaMap,
    Items,
    SchemaOrBool,
    Rules,
}

/// Keywords in the order of the Go struct.
const FIELDS: [(&str, &str, Form); 44] = [
    ("ID", "id", Form::Text),
    ("Schema", "$schema", Form::Text),
    ("Ref", "$ref", Form::Plain),
    ("Description", "description", Form::Text),
    ("Type", "type", Form::Text),
    ("Nullable", "nullable", Form::Flag),
    ("Format", "format", Form::Text),
    ("Title", "title", Form::Text),
    ("Default", "default", Form::Plain),
    ("Maximum", "maximum", Form::Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Form::Flag),
    ("Minimum", "minimum", Form::Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Form::Flag),
    ("MaxLength", "maxLength", Form::Plain),
    ("MinLength", "minLength", Form::Plain),
    ("Pattern", "pattern", Form::Text),
    ("MaxItems", "maxItems", Form::Plain),
    ("MinItems", "minItems", Form::Plain),
    ("UniqueItems", "uniqueItems", Form::Flag),
    ("MultipleOf", "multipleOf", Form::Plain),
    ("Enum", "enum", Form::Plain),
    ("MaxProperties", "maxProperties", Form::Plain),
    ("MinProperties", "minProperties", Form::Plain),
    ("Required", "required", Form::Plain),
    ("Items", "items", Form::Items),
    ("AllOf", "allOf", Form::Schemas),
    ("OneOf", "oneOf", Form::Schemas),
    ("AnyOf", "anyOf", Form::Schemas),
    ("Not", "not", Form::Schema),
    ("Properties", "properties", Form::SchemaMap),
    ("AdditionalProperties", "additionalProperties", Form::SchemaOrBool),
    ("PatternProperties", "patternProperties", Form::SchemaMap),
    ("Dependencies", "dependencies", Form::Plain),
    ("AdditionalItems", "additionalItems", Form::SchemaOrBool),
    ("Definitions", "definitions", Form::SchemaMap),
    ("ExternalDocs", "externalDocs", Form::Plain),
    ("Example", "example", Form::Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Form::Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Form::Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Form::Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Form::Plain),
    ("XListType", "x-kubernetes-list-type", Form::Plain),
    ("XMapType", "x-kubernetes-map-type", Form::Plain),
    ("XValidations", "x-kubernetes-validations", Form::Rules),
];

/// The schema as an error message shows it. The schema was read before, so its depth is bounded.
pub(crate) fn shown_schema(schema: &Value) -> Value {
    Value::Object(FIELDS.iter().map(|(shown, key, form)| ((*shown).to_owned(), show(&schema[*key], *form))).collect())
}

/// Fields that are set, by their Go names, in the order of the Go struct.
pub(crate) fn set_fields(schema: &Value) -> impl Iterator<Item = &'static str> {
    FIELDS.iter().filter(|(_, key, _)| is_set(&schema[*key])).map(|(shown, _, _)| *shown)
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// The rule as an error message shows it.
pub(crate) fn shown_rule(rule: &Rule) -> Value {
    json!({
        "Rule": rule.rule,
        "Message": rule.message,
        "MessageExpression": rule.message_expression,
        "Reason": rule.reason,
        "FieldPath": rule.field_path,
        "OptionalOldSelf": rule.optional_old_self,
    })
}

fn show(value: &Value, form: Form) -> Value {
    match form {
        Form::Text => json!(value.as_str().unwrap_or_default()),
        Form::Flag => json!(value.as_bool().unwrap_or_default()),
        Form::Plain => sorted(value),
        Form::Schema if value.is_object() => shown_schema(value),
        Form::Schemas => match value {
            Value::Array(schemas) => schemas.iter().map(shown_schema).collect(),
            _ => Value::Null,
        },
        Form::SchemaMap => match value {
            Value::Object(schemas) => in_order(schemas, shown_schema),
            _ => Value::Null,
        },
        Form::Items => match value {
            Value::Array(schemas) => {
                json!({"Schema": null, "JSONSchemas": schemas.iter().map(shown_schema).collect::<Value>()})
            }
            Value::Object(_) => json!({"Schema": shown_schema(value), "JSONSchemas": null}),
            _ => Value::Null,
        },
        Form::SchemaOrBool => match value {
            Value::Bool(allowed) => json!({"Allows": allowed, "Schema": null}),
            Value::Object(_) => json!({"Allows": true, "Schema": shown_schema(value)}),
            _ => Value::Null,
        },
        Form::Rules => match value {
            Value::Array(rules) => rules.iter().map(|rule| shown_rule(&Rule::read(rule))).collect(),
            _ => Value::Null,
        },
        Form::Schema => Value::Null,
    }
}

/// A value with its keys in order, as Go writes maps.
pub(crate) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(entries) => in_order(entries, sorted),
        Value::Array(items) => items.iter().map(sorted).collect(),
        _ => value.clone(),
    }
}

fn in_order(entries: &Map<String, Value>, show: impl Fn(&Value) -> Value) -> Value {
    let mut keys: Vec<&String> = entries.keys().collect();
    keys.sort();
    Value::Object(keys.into_iter().map(|key| (key.clone(), show(&entries[key]))).collect())
}
