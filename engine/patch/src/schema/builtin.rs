//! The types of Kubernetes' own API, from a table that `cargo xtask gen` makes of Go's types and their `OpenAPI` definitions.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::{Field, Form, Go, ListType, Node, NodeId, PatchStrategy, Scalar, Schemas, Struct};

const TABLE: &str = include_str!("builtin.json");

static BUILTIN: LazyLock<Schemas> = LazyLock::new(|| {
    let mut schemas = Schemas::from_table(TABLE).unwrap_or_default();
    schemas.add_sidecar_field();
    schemas
});

/// The shapes of Kubernetes' own types, by their `OpenAPI` names: `io.k8s.api.core.v1.Pod`.
pub fn builtin() -> &'static Schemas {
    &BUILTIN
}

#[derive(Deserialize)]
struct Row {
    go: String,
    #[serde(default)]
    atomic: bool,
    fields: Vec<Column>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Column {
    name: String,
    inline: Option<String>,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(default)]
    pointer: bool,
    #[serde(default)]
    keep: bool,
    #[serde(default)]
    protobuf: Vec<u32>,
    #[serde(default)]
    patch: String,
    merge_key: Option<String>,
    list: Option<String>,
    #[serde(default)]
    keys: Vec<String>,
    #[serde(default)]
    atomic: bool,
    default: Option<Value>,
}

impl Schemas {
    /// The one field that Kubernetes does not have: `containers[].sidecar` of KEP-0008. The API server drops it where its gate is off.
    fn add_sidecar_field(&mut self) {
        let node = self.add(Node::Scalar(Scalar::Bool), Go::default());
        let container = self.names.get("io.k8s.api.core.v1.Container").and_then(|id| self.nodes.get_mut(id.0 as usize));
        if let Some(Node::Struct(container)) = container {
            container.fields.push(Field {
                name: "sidecar".to_owned(),
                inline: None,
                node,
                pointer: false,
                omit_empty: true,
                protobuf: Vec::new(),
                patch: PatchStrategy::default(),
                default: None,
            });
        }
    }

    /// `None` if the table names a type that it does not have.
    pub(crate) fn from_table(table: &str) -> Option<Schemas> {
        let rows: HashMap<String, Row> = serde_json::from_str(table).ok()?;
        let mut schemas = Schemas::default();
        schemas.root = schemas.add(Node::Any, Go::default());
        for name in rows.keys() {
            let id = schemas.add(Node::Any, Go::default());
            schemas.names.insert(name.clone(), id);
        }
        for (name, row) in rows {
            let id = *schemas.names.get(&name)?;
            let fields: Option<Vec<Field>> = row.fields.into_iter().map(|column| schemas.field(column)).collect();
            schemas.set(
                id,
                Node::Struct(Struct { go_name: row.go, fields: fields?, atomic: row.atomic, preserve_unknown: false }),
            );
        }
        Some(schemas)
    }

    fn field(&mut self, column: Column) -> Option<Field> {
        let list_type = match column.list.as_deref() {
            None => ListType::Atomic,
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(column.keys),
            Some(_) => return None,
        };
        let node = self.type_named(&column.type_name, list_type, column.atomic)?;
        let has = |strategy: &str| column.patch.split(',').any(|word| word == strategy);
        let patch = PatchStrategy {
            merge: has("merge"),
            replace: has("replace"),
            retain_keys: has("retainKeys"),
            merge_key: column.merge_key.clone(),
        };
        Some(Field {
            name: column.name,
            inline: column.inline,
            node,
            pointer: column.pointer,
            omit_empty: !column.keep,
            protobuf: column.protobuf,
            patch,
            default: column.default,
        })
    }

    /// A type as the table writes it: `v1.ResourceList={}quantity`.
    fn type_named(&mut self, text: &str, list_type: ListType, atomic: bool) -> Option<NodeId> {
        let (name, text) = match text.split_once('=') {
            // The name of an element's type is not that of the list.
            Some((name, rest)) if !name.starts_with("[]") && !name.starts_with("{}") => (Some(name.to_owned()), rest),
            _ => (None, text),
        };
        let mut form = Form::Plain;
        let node = if let Some(item) = text.strip_prefix("[]") {
            Node::List { item: self.type_named(item, ListType::Atomic, false)?, list_type }
        } else if let Some(value) = text.strip_prefix("{}") {
            Node::Map { value: self.type_named(value, ListType::Atomic, false)?, atomic }
        } else {
            match text {
                "string" => Node::Scalar(Scalar::String),
                "bool" => Node::Scalar(Scalar::Bool),
                "int32" => Node::Scalar(Scalar::Int32),
                "int64" => Node::Scalar(Scalar::Int64),
                "float64" => Node::Scalar(Scalar::Float64),
                "bytes" => Node::Scalar(Scalar::Bytes),
                "int-or-string" => Node::Scalar(Scalar::IntOrString),
                "quantity" => Node::Scalar(Scalar::Quantity),
                "time" => Node::Scalar(Scalar::Time),
                "micro-time" => Node::Scalar(Scalar::MicroTime),
                "any" => Node::Any,
                "duration" => {
                    form = Form::Duration;
                    Node::Scalar(Scalar::String)
                }
                "schema-or-bool" | "schema-or-array" | "schema-or-strings" => {
                    form = match text {
                        "schema-or-bool" => Form::SchemaOrBool,
                        "schema-or-array" => Form::SchemaOrArray,
                        _ => Form::SchemaOrStrings,
                    };
                    Node::Any
                }
                object => return self.names.get(object).copied(),
            }
        };
        Some(self.add(node, Go { name, form }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let schemas = Schemas::from_table(TABLE).expect("every type is there");
        let pod = schemas.get("io.k8s.api.core.v1.Pod").expect("Pod");
        let (_, spec) = pod.field("spec").expect("spec");
        let (containers, list) = spec.field("containers").expect("containers");
        assert_eq!(list.go_type(), "[]v1.Container");
        assert!(!containers.omit_empty);
        assert_eq!(containers.patch.merge_key.as_deref(), Some("name"));
        assert!(matches!(list.node(), Node::List { list_type: ListType::Map(keys), .. } if keys == &["name"]));
        let go_type = |field: &str| spec.field(field).expect("a field").1.go_type();
        assert_eq!(go_type("restartPolicy"), "v1.RestartPolicy");
        assert_eq!(go_type("overhead"), "v1.ResourceList");
        assert_eq!(go_type("nodeSelector"), "map[string]string");
        assert!(matches!(spec.field("nodeSelector").expect("a field").1.node(), Node::Map { atomic: true, .. }));
    }

    #[test]
    fn every_kind_that_is_served_is_there() {
        for name in [
            "io.k8s.api.core.v1.Event",
            "io.k8s.api.events.v1.Event",
            "io.k8s.api.apps.v1.ControllerRevision",
            "io.k8s.api.policy.v1.Eviction",
            "io.k8s.api.autoscaling.v1.Scale",
            "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
            "io.k8s.api.authentication.v1.TokenRequest",
            "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
            "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
            "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
            "io.k8s.metrics.pkg.apis.metrics.v1beta1.PodMetrics",
        ] {
            assert!(builtin().get(name).is_some(), "{name}");
        }
    }
}
