//! What the schema of a `CustomResourceDefinition` may say.

mod cost;
mod defaults;
mod keywords;
mod shape;

use pillion_rules::field::{Error, Path};
use serde_json::Value;

use crate::schema::{Schema, set_fields, shown_schema, too_deep};

pub use crate::field_path::validate_selectable_fields;

/// What is around a schema that decides how it is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// The version has the status subresource, so that `status` has to be a property of its own.
    pub has_status: bool,
    /// An update leaves the schema as it was: rules that would cost too much today were accepted before.
    pub is_unchanged: bool,
}

/// Fields of a schema's root that leave `properties.status` a schema of its own, by their Go names.
const AT_ROOT: [&str; 22] = [
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
];

/// Checks `openAPIV3Schema` of a new or changed `CustomResourceDefinition`. `path` is that of what holds it: `spec.validation` where all
/// versions have the same schema, else `spec.versions[0].schema`.
pub fn validate_schema(schema: &Value, path: &Path, context: Context) -> Vec<Error> {
    let schema_path = path.child("openAPIV3Schema");
    let Some(root) = Schema::read(schema) else { return vec![too_deep(&schema_path)] };
    let mut errors = Vec::new();
    if context.has_status {
        errors.extend(status_error(schema, &root, path));
    }
    if root.nullable {
        errors.push(Error::forbidden(&path.child("openAPIV3Schema.nullable"), "nullable cannot be true at the root"));
    }
    let convertible = shape::convertible(&root);
    let mut rules_matter = false;
    if convertible.is_ok() {
        let found = shape::validate(&root, &schema_path);
        let found = if found.is_empty() { defaults::validate(&root, &schema_path) } else { found };
        rules_matter = found.is_empty();
        errors.extend(found);
    }
    let mut total = cost::Total::default();
    let rules = rules_matter.then(|| cost::Scope::root(&root, &mut total, context.is_unchanged));
    errors.extend(keywords::validate(&root, &schema_path, rules));
    // What cannot be converted has been reported before with a better message, if there is one.
    if let (Err(reason), true) = (convertible, errors.is_empty()) {
        errors.push(Error::invalid(&schema_path, "", reason));
    }
    errors.extend(total.errors(&schema_path));
    errors
}

fn status_error(schema: &Value, root: &Schema, path: &Path) -> Option<Error> {
    for field in set_fields(schema) {
        if field == "Type" {
            if root.kind != "object" {
                let detail = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
                return Some(Error::invalid(&path.child("openAPIV3Schema.type"), root.kind.as_str(), detail));
            }
        } else if !AT_ROOT.contains(&field) {
            let detail = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                AT_ROOT.join(" ")
            );
            return Some(Error::invalid(&path.child("openAPIV3Schema"), shown_schema(schema), detail));
        }
    }
    None
}
