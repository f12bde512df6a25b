//! Definitions of Kubernetes' own types: their fields and descriptions as k8s-openapi has them, with what it leaves out:
//! how lists merge, which kinds the types are, and references in the form that the API server writes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pillion_patch::schema::{self, Field, ListType, Node, Struct};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Prefix of every reference.
pub(super) const REFERENCE: &str = "#/components/schemas/";

pub(super) const CONTAINER: &str = "io.k8s.api.core.v1.Container";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

struct Builtin {
    definitions: Map<String, Value>,
    /// Group, version and kind, and the name of the definition.
    names: Vec<[String; 4]>,
}

/// What `generate.rs` makes of k8s-openapi's types, and programs carry.
#[derive(Default, Deserialize)]
struct Table {
    kinds: Vec<[String; 4]>,
    definitions: Map<String, Value>,
}

static BUILTIN: LazyLock<Builtin> = LazyLock::new(Builtin::new);

/// The name of the definition of a kind of Kubernetes' own.
pub(super) fn name(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    let builtin: &'static Builtin = &BUILTIN;
    let found = builtin.names.iter().find(|[g, v, k, _]| [g, v, k] == [group, version, kind]);
    found.map(|[.., name]| name.as_str())
}

/// What Kubernetes says of a field that objects of every kind have.
pub(super) fn description(field: &str) -> &'static Value {
    let builtin: &'static Builtin = &BUILTIN;
    builtin
        .definitions
        .get("io.k8s.api.core.v1.ConfigMap")
        .map_or(&Value::Null, |kind| &kind["properties"][field]["description"])
}

/// Every definition that `from` refers to, and those that they refer to, out of `own` and of Kubernetes' own.
pub(super) fn closure(from: &Value, own: &Map<String, Value>) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let mut wanted = Vec::new();
    references(from, &mut wanted);
    while let Some(name) = wanted.pop() {
        if found.contains_key(&name) {
            continue;
        }
        if let Some(definition) = own.get(&name).or_else(|| BUILTIN.definitions.get(&name)) {
            references(definition, &mut wanted);
            found.insert(name, definition.clone());
        }
    }
    found
}

pub(super) fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str().and_then(|reference| reference.strip_prefix(REFERENCE)) {
                    Some(name) if key == "$ref" => found.push(name.to_owned()),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Adds the field of KEP-0008 to the definition of a container.
pub(super) fn add_sidecar_field(container: &mut Value) {
    container["properties"][pillion_kinds::pod::SIDECAR_FIELD] = json!({
        "description": "The container is a sidecar: it is stopped when all other containers of `containers` have ended for good. At least one container of a pod is no sidecar. May not be set for init containers.",
        "type": "boolean",
    });
}

/// A reference to a definition.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("{REFERENCE}{name}")})
}

/// What says of a definition which kind it is.
pub(super) fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// The definition of a list of objects.
pub(super) fn list(group: &str, version: &str, list_kind: &str, kind: &str, item: &str) -> Value {
    json!({
        "description": format!("{list_kind} is a list of {kind}."),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": "Group and version of the kind.", "type": "string"},
            "items": {"description": "The objects.", "type": "array", "items": reference(item)},
            "kind": {"description": "Kind of the list.", "type": "string"},
            "metadata": {"description": "Metadata of the list.", "allOf": [reference(LIST_META)]},
        },
        "x-kubernetes-group-version-kind": [group_version_kind(group, version, list_kind)],
    })
}

impl Builtin {
    fn new() -> Builtin {
        let table: Table = serde_json::from_str(include_str!("builtin.json")).unwrap_or_default();
        let mut builtin = Builtin { definitions: Map::new(), names: table.kinds };
        for (name, mut definition) in table.definitions {
            if let Some(Node::Struct(shape)) = schema::builtin().get(&name).map(|schema| schema.node()) {
                extend(&mut definition, shape);
            }
            rewrite(&mut definition);
            if name == INT_OR_STRING {
                definition["oneOf"] = json!([{"type": "integer"}, {"type": "string"}]);
                definition["format"] = "int-or-string".into();
            }
            builtin.definitions.insert(name, definition);
        }
        for [group, version, kind, name] in &builtin.names {
            if let Some(definition) = builtin.definitions.get_mut(name) {
                definition["x-kubernetes-group-version-kind"] = json!([group_version_kind(group, version, kind)]);
                require_only(definition, |field| field != "metadata");
            }
            let list_kind = format!("{kind}List");
            builtin.definitions.insert(format!("{name}List"), list(group, version, &list_kind, kind, name));
        }
        builtin
    }
}

/// Leaves out of `required` what Rust needs and a manifest may leave out.
fn require_only(definition: &mut Value, is_required: impl Fn(&str) -> bool) {
    let Some(definition) = definition.as_object_mut() else { return };
    if let Some(Value::Array(required)) = definition.get_mut("required") {
        required.retain(|name| name.as_str().is_some_and(&is_required));
        if required.is_empty() {
            definition.shift_remove("required");
        }
    }
}

/// A reference with company becomes `allOf`, and what may be a number or a text says so in `OpenAPI`.
fn rewrite(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        Value::Object(fields) => {
            fields.values_mut().for_each(rewrite);
            // JSON schemas are themselves a type here, with fields of the same names; those hold objects.
            if fields.len() > 1 && fields.get("$ref").is_some_and(Value::is_string) {
                let reference = fields.shift_remove("$ref");
                fields.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            if fields.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
                fields.shift_remove("x-kubernetes-int-or-string");
                fields.insert("oneOf".to_owned(), json!([{"type": "string"}, {"type": "number"}]));
            }
        }
        _ => {}
    }
}

/// Adds how the fields merge, and takes what Go leaves out when it is empty for what need not be there.
fn extend(definition: &mut Value, shape: &Struct) {
    require_only(definition, |name| !shape.fields.iter().any(|field| field.name == name && field.omit_empty));
    if shape.atomic {
        definition["x-kubernetes-map-type"] = "atomic".into();
    }
    for field in &shape.fields {
        if let Some(property) = definition["properties"].get_mut(&field.name) {
            extend_field(property, field);
        }
    }
}

fn extend_field(property: &mut Value, field: &Field) {
    if let Some(default) = &field.default {
        property["default"] = default.clone();
    }
    match schema::builtin().root().at(field.node).node() {
        Node::Map { atomic: true, .. } => property["x-kubernetes-map-type"] = "atomic".into(),
        Node::List { list_type: ListType::Set, .. } => property["x-kubernetes-list-type"] = "set".into(),
        Node::List { list_type: ListType::Map(keys), .. } => {
            property["x-kubernetes-list-map-keys"] = json!(keys);
            property["x-kubernetes-list-type"] = "map".into();
        }
        _ => {}
    }
    let strategies = [(field.patch.merge, "merge"), (field.patch.retain_keys, "retainKeys")];
    let strategies: Vec<&str> = strategies.iter().filter(|(holds, _)| *holds).map(|(_, name)| *name).collect();
    if let Some(key) = &field.patch.merge_key {
        property["x-kubernetes-patch-merge-key"] = key.as_str().into();
    }
    if !strategies.is_empty() {
        property["x-kubernetes-patch-strategy"] = strategies.join(",").into();
    }
}
