//! Validation of the schemas in a CustomResourceDefinition.

use pillion_rules::field::{Error, Path};
use pillion_structural::crd::{self, Context};
use serde_json::Value;

/// What is wrong with the schemas of a definition.
pub(crate) fn schema_errors(definition: &Value, old: Option<&Value>) -> Vec<Error> {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let before = |name: &Value| {
        let versions = old.map(|old| &old["spec"]["versions"]).and_then(Value::as_array);
        versions.and_then(|versions| versions.iter().find(|version| version["name"] == *name)).cloned()
    };
    // What all versions have in common was a field of the spec once, and messages still say so.
    let same = |key: &str| versions.windows(2).all(|pair| matches!(pair, [a, b] if a.get(key) == b.get(key)));
    let (one_schema, one_selection) = (same("schema"), same("selectableFields"));
    let mut errors = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let own = Path::new("spec").child("versions").index(index);
        let schema = &version["schema"]["openAPIV3Schema"];
        let first = index == 0;
        if !schema.is_null() && (first || !one_schema) {
            let path = if one_schema { Path::new("spec").child("validation") } else { own.child("schema") };
            let context = Context {
                has_status: version["subresources"].get("status").is_some(),
                is_unchanged: before(&version["name"]).is_some_and(|old| old["schema"] == version["schema"]),
            };
            errors.extend(crd::validate_schema(schema, &path, context));
        }
        if version.get("selectableFields").is_some() && (first || !one_selection) {
            let path = if one_selection { Path::new("spec") } else { own };
            errors.extend(crd::validate_selectable_fields(
                &version["selectableFields"],
                schema,
                &path.child("selectableFields"),
            ));
        }
    }
    errors
}
