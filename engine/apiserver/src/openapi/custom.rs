//! Definitions of custom resources: the schema of their `CustomResourceDefinition`, with what the API server adds to it.

use serde_json::{Map, Value, json};

use super::definitions::{OBJECT_META, description, group_version_kind, list, reference};
use crate::discovery::Served;

/// The served versions of a `CustomResourceDefinition`, each with the definitions of its kind and of the list of it.
pub(super) fn served_with_definitions(definition: &Value) -> Vec<(Served, Map<String, Value>)> {
    let versions = definition["spec"]["versions"].as_array();
    let schema = |served: &Served| {
        let version = versions.into_iter().flatten().find(|version| version["name"] == *served.version);
        version.map_or(Value::Null, |version| version["schema"]["openAPIV3Schema"].clone())
    };
    let names = &definition["status"]["acceptedNames"];
    let with_definitions = |served: Served| {
        let name = name(&served.group, &served.version, &served.kind);
        let list_kind = names["listKind"].as_str().map_or_else(|| format!("{}List", served.kind), str::to_owned);
        let list = list(&served.group, &served.version, &list_kind, &served.kind, &name);
        let definitions = [(format!("{name}List"), list), (name, kind(schema(&served), &served))];
        (served, Map::from_iter(definitions))
    };
    Served::custom(definition).into_iter().map(with_definitions).collect()
}

/// The name of the definition of a custom kind: `io.kruise.apps.v1alpha1.SidecarSet`.
pub(super) fn name(group: &str, version: &str, kind: &str) -> String {
    let reversed: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

fn kind(mut schema: Value, served: &Served) -> Value {
    if !schema.is_object() {
        // A version without a schema takes anything.
        schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    rewrite(&mut schema);
    add_object_fields(&mut schema);
    let kind = group_version_kind(&served.group, &served.version, &served.kind);
    schema["x-kubernetes-group-version-kind"] = json!([kind]);
    schema
}

/// Spells out what the extensions of Kubernetes mean.
fn rewrite(schema: &mut Value) {
    for field in ["properties", "patternProperties"] {
        if let Some(Value::Object(properties)) = schema.get_mut(field) {
            properties.values_mut().for_each(rewrite);
        }
    }
    for field in ["items", "additionalProperties", "not"] {
        if let Some(below) = schema.get_mut(field).filter(|below| below.is_object()) {
            rewrite(below);
        }
    }
    if schema["x-kubernetes-int-or-string"] == true && schema["anyOf"].is_null() {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        add_object_fields(schema);
        schema["required"] = required_with(&schema["required"], ["kind", "apiVersion"]);
    }
}

fn required_with(required: &Value, names: [&str; 2]) -> Value {
    let mut required = required.as_array().cloned().unwrap_or_default();
    for name in names {
        if !required.iter().any(|given| given == name) {
            required.push(name.into());
        }
    }
    required.into()
}

fn add_object_fields(schema: &mut Value) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let properties = &mut schema["properties"];
    // Kubernetes says the same of them for every kind.
    properties["apiVersion"] = json!({"description": description("apiVersion"), "type": "string"});
    properties["kind"] = json!({"description": description("kind"), "type": "string"});
    properties["metadata"] = json!({"description": description("metadata"), "allOf": [reference(OBJECT_META)]});
}
