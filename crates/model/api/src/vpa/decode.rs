//! From JSON to the types.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{UpdateMode, VerticalPodAutoscaler, VerticalPodAutoscalerCheckpoint};
use crate::field::{self, Segment};
use crate::field_path::field_path;
use crate::names;
use crate::one_of::one_of;

/// Why JSON is not an object of this API.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is something else.
    #[error("apiVersion {api_version:?}, kind {kind:?} is not a {wanted} of {}", names::AUTOSCALING_V1)]
    OtherKind {
        /// The version that it names, or "".
        api_version: String,
        /// The kind that it names, or "".
        kind: String,
        /// The kind that was expected.
        wanted: &'static str,
    },
    /// A field has the wrong type.
    #[error("{0}")]
    Field(field::Error),
}

/// Reads a VerticalPodAutoscaler. A field that is `null` counts as absent.
///
/// # Errors
/// Another kind of object, or a field with a value of the wrong type.
pub fn decode(object: Value) -> Result<VerticalPodAutoscaler, DecodeError> {
    read(object, names::VPA_KIND)
}

/// Reads a `VerticalPodAutoscalerCheckpoint`. A field that is `null` counts as absent.
///
/// # Errors
/// Another kind of object, or a field with a value of the wrong type.
pub fn decode_checkpoint(object: Value) -> Result<VerticalPodAutoscalerCheckpoint, DecodeError> {
    read(object, names::VPA_CHECKPOINT_KIND)
}

fn read<T: DeserializeOwned>(mut object: Value, wanted: &'static str) -> Result<T, DecodeError> {
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if (api_version, kind) != (names::AUTOSCALING_V1, wanted) {
        return Err(DecodeError::OtherKind { api_version: api_version.to_owned(), kind: kind.to_owned(), wanted });
    }
    remove_nulls(&mut object);
    serde_path_to_error::deserialize(&object).map_err(|error| {
        let path = field_path(error.path());
        DecodeError::Field(
            not_a_name(&object, &path)
                .unwrap_or_else(|| field::Error::malformed(&path, error.into_inner().to_string())),
        )
    })
}

/// The fields of the spec that have one of several names, and the names.
const ENUMERATIONS: [(&str, &[&str]); 5] = [
    ("updateMode", &UpdateMode::SUPPORTED),
    ("mode", &["Auto", "Off"]),
    ("controlledValues", &["RequestsAndLimits", "RequestsOnly"]),
    ("changeRequirement", &["TargetHigherThanRequests", "TargetLowerThanRequests"]),
    ("type", &["Factor", "Quantity"]),
];

/// The error about a value that is not a name, where a name must be.
fn not_a_name(object: &Value, path: &field::Path) -> Option<field::Error> {
    let value = path.segments().iter().try_fold(object, |value, segment| match segment {
        Segment::Field(name) | Segment::Key(name) => value.get(name),
        Segment::Index(index) => value.get(index),
    })?;
    let Some(Segment::Field(field)) = path.segments().last().filter(|_| !value.is_string()) else { return None };
    let (_, names) = ENUMERATIONS.iter().find(|(name, _)| name == field)?;
    let hint = match value {
        Value::Bool(false) => "; YAML reads Off without quotes as false: write \"Off\" with quotes",
        _ => "",
    };
    Some(field::Error::invalid(path, value.clone(), format!("must be {}{hint}", one_of(names))))
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{ContainerScalingMode, StartupBoostType};
    use super::*;

    fn object(spec: Value) -> Value {
        json!({"apiVersion": names::AUTOSCALING_V1, "kind": names::VPA_KIND, "metadata": {"name": "web"}, "spec": spec})
    }

    #[test]
    fn every_field_reads_and_writes_the_same() {
        let whole = json!({
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "updatePolicy": {
                    "updateMode": "InPlaceOrRecreate",
                    "minReplicas": 1,
                    "evictionRequirements": [{"resources": ["cpu", "memory"], "changeRequirement": "TargetHigherThanRequests"}],
                    "evictAfterOOMSeconds": 300
                },
                "resourcePolicy": {"containerPolicies": [{
                    "containerName": "app",
                    "mode": "Auto",
                    "minAllowed": {"cpu": "10m"},
                    "maxAllowed": {"memory": "1Gi"},
                    "controlledResources": ["cpu", "memory"],
                    "controlledValues": "RequestsOnly",
                    "oomBumpUpRatio": "1500m",
                    "oomMinBumpUp": "10Mi",
                    "memoryAggregationIntervalSeconds": 3600,
                    "memoryAggregationIntervalCount": 4,
                    "startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 10}}
                }]},
                "recommenders": [{"name": "mine"}],
                "startupBoost": {"cpu": {"type": "Quantity", "quantity": "500m"}}
            },
            "status": {
                "recommendation": {"containerRecommendations": [{
                    "containerName": "app",
                    "target": {"cpu": "25m", "memory": "250Mi"},
                    "lowerBound": {"cpu": "25m"},
                    "upperBound": {"cpu": "1"},
                    "uncappedTarget": {"cpu": "12m"}
                }]},
                "conditions": [{
                    "type": "RecommendationProvided", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "reason": "a", "message": "b", "observedGeneration": 3
                }],
                "observedGeneration": 3
            }
        });
        let autoscaler = decode(whole.clone()).unwrap();
        assert_eq!(serde_json::to_value(&autoscaler).unwrap(), whole);
        assert!(autoscaler.is_for_recommender("mine") && !autoscaler.is_for_recommender("default"));
    }

    #[test]
    fn a_value_that_is_no_name_is_answered_with_the_field_and_the_names() {
        let error = |spec: Value| decode(object(spec)).unwrap_err().to_string();
        let policy = |field: &str, value: Value| json!({"resourcePolicy": {"containerPolicies": [{field: value}]}});
        insta::assert_snapshot!(error(json!({"updatePolicy": {"updateMode": false}})), @r#"spec.updatePolicy.updateMode: Invalid value: false: must be one of "InPlace", "InPlaceOrRecreate", "Initial", "Off", "Recreate"; YAML reads Off without quotes as false: write "Off" with quotes"#);
        insta::assert_snapshot!(error(policy("mode", json!(false))), @r#"spec.resourcePolicy.containerPolicies[0].mode: Invalid value: false: must be one of "Auto", "Off"; YAML reads Off without quotes as false: write "Off" with quotes"#);
        insta::assert_snapshot!(error(policy("controlledValues", json!(5))), @r#"spec.resourcePolicy.containerPolicies[0].controlledValues: Invalid value: 5: must be one of "RequestsAndLimits", "RequestsOnly""#);
        insta::assert_snapshot!(error(json!({"updatePolicy": {"evictionRequirements": [{"changeRequirement": []}]}})), @r#"spec.updatePolicy.evictionRequirements[0].changeRequirement: Invalid value: []: must be one of "TargetHigherThanRequests", "TargetLowerThanRequests""#);
        insta::assert_snapshot!(error(json!({"startupBoost": {"cpu": {"type": true}}})), @r#"spec.startupBoost.cpu.type: Invalid value: true: must be one of "Factor", "Quantity""#);
    }

    #[test]
    fn unknown_values_of_enumerations_are_kept() {
        let autoscaler = decode(object(json!({
            "updatePolicy": {"updateMode": "Sometimes"},
            "resourcePolicy": {"containerPolicies": [{"containerName": "a", "mode": "Perhaps"}]},
            "startupBoost": {"cpu": {"type": "Magic"}}
        })))
        .unwrap();
        assert_eq!(autoscaler.update_mode(), &UpdateMode::Unknown("Sometimes".into()));
        let mode = autoscaler.container_policy("a").unwrap().mode.clone();
        assert_eq!(mode, Some(ContainerScalingMode::Unknown("Perhaps".into())));
        let boost = autoscaler.cpu_boost("a").unwrap().boost_type.clone();
        assert_eq!(boost, Some(StartupBoostType::Unknown("Magic".into())));
    }

    #[test]
    fn a_boost_of_the_container_replaces_that_of_the_pod_even_if_it_is_empty() {
        let autoscaler = decode(object(json!({
            "startupBoost": {"cpu": {"type": "Factor", "factor": 2}},
            "resourcePolicy": {"containerPolicies": [
                {"containerName": "fast", "startupBoost": {"cpu": {"type": "Factor", "factor": 3}}},
                {"containerName": "none", "startupBoost": {}}
            ]}
        })))
        .unwrap();
        let factor = |name| autoscaler.cpu_boost(name).and_then(|boost| boost.factor);
        assert_eq!((factor("fast"), factor("none"), factor("other")), (Some(3), None, Some(2)));
        assert!(autoscaler.has_cpu_boost());
    }

    #[test]
    fn null_counts_as_absent() {
        let autoscaler = decode(object(
            json!({"updatePolicy": null, "recommenders": null, "resourcePolicy": {"containerPolicies": null}}),
        ))
        .unwrap();
        assert_eq!(autoscaler.spec.update_policy, None);
        assert!(autoscaler.spec.recommenders.is_empty());
    }

    #[test]
    fn a_wrong_type_is_reported_with_its_path() {
        let error = |spec| decode(object(spec)).unwrap_err().to_string();
        assert_eq!(
            error(
                json!({"resourcePolicy": {"containerPolicies": [{"containerName": "a", "maxAllowed": {"cpu": "1 core"}}]}})
            ),
            "spec.resourcePolicy.containerPolicies[0].maxAllowed.cpu: Invalid value: white space at byte 1: write \
             number and suffix as one word, such as 1Gi"
        );
        assert_eq!(
            error(json!({"updatePolicy": {"minReplicas": "one"}})),
            r#"spec.updatePolicy.minReplicas: Invalid value: invalid type: string "one", expected i32"#
        );
    }

    #[test]
    fn another_kind_is_rejected() {
        assert_eq!(
            decode(json!({"apiVersion": "autoscaling.k8s.io/v1beta2", "kind": "VerticalPodAutoscaler"}))
                .unwrap_err()
                .to_string(),
            r#"apiVersion "autoscaling.k8s.io/v1beta2", kind "VerticalPodAutoscaler" is not a VerticalPodAutoscaler of autoscaling.k8s.io/v1"#
        );
    }
}
