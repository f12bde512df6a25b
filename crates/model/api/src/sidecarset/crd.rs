//! The `CustomResourceDefinition` of SidecarSet, with both versions.

use serde_json::{Value, json};

use crate::names;

#[cfg(feature = "schemas")]
mod generate;

#[cfg(feature = "schemas")]
pub use generate::versions;

/// The `CustomResourceDefinition` to apply.
///
/// Containers and volumes keep fields that this schema does not know, at every level, so a cluster that is newer than
/// Pillion loses nothing.
///
/// It says nothing about conversion: the manager registers its webhook there, and applying this must not take that back.
pub fn sidecarset() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("sidecarsets.{}", names::GROUP)},
        "spec": {
            "group": names::GROUP,
            "names": {
                "kind": names::SIDECARSET_KIND,
                "listKind": "SidecarSetList",
                "plural": "sidecarsets",
                "singular": "sidecarset",
            },
            "scope": "Cluster",
            "versions": versions(),
        },
    })
}

/// The versions with their schemas, as they are generated from the types.
#[cfg(not(feature = "schemas"))]
fn versions() -> Value {
    serde_json::from_str(include_str!("crd/versions.json")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Map;

    use super::super::shape::{Kind, Shape, V1ALPHA1, V1BETA1};
    use super::*;

    fn schema_of(version: usize) -> Value {
        sidecarset()["spec"]["versions"][version]["schema"]["openAPIV3Schema"].clone()
    }

    /// Calls `check` with every schema and its path.
    fn each(schema: &Value, path: &str, check: &mut impl FnMut(&Map<String, Value>, &str)) {
        let schema = schema.as_object().unwrap();
        check(schema, path);
        for below in ["items", "additionalProperties"].iter().filter_map(|key| schema.get(*key)) {
            each(below, &format!("{path}[]"), check);
        }
        for (name, field) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            each(field, &format!("{path}.{name}"), check);
        }
    }

    /// The rules of `apiextensions` for structural schemas.
    #[test]
    fn both_schemas_are_structural() {
        const WORDS: [&str; 9] = [
            "type",
            "description",
            "properties",
            "items",
            "additionalProperties",
            "required",
            "enum",
            "format",
            "default",
        ];
        for version in [0, 1] {
            each(&schema_of(version), "", &mut |schema, path| {
                let has = |key: &str| schema.contains_key(key);
                for key in schema.keys() {
                    assert!(WORDS.contains(&key.as_str()) || key.starts_with("x-kubernetes-"), "{path} has {key}");
                }
                let is_untyped = has("x-kubernetes-int-or-string") || has("x-kubernetes-preserve-unknown-fields");
                assert!(schema.get("type").map_or(is_untyped, Value::is_string), "{path} has no type");
                assert_eq!(schema.get("type").is_some_and(|kind| kind == "array"), has("items"), "{path}");
                assert!(!(has("properties") && has("additionalProperties")), "{path} is an object and a map");
                for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                    assert!(schema["properties"].get(name.as_str().unwrap()).is_some(), "{path} has no {name}");
                }
            });
        }
    }

    #[test]
    fn containers_and_volumes_keep_unknown_fields_at_every_level() {
        for (version, list) in [(0, "containers"), (0, "volumes"), (1, "initContainers"), (1, "volumes")] {
            each(&schema_of(version)["properties"]["spec"]["properties"][list], list, &mut |schema, path| {
                let keeps = schema.contains_key("x-kubernetes-preserve-unknown-fields");
                assert!(keeps || !schema.contains_key("properties"), "{path} is pruned");
            });
        }
    }

    #[test]
    fn the_schemas_have_the_fields_that_decoding_knows() {
        fn shape_paths(kind: &Kind, path: &str, paths: &mut BTreeSet<String>) {
            paths.insert(path.to_owned());
            match kind {
                Kind::Object(shape) => {
                    shape.fields().for_each(|field| shape_paths(&field.kind, &format!("{path}.{}", field.name), paths));
                }
                Kind::List(kind) | Kind::Map(kind) => shape_paths(kind, &format!("{path}[]"), paths),
                _ => {}
            }
        }
        let shapes: [&'static Shape; 2] = [&V1ALPHA1, &V1BETA1];
        for (version, shape) in shapes.into_iter().enumerate() {
            let (mut schema_has, mut shape_has) = (BTreeSet::new(), BTreeSet::new());
            each(&schema_of(version), "", &mut |_, path| schema_has.extend([path.to_owned()]));
            shape_paths(&Kind::Object(shape), "", &mut shape_has);
            // Kubernetes brings the schema of metadata.
            shape_has.retain(|path| !path.starts_with(".metadata."));
            assert_eq!(schema_has, shape_has);
        }
    }

    #[test]
    fn the_definition_is_small_enough_for_the_annotation_of_kubectl_apply() {
        let size = sidecarset().to_string().len();
        assert!(size < 220 * 1024, "{size} bytes");
    }

    #[test]
    fn exactly_one_spelling_of_the_resources_policy_is_wanted() {
        let schema = schema_of(1);
        let policy =
            &schema["properties"]["spec"]["properties"]["containers"]["items"]["properties"]["resourcesPolicy"];
        insta::assert_json_snapshot!(policy["x-kubernetes-validations"], @r#"
            [
              {
                "rule": "has(self.targetContainersMode) != has(self.targetContainerMode)",
                "message": "exactly one of targetContainersMode and targetContainerMode is wanted"
              },
              {
                "rule": "has(self.resourcesExpr) != has(self.resourceExpr)",
                "message": "exactly one of resourcesExpr and resourceExpr is wanted"
              }
            ]
            "#);
        insta::assert_json_snapshot!(policy["properties"]["targetContainersNameRegex"], @r#"
            {
              "type": "string",
              "description": "Which containers count, by name; not anchored. Default `.*`. Containers of SidecarSets never count.",
              "default": ".*"
            }
            "#);
        insta::assert_json_snapshot!(policy["properties"]["targetContainersMode"], @r#"
            {
              "type": "string",
              "enum": [
                "sum",
                "max"
              ],
              "description": "How the target containers' resources become one number: `sum` or `max`."
            }
            "#);
    }
}
