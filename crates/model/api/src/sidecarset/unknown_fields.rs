//! Fields that the API does not have: what `kubectl` warns about, with the field that was probably meant.

use std::fmt;

use serde_json::Value;
use strsim::osa_distance;

use super::shape::{Kind, Shape};
use super::version::shape_of;
use crate::field::Path;
use crate::names;

/// Fields that only the other version has: the version that does not, the field, and what there is in its place.
const OF_THE_OTHER_VERSION: [(&str, &str, &str); 2] = [
    (names::V1BETA1, "spec.namespace", "v1beta1 has namespaceSelector instead"),
    (names::V1ALPHA1, "spec.customVersion", "v1alpha1 has the label apps.kruise.io/sidecarset-custom-version instead"),
];

/// A field that the API does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Where it is.
    pub path: Path,
    /// The field that was probably meant.
    pub suggestion: Option<&'static str>,
    /// What this version has in its place, if it is a field of the other version.
    pub instead: Option<&'static str>,
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown field \"{}\"", self.path)?;
        match (self.instead, self.suggestion) {
            (Some(instead), _) => write!(f, ": {instead}"),
            (None, Some(name)) => write!(f, ": did you mean \"{name}\"?"),
            (None, None) => Ok(()),
        }
    }
}

/// Every field of a SidecarSet that its version of the API does not have, in the order of the object.
///
/// ```
/// use pillion_api::sidecarset::unknown_fields;
/// let unknown = unknown_fields(&serde_json::json!({
///     "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
///     "spec": {"containers": [{"name": "proxy", "imge": "envoy"}]}
/// }));
/// assert_eq!(unknown[0].to_string(), r#"unknown field "spec.containers[0].imge": did you mean "image"?"#);
/// ```
pub fn unknown_fields(object: &Value) -> Vec<UnknownField> {
    let mut unknown = Vec::new();
    if let Ok(shape) = shape_of(object) {
        collect(&Kind::Object(shape), object, &Path::root(), &mut unknown);
    }
    for field in &mut unknown {
        let path = field.path.to_string();
        let found =
            OF_THE_OTHER_VERSION.iter().find(|(version, own, _)| object["apiVersion"] == *version && path == *own);
        field.instead = found.map(|(_, _, instead)| *instead);
    }
    unknown
}

fn collect(kind: &Kind, value: &Value, path: &Path, unknown: &mut Vec<UnknownField>) {
    match (kind, value) {
        (Kind::Object(shape), Value::Object(fields)) => {
            for (name, value) in fields {
                let path = path.child(name);
                if let Some(field) = shape.field(name) {
                    collect(&field.kind, value, &path, unknown);
                } else {
                    unknown.push(UnknownField { path, suggestion: nearest(shape, name), instead: None });
                }
            }
        }
        (Kind::List(kind), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                collect(kind, item, &path.index(index), unknown);
            }
        }
        _ => {}
    }
}

/// The field whose name takes the fewest edits, if those are few enough for a slip of the hand.
fn nearest(shape: &'static Shape, name: &str) -> Option<&'static str> {
    // A longer name than any field's is no slip, and comparing it would only cost time.
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let most = (name.chars().count() / 3).max(1);
    let written = name.to_lowercase();
    let near = shape.fields().map(|field| (osa_distance(&written, &field.name.to_lowercase()), field.name));
    near.filter(|(distance, _)| *distance <= most).min().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::{V1ALPHA1, V1BETA1};

    fn warnings(api_version: &str, spec: &Value) -> String {
        let object = json!({"apiVersion": api_version, "kind": "SidecarSet", "metadata": {"nmae": "a"}, "spec": spec});
        unknown_fields(&object).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn unknown_fields_are_found_at_every_level() {
        insta::assert_snapshot!(
            warnings(V1BETA1, &json!({
                "injectStrategies": {},
                "containers": [
                    {"name": "a", "Image": "b", "resource": {}, "quark": 1, "livenessProbe": {"httpGet": {"prot": 80}}},
                    {"resources": {"limits": {"example.com/any": 1}}, "resourcesPolicy": {"targetContainerModes": "sum"}}
                ],
                "volumes": [{"name": "v", "emptydir": {}, "projected": {"sources": [{"configMap": {"nam": "x"}}]}}]
            })),
            @r#"
                unknown field "metadata.nmae": did you mean "name"?
                unknown field "spec.injectStrategies": did you mean "injectStrategy"?
                unknown field "spec.containers[0].Image": did you mean "image"?
                unknown field "spec.containers[0].resource": did you mean "resources"?
                unknown field "spec.containers[0].quark"
                unknown field "spec.containers[0].livenessProbe.httpGet.prot": did you mean "port"?
                unknown field "spec.containers[1].resourcesPolicy.targetContainerModes": did you mean "targetContainerMode"?
                unknown field "spec.volumes[0].emptydir": did you mean "emptyDir"?
                unknown field "spec.volumes[0].projected.sources[0].configMap.nam": did you mean "name"?
                "#
        );
    }

    #[test]
    fn each_version_has_its_own_fields() {
        let spec = json!({"namespace": "shop", "customVersion": "v1"});
        insta::assert_snapshot!(warnings(V1ALPHA1, &spec), @r#"
            unknown field "metadata.nmae": did you mean "name"?
            unknown field "spec.customVersion": v1alpha1 has the label apps.kruise.io/sidecarset-custom-version instead
            "#);
        insta::assert_snapshot!(warnings(V1BETA1, &spec), @r#"
            unknown field "metadata.nmae": did you mean "name"?
            unknown field "spec.namespace": v1beta1 has namespaceSelector instead
            "#);
    }
}
