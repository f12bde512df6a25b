//! The shape of a custom resource, from the `OpenAPI` schema in its definition.

use std::collections::HashMap;

use serde_json::Value;

use super::{Field, Go, ListType, Node, NodeId, PatchStrategy, Scalar, Schema, Schemas, Struct, builtin};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl Schemas {
    /// The shape of the objects that `openAPIV3Schema` of a `CustomResourceDefinition` describes; it is the [`root`](Schemas::root).
    pub fn from_openapi(schema: &Value) -> Schemas {
        let mut schemas = Schemas::default();
        schemas.add(Node::Any, Go::default());
        schemas.root = schemas.resource(schema);
        schemas
    }

    /// An object that has `apiVersion`, `kind` and `metadata`, whether its schema says so or not.
    fn resource(&mut self, schema: &Value) -> NodeId {
        let mut object = self.object(schema);
        object.fields.retain(|field| !matches!(field.name.as_str(), "apiVersion" | "kind" | "metadata"));
        for name in ["apiVersion", "kind"] {
            let node = self.add(Node::Scalar(Scalar::String), Go::default());
            object.fields.push(field(name, node, None));
        }
        if let Some(metadata) = builtin().get(OBJECT_META) {
            let node = self.import(metadata, &mut HashMap::new());
            object.fields.push(field("metadata", node, None));
        }
        object.fields.sort_by(|one, two| one.name.cmp(&two.name));
        self.add(Node::Struct(object), Go::default())
    }

    fn object(&mut self, schema: &Value) -> Struct {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let mut fields: Vec<Field> = properties
            .map(|(name, property)| {
                let node = self.openapi(property);
                field(name, node, property.get("default").cloned())
            })
            .collect();
        fields.sort_by(|one, two| one.name.cmp(&two.name));
        Struct {
            go_name: String::new(),
            fields,
            atomic: is_atomic(schema),
            preserve_unknown: says(schema, "preserve-unknown-fields"),
        }
    }

    fn openapi(&mut self, schema: &Value) -> NodeId {
        if says(schema, "embedded-resource") {
            return self.resource(schema);
        }
        let node = match schema["type"].as_str() {
            _ if says(schema, "int-or-string") => Node::Scalar(Scalar::IntOrString),
            Some("object") => match &schema["additionalProperties"] {
                Value::Null | Value::Bool(false) => Node::Struct(self.object(schema)),
                values => Node::Map { value: self.openapi(values), atomic: is_atomic(schema) },
            },
            Some("array") => Node::List { item: self.openapi(&schema["items"]), list_type: list_type(schema) },
            Some("string") => Node::Scalar(Scalar::String),
            Some("boolean") => Node::Scalar(Scalar::Bool),
            Some("integer") if schema["format"] == "int32" => Node::Scalar(Scalar::Int32),
            Some("integer") => Node::Scalar(Scalar::Int64),
            Some("number") => Node::Scalar(Scalar::Number),
            _ => Node::Any,
        };
        self.add(node, Go::default())
    }

    /// Copies a shape, and all that it reaches, from another set.
    fn import(&mut self, from: Schema<'_>, done: &mut HashMap<NodeId, NodeId>) -> NodeId {
        if let Some(id) = done.get(&from.id) {
            return *id;
        }
        // A shape may hold itself.
        let go = from.schemas.go.get(from.id.0 as usize).cloned().unwrap_or_default();
        let id = self.add(Node::Any, go);
        done.insert(from.id, id);
        let mut node = from.node().clone();
        match &mut node {
            Node::Struct(object) => {
                object.fields.iter_mut().for_each(|field| field.node = self.import(from.at(field.node), done));
            }
            Node::Map { value: inner, .. } | Node::List { item: inner, .. } => {
                *inner = self.import(from.at(*inner), done);
            }
            Node::Scalar(_) | Node::Any => {}
        }
        self.set(id, node);
        id
    }
}

/// Custom resources are kept as they were given: what is there stays, even if it is empty.
fn field(name: &str, node: NodeId, default: Option<Value>) -> Field {
    let patch = PatchStrategy::default();
    Field {
        name: name.to_owned(),
        inline: None,
        node,
        pointer: true,
        omit_empty: true,
        protobuf: Vec::new(),
        patch,
        default,
    }
}

fn says(schema: &Value, extension: &str) -> bool {
    schema[format!("x-kubernetes-{extension}")] == true
}

fn is_atomic(schema: &Value) -> bool {
    schema["x-kubernetes-map-type"] == "atomic"
}

fn list_type(schema: &Value) -> ListType {
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            ListType::Map(keys.filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => ListType::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_says_how_its_resources_merge() {
        let schemas = Schemas::from_openapi(&json!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {"type": "object", "properties": {"port": {"type": "integer", "format": "int32"},
                        "protocol": {"type": "string", "default": "TCP"}}}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "labels": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                "target": {"x-kubernetes-int-or-string": true},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true},
            }},
        }}));
        let root = schemas.root();
        let names: Vec<&str> = match root.node() {
            Node::Struct(object) => object.fields.iter().map(|field| field.name.as_str()).collect(),
            other => panic!("{other:?}"),
        };
        assert_eq!(names, ["apiVersion", "kind", "metadata", "spec"]);
        let at = |path: &[&str]| path.iter().fold(root, |schema, name| schema.field(name).expect(name).1);
        assert!(
            matches!(at(&["spec", "ports"]).node(), Node::List { list_type: ListType::Map(keys), .. } if keys.len() == 2)
        );
        assert!(matches!(at(&["spec", "tags"]).node(), Node::List { list_type: ListType::Set, .. }));
        assert!(matches!(at(&["spec", "labels"]).node(), Node::Map { atomic: true, .. }));
        assert!(matches!(at(&["spec", "target"]).node(), Node::Scalar(Scalar::IntOrString)));
        assert!(matches!(at(&["spec", "free"]).node(), Node::Struct(Struct { preserve_unknown: true, .. })));
        assert_eq!(at(&["spec", "template", "metadata", "ownerReferences"]).go_type(), "[]v1.OwnerReference");
        assert!(matches!(at(&["metadata", "finalizers"]).node(), Node::List { list_type: ListType::Set, .. }));
    }
}
