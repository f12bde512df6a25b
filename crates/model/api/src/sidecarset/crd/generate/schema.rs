//! A structural schema, as Kubernetes wants it, from a Rust type.
//!
//! Kubernetes refuses much of what a derived schema says: references, alternatives, the type `null`, defaults that are
//! no defaults. It is said here in the words that remain (`enum`, `required`, Kubernetes' own extensions), and what
//! cannot be said is left to validation.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

const KEEP_UNKNOWN_FIELDS: &str = "x-kubernetes-preserve-unknown-fields";

/// The structural schema of a type.
pub(super) fn of<T: JsonSchema>() -> Map<String, Value> {
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let definitions = schema.get("$defs").and_then(Value::as_object).cloned().unwrap_or_default();
    structural(&Schema::to_value(schema), &definitions)
}

fn structural(schema: &Value, definitions: &Map<String, Value>) -> Map<String, Value> {
    let mut out = Map::new();
    if let Some(name) = schema.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/")) {
        out = definition(name, definitions);
    }
    let alternatives = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let alternatives: Vec<_> =
        alternatives.filter(|schema| schema.get("type").is_none_or(|kind| kind != "null")).collect();
    match alternatives.as_slice() {
        [] => {}
        [one] => out = structural(one, definitions),
        words => {
            out.insert("type".to_owned(), "string".into());
            out.insert("enum".to_owned(), words.iter().filter_map(|word| word.get("const").cloned()).collect());
        }
    }
    for (key, value) in schema.as_object().into_iter().flatten() {
        let value = match (key.as_str(), value) {
            ("description", Value::String(text)) => shorten(text).into(),
            // `["string", "null"]` comes from an `Option`. The API server takes a null field for an absent one.
            ("type", Value::Array(kinds)) => kinds.first().cloned().unwrap_or_default(),
            ("items" | "additionalProperties", schema) => structural(schema, definitions).into(),
            ("properties", Value::Object(fields)) => {
                let fields = fields.iter().map(|(name, field)| (name.clone(), structural(field, definitions).into()));
                Value::Object(fields.collect())
            }
            ("type" | "format" | "required", value) => value.clone(),
            (key, value) if key.starts_with("x-kubernetes-") => value.clone(),
            _ => continue,
        };
        out.insert(key.clone(), value);
    }
    let always_written = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let always_written = always_written.filter(|(_, field)| field.get("default").is_some());
    let always_written: Vec<Value> = always_written.map(|(name, _)| name.clone().into()).collect();
    if !always_written.is_empty() {
        out.insert("required".to_owned(), always_written.into());
    }
    out
}

/// A type by its name, for what its derived schema cannot say.
fn definition(name: &str, definitions: &Map<String, Value>) -> Map<String, Value> {
    let mut out = definitions.get(name).map(|schema| structural(schema, definitions)).unwrap_or_default();
    match name {
        // Kubernetes takes `cpu: 0.5`, a number that is neither an integer nor a string; so does Kruise's schema.
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            out.shift_remove("x-kubernetes-int-or-string");
            out.insert(KEEP_UNKNOWN_FIELDS.to_owned(), true.into());
        }
        "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector" => {
            out.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        "ResourcesPolicy" => {
            let exactly_one = |one: &str, other: &str| {
                json!({
                    "rule": format!("has(self.{one}) != has(self.{other})"),
                    "message": format!("exactly one of {one} and {other} is wanted"),
                })
            };
            let rules = [
                exactly_one("targetContainersMode", "targetContainerMode"),
                exactly_one("resourcesExpr", "resourceExpr"),
            ];
            out.insert("x-kubernetes-validations".to_owned(), rules.to_vec().into());
            set_default(&mut out, "targetContainersNameRegex", ".*");
        }
        "InjectRevision" => set_default(&mut out, "policy", "Always"),
        // Kruise takes a reference without a name.
        "LocalObjectReference" => {
            out.shift_remove("required");
            set_default(&mut out, "name", "");
        }
        _ => {}
    }
    out
}

fn set_default(schema: &mut Map<String, Value>, field: &str, value: &str) {
    if let Some(Value::Object(field)) = schema.get_mut("properties").and_then(|fields| fields.get_mut(field)) {
        field.insert("default".to_owned(), value.into());
    }
}

/// The first sentences. A schema with all of Kubernetes' own text would be too big to apply.
fn shorten(text: &str) -> String {
    const ENOUGH: usize = 160;
    let paragraph = text.split("\n\n").next().unwrap_or(text).replace('\n', " ");
    let mut out = String::new();
    for sentence in paragraph.split_inclusive(". ") {
        let is_abbreviated = out.ends_with("e.g. ") || out.ends_with("i.e. ");
        if !out.is_empty()
            && !is_abbreviated
            && (out.len() + sentence.len() > ENOUGH || sentence.starts_with("More info"))
        {
            break;
        }
        out.push_str(sentence);
    }
    out.trim_end().to_owned()
}

/// Lets every object in the schema keep what the schema does not know.
pub(super) fn keep_unknown_fields(schema: &mut Value) {
    visit(schema, &mut |schema| {
        if schema.contains_key("properties") {
            schema.insert(KEEP_UNKNOWN_FIELDS.to_owned(), true.into());
        }
    });
}

/// Takes every description out.
pub(super) fn drop_descriptions(schema: &mut Value) {
    visit(schema, &mut |schema| {
        schema.shift_remove("description");
    });
}

/// Edits a schema and every schema in it.
fn visit(schema: &mut Value, edit: &mut impl FnMut(&mut Map<String, Value>)) {
    let Value::Object(schema) = schema else { return };
    edit(schema);
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get_mut(below) {
            visit(schema, edit);
        }
    }
    for field in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        visit(field, edit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_description_is_cut_between_sentences() {
        assert_eq!(shorten("One. Two."), "One. Two.");
        assert_eq!(shorten("One, e.g. this. More info: https://example.com"), "One, e.g. this.");
        assert_eq!(shorten("First\nline.\n\nSecond paragraph."), "First line.");
        let long = "x".repeat(200);
        assert_eq!(shorten(&format!("{long}. Two.")), format!("{long}."));
    }
}
