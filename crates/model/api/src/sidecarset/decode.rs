//! From JSON of either version to the one type.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::shape::V1BETA1;
use super::version::{DecodeError, shape_of};
use super::{SidecarSet, convert};
use crate::field;
use crate::field_path::field_path;

/// Reads a SidecarSet of either version. A field that is `null` counts as absent.
///
/// ```
/// use pillion_api::sidecarset::decode;
/// let error = decode(serde_json::json!({
///     "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
///     "spec": {"containers": [{"name": "proxy", "ports": [{"containerPort": "http"}]}]}
/// }));
/// assert_eq!(
///     error.unwrap_err().to_string(),
///     r#"spec.containers[0].ports[0].containerPort: Invalid value: "http": must be an integer of 32 bits"#
/// );
/// ```
///
/// # Errors
/// Another kind of object, an unknown version, or fields with values of the wrong type.
pub fn decode(object: Value) -> Result<SidecarSet, DecodeError> {
    let errors = shape_of(&object)?.check(&object);
    if !errors.is_empty() {
        return Err(DecodeError::Fields(errors));
    }
    let mut object = convert::to_v1beta1(object);
    if let Value::Object(fields) = &mut object {
        V1BETA1.normalise(fields);
        for part in ["metadata", "spec"] {
            fields.entry(part).or_insert_with(|| json!({}));
        }
    }
    // To follow the path of each field costs more than the rest; it is needed only for an error.
    SidecarSet::deserialize(&object).or_else(|_| serde_path_to_error::deserialize(&object)).map_err(|error| {
        let detail = error.inner().to_string();
        DecodeError::Fields(vec![field::Error::type_invalid(&field_path(error.path()), Value::Null, detail)])
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::names;

    fn object(spec: &Value) -> Value {
        json!({"apiVersion": names::V1BETA1, "kind": "SidecarSet", "metadata": {"name": "test"}, "spec": spec})
    }

    fn errors_of(spec: &Value) -> String {
        match decode(object(spec)) {
            Err(DecodeError::Fields(errors)) => errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn every_value_of_the_wrong_type_is_named_with_its_path() {
        insta::assert_snapshot!(
            errors_of(&json!({
                "selector": {"matchLabels": {"app": 5}},
                "updateStrategy": {"paused": "yes", "partition": 1.5, "priorityStrategy": {"weightPriority": [{"weight": 1e10}]}},
                "containers": [
                    {"name": "a"},
                    {
                        "name": "b",
                        "podInjectPolicy": 5,
                        "transferEnv": [{"envNames": "A"}, null],
                        "env": [{"name": "X", "value": true}],
                        "resources": {"limits": {"cpu": "1x", "memory": null}, "requests": []},
                        "ports": [{"containerPort": "80"}],
                        "resourcesPolicy": {"targetContainersMode": ["sum"]},
                    }
                ],
                "volumes": [{"name": "v", "emptyDir": "memory"}],
            })),
            @r#"
                spec.selector.matchLabels[app]: Invalid value: 5: must be a string
                spec.updateStrategy.paused: Invalid value: "yes": must be true or false
                spec.updateStrategy.partition: Invalid value: 1.5: must be an integer of 32 bits or a string
                spec.updateStrategy.priorityStrategy.weightPriority[0].weight: Invalid value: 10000000000.0: must be an integer of 32 bits
                spec.containers[1].podInjectPolicy: Invalid value: 5: must be one of "BeforeAppContainer", "AfterAppContainer"
                spec.containers[1].transferEnv[0].envNames: Invalid value: "A": must be a list
                spec.containers[1].transferEnv[1]: Invalid value: null: must be an object
                spec.containers[1].env[0].value: Invalid value: true: must be a string
                spec.containers[1].resources.limits[cpu]: Invalid value: "1x": unknown suffix `x` at byte 1: the suffixes are n u m k M G T P E and Ki Mi Gi Ti Pi Ei
                spec.containers[1].resources.limits[memory]: Invalid value: null: must be a quantity, such as "500m" or "1Gi"
                spec.containers[1].resources.requests: Invalid value: []: must be a map
                spec.containers[1].ports[0].containerPort: Invalid value: "80": must be an integer of 32 bits
                spec.containers[1].resourcesPolicy.targetContainersMode: Invalid value: ["sum"]: must be one of "sum", "max"
                spec.volumes[0].emptyDir: Invalid value: "memory": must be an object
                "#
        );
    }

    #[test]
    fn a_big_value_of_the_wrong_type_is_only_named() {
        let big: Map<String, Value> = (0..50).map(|i| (format!("key-{i}"), json!(i))).collect();
        assert_eq!(
            errors_of(&json!({"containers": big})),
            r#"spec.containers: Invalid value: "object": must be a list"#
        );
    }

    #[test]
    fn null_counts_as_absent() {
        let nulls = json!({
            "selector": null, "containers": [{"name": "a", "image": null, "transferEnv": null, "upgradeStrategy": null}],
            "volumes": null, "updateStrategy": {"paused": null, "scatterStrategy": null}, "customVersion": null,
        });
        assert_eq!(decode(object(&nulls)).unwrap(), decode(object(&json!({"containers": [{"name": "a"}]}))).unwrap());
        let bare = json!({"apiVersion": names::V1BETA1, "kind": "SidecarSet", "metadata": null});
        assert_eq!(decode(bare).unwrap().spec, super::super::SidecarSetSpec::default());
    }

    #[test]
    fn fields_of_a_newer_kubernetes_survive() {
        let spec = json!({
            "containers": [{"name": "a", "dreams": {"of": ["sheep"]}, "ports": [{"containerPort": 1, "quic": true}]}],
            "volumes": [{"name": "v", "cloud": {"nine": null}}],
        });
        let set = decode(object(&spec)).unwrap();
        assert_eq!(serde_json::to_value(&set.spec).unwrap(), spec);
    }

    #[test]
    fn another_object_is_refused_and_the_known_versions_are_named() {
        let error = |api_version: &str, kind: &str| {
            decode(json!({"apiVersion": api_version, "kind": kind})).unwrap_err().to_string()
        };
        insta::assert_snapshot!(error("apps.kruise.io/v1", "SidecarSet"), @r#"SidecarSet has no version "apps.kruise.io/v1"; write apps.kruise.io/v1beta1 or apps.kruise.io/v1alpha1"#);
        insta::assert_snapshot!(error("apps.kruise.io/v1beta1", "CloneSet"), @r#"apiVersion "apps.kruise.io/v1beta1", kind "CloneSet" is not a SidecarSet of apps.kruise.io"#);
        insta::assert_snapshot!(error("v1", "Pod"), @r#"apiVersion "v1", kind "Pod" is not a SidecarSet of apps.kruise.io"#);
        insta::assert_snapshot!(decode(json!([])).unwrap_err().to_string(), @r#"apiVersion "", kind "" is not a SidecarSet of apps.kruise.io"#);
    }
}
