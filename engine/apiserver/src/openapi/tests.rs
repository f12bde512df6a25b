//! What kubectl reads from the documents.

use std::sync::Arc;

use pillion_kinds::resource;
use serde_json::{Value, json};

use super::*;

fn gadgets(generation: i64, description: &str) -> Arc<Value> {
    Arc::new(json!({
        "metadata": {"name": "gadgets.example.dev", "uid": "1", "generation": generation},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}, "scale": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "description": description,
                    "properties": {"spec": {"type": "object", "properties": {
                        "port": {"x-kubernetes-int-or-string": true},
                        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string", "description": "Its name."}}}},
                        "object": {"type": "object", "x-kubernetes-embedded-resource": true},
                    }}},
                }},
            }],
        },
        "status": {"acceptedNames": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}},
    }))
}

fn document(custom: &[Arc<Value>], group: &str, version: &str) -> Value {
    let document = OpenApi::default().document(custom, group, version).expect("a document");
    serde_json::from_slice(&document.json).expect("JSON")
}

/// Goes down from a kind along fields, as `kubectl explain` does.
fn explain<'a>(document: &'a Value, kind: &str, fields: &[&str]) -> &'a Value {
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let is_kind = |schema: &&Value| schema["x-kubernetes-group-version-kind"][0]["kind"] == kind;
    let mut schema = schemas.values().find(is_kind).expect("the kind");
    for field in fields {
        schema = &resolve(document, schema)["properties"][field];
    }
    schema
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let inner = [&schema["items"], &schema["additionalProperties"], &schema["allOf"][0]]
        .into_iter()
        .find(|inner| inner.is_object());
    match (schema["$ref"].as_str(), inner) {
        (Some(reference), _) => {
            let name = reference.strip_prefix("#/components/schemas/").expect("a reference");
            resolve(document, &document["components"]["schemas"][name])
        }
        (None, Some(inner)) => resolve(document, inner),
        (None, None) => schema,
    }
}

#[test]
fn every_resource_of_kubernetes_has_a_definition() {
    for resource in resource::all().iter().filter(|resource| resource.group != "metrics.k8s.io") {
        let name = definitions::name(resource.group, resource.version, resource.kind);
        assert_eq!(name, Some(resource.schema), "{}", resource.plural);
        for part in resource.subresources.iter().filter(|part| !part.group.is_empty()) {
            assert!(definitions::name(part.group, part.version, part.kind).is_some(), "{}", part.kind);
        }
    }
}

#[test]
fn no_document_refers_to_what_it_does_not_have() {
    let custom = [gadgets(1, "")];
    let open_api = OpenApi::default();
    let index = open_api.index(&custom);
    let paths = index["paths"].as_object().expect("paths");
    assert!(
        paths.contains_key("api/v1") && paths.contains_key("apis/apps/v1") && paths.contains_key("apis/example.dev/v1")
    );
    for (path, entry) in paths {
        let (group, version) = match path.split('/').collect::<Vec<_>>()[..] {
            ["api", version] => ("", version),
            ["apis", group, version] => (group, version),
            _ => panic!("{path}"),
        };
        let document = open_api.document(&custom, group, version).expect("a document");
        assert_eq!(entry["serverRelativeURL"], format!("/openapi/v3/{path}?hash={}", document.hash));
        let document: Value = serde_json::from_slice(&document.json).expect("JSON");
        let mut wanted = Vec::new();
        definitions::references(&document, &mut wanted);
        for name in wanted {
            assert!(document["components"]["schemas"].get(&name).is_some(), "{path} has no {name}");
        }
    }
}

#[test]
fn fields_can_be_explained() {
    let core = document(&[], "", "v1");
    let resources = explain(&core, "Pod", &["spec", "containers", "resources"]);
    assert!(resources["description"].as_str().is_some_and(|text| text.starts_with("Compute Resources")));
    let limits = explain(&core, "Pod", &["spec", "containers", "resources", "limits"]);
    assert_eq!(
        limits["additionalProperties"]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
    );
    assert_eq!(resolve(&core, limits)["oneOf"], json!([{"type": "string"}, {"type": "number"}]));
    assert_eq!(explain(&core, "Pod", &[]).get("required"), None);
}

#[test]
fn lists_say_how_they_merge() {
    let core = document(&[], "", "v1");
    let volumes = explain(&core, "Pod", &["spec", "volumes"]);
    assert_eq!(volumes["x-kubernetes-list-type"], "map");
    assert_eq!(volumes["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(volumes["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    assert_eq!(explain(&core, "Pod", &["metadata", "finalizers"])["x-kubernetes-list-type"], "set");
    assert_eq!(explain(&core, "Pod", &["spec", "nodeSelector"])["x-kubernetes-map-type"], "atomic");
    let claim = &core["components"]["schemas"]["io.k8s.api.core.v1.LocalObjectReference"];
    assert_eq!(claim["x-kubernetes-map-type"], "atomic");
}

#[test]
fn patches_say_that_fields_are_checked() {
    let patch = |document: &Value, path: &str| document["paths"][path]["patch"].clone();
    let apps = patch(&document(&[], "apps", "v1"), "/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
    let custom = document(&[gadgets(1, "")], "example.dev", "v1");
    let custom = patch(&custom, "/apis/example.dev/v1/namespaces/{namespace}/gadgets/{name}");
    for patch in [&apps, &custom] {
        let parameters = patch["parameters"].as_array().expect("parameters");
        assert!(
            parameters.iter().any(|parameter| parameter["name"] == "fieldValidation" && parameter["in"] == "query")
        );
    }
    assert_eq!(
        apps["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    assert_eq!(apps["operationId"], "patchAppsV1NamespacedDeployment");
    let types = |patch: &Value| patch["requestBody"]["content"].as_object().expect("content").len();
    assert_eq!((types(&apps), types(&custom)), (4, 3));
}

#[test]
fn custom_resources_are_objects_like_others() {
    let document = document(&[gadgets(1, "A gadget.")], "example.dev", "v1");
    let gadget = explain(&document, "Gadget", &[]);
    assert_eq!(gadget, &document["components"]["schemas"]["dev.example.v1.Gadget"]);
    assert_eq!(gadget["description"], "A gadget.");
    assert_eq!(explain(&document, "Gadget", &["spec", "parts", "name"])["description"], "Its name.");
    assert_eq!(
        explain(&document, "Gadget", &["spec", "port"])["anyOf"],
        json!([{"type": "integer"}, {"type": "string"}])
    );
    assert_eq!(explain(&document, "Gadget", &["spec", "object"])["required"], json!(["kind", "apiVersion"]));
    assert_eq!(explain(&document, "Gadget", &["metadata", "labels"])["type"], "object");
    let scale = &document["paths"]["/apis/example.dev/v1/namespaces/{namespace}/gadgets/{name}/scale"]["get"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
    assert_eq!(scale["operationId"], "readExampleDevV1NamespacedGadgetScale");
}

#[test]
fn a_document_is_built_again_only_when_its_definition_changed() {
    let open_api = OpenApi::default();
    let first = open_api.document(&[gadgets(1, "one")], "example.dev", "v1").expect("a document");
    let again = open_api.document(&[gadgets(1, "one")], "example.dev", "v1").expect("a document");
    assert!(Arc::ptr_eq(&first, &again));
    let changed = open_api.document(&[gadgets(2, "two")], "example.dev", "v1").expect("a document");
    assert_ne!(first.hash, changed.hash);
    assert!(open_api.document(&[], "example.dev", "v1").is_none());
}
