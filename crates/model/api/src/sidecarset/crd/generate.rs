//! The versions of the definition, made from the types. `cargo xtask gen` writes them into `versions.json`, which programs carry.

use serde_json::{Map, Value, json};

use super::super::{SidecarSetSpec, SidecarSetStatus};
use crate::{names, schema};

/// The fields of the spec whose elements are Kubernetes' own.
const KUBERNETES_LISTS: [&str; 3] = ["containers", "initContainers", "volumes"];

/// The versions with their schemas.
pub fn versions() -> Value {
    json!([version("v1alpha1"), version("v1beta1")])
}

fn version(name: &str) -> Value {
    let is_stored = name == "v1beta1";
    let mut spec = schema::of::<SidecarSetSpec>();
    if let Some(Value::Object(fields)) = spec.get_mut("properties") {
        for list in KUBERNETES_LISTS {
            fields.get_mut(list).map(schema::keep_unknown_fields);
        }
        if !is_stored {
            old_fields(fields);
        }
    }
    json!({
        "name": name,
        "served": true,
        "storage": is_stored,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns(),
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "description": "Defines sidecars, and the pods that get them.",
            "properties": {
                "apiVersion": {"type": "string", "description": format!("`{}/{name}`.", names::GROUP)},
                "kind": {"type": "string", "description": format!("`{}`.", names::SIDECARSET_KIND)},
                "metadata": {"type": "object"},
                "spec": spec,
                "status": status(),
            },
        }},
    })
}

/// What differs in v1alpha1.
fn old_fields(fields: &mut Map<String, Value>) {
    fields.shift_remove("customVersion");
    let description = "The one namespace whose pods are considered. Wins over `namespaceSelector`.";
    fields.insert("namespace".to_owned(), json!({"type": "string", "description": description}));
    // `kubectl explain` reads the other version, and `kubectl apply` stores the whole object a second time in an
    // annotation that may have 256 KiB.
    for list in KUBERNETES_LISTS {
        fields.get_mut(list).and_then(|list| list.get_mut("items")).map(schema::drop_descriptions);
    }
}

fn columns() -> Value {
    let column = |name: &str, kind: &str, path: &str, description: &str| json!({"name": name, "type": kind, "jsonPath": path, "description": description});
    json!([
        column("MATCHED", "integer", ".status.matchedPods", "Pods that the set matches."),
        column("UPDATED", "integer", ".status.updatedPods", "Matched pods that have the latest revision."),
        column("READY", "integer", ".status.readyPods", "Matched pods that are ready."),
        column("AGE", "date", ".metadata.creationTimestamp", "Time since the set was created."),
    ])
}

/// Several controllers write the status, each its own fields and conditions, so no field is required and conditions are a map by type.
fn status() -> Map<String, Value> {
    let mut status = schema::of::<SidecarSetStatus>();
    status.shift_remove("required");
    if let Some(conditions) = status.get_mut("properties").and_then(|properties| properties.get_mut("conditions")) {
        conditions["x-kubernetes-list-type"] = "map".into();
        conditions["x-kubernetes-list-map-keys"] = json!(["type"]);
    }
    status
}
