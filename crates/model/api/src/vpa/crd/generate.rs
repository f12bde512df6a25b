//! The definitions from the types.
//!
//! They have upstream's names, columns, rules and versions, so that either can replace the other. `v1beta2` is listed and not
//! served: a cluster that once stored it refuses a definition without it.

use serde_json::{Value, json};

use super::super::{VerticalPodAutoscalerSpec, VerticalPodAutoscalerStatus};
use crate::{names, schema};

/// The definition of VerticalPodAutoscaler.
pub fn vertical_pod_autoscaler() -> Value {
    let version = |name: &str, is_served: bool| {
        let mut version = json!({
            "name": name,
            "served": is_served,
            "storage": is_served,
            "subresources": {"status": {}},
            "additionalPrinterColumns": columns(),
            "schema": {"openAPIV3Schema": autoscaler_schema()},
        });
        if !is_served {
            version["deprecated"] = true.into();
            version["deprecationWarning"] = format!("{}/{name} API is deprecated", names::AUTOSCALING_GROUP).into();
        }
        version
    };
    definition("verticalpodautoscaler", names::VPA_KIND, "vpa", [version("v1", true), version("v1beta2", false)])
}

/// The definition of `VerticalPodAutoscalerCheckpoint`.
pub fn checkpoint() -> Value {
    let version = |name: &str, is_served: bool| {
        json!({
            "name": name,
            "served": is_served,
            "storage": is_served,
            "schema": {"openAPIV3Schema": checkpoint_schema()},
        })
    };
    let versions = [version("v1", true), version("v1beta2", false)];
    definition("verticalpodautoscalercheckpoint", names::VPA_CHECKPOINT_KIND, "vpacheckpoint", versions)
}

fn definition(singular: &str, kind: &str, short: &str, versions: [Value; 2]) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{singular}s.{}", names::AUTOSCALING_GROUP),
            // Groups below k8s.io need it; both definitions were approved there.
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/63797"},
        },
        "spec": {
            "group": names::AUTOSCALING_GROUP,
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": format!("{singular}s"),
                "singular": singular,
                "shortNames": [short],
            },
            "scope": "Namespaced",
            "versions": versions,
        },
    })
}

fn object(description: &str, spec: Value, status: Value) -> Value {
    json!({
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": {"type": "string", "description": format!("`{}`.", names::AUTOSCALING_V1)},
            "kind": {"type": "string", "description": "Kind of the object."},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    })
}

fn autoscaler_schema() -> Value {
    let mut spec = schema::of::<VerticalPodAutoscalerSpec>();
    spec.insert("required".to_owned(), json!(["targetRef"]));
    let status = schema::of::<VerticalPodAutoscalerStatus>();
    let description = "Sizes the containers of the pods of one workload from their usage.";
    let mut schema = object(description, spec.into(), status.into());
    schema["required"] = json!(["spec"]);
    schema
}

fn checkpoint_schema() -> Value {
    let time = |description: &str| json!({"type": "string", "format": "date-time", "nullable": true, "description": description});
    let text = |description: &str| json!({"type": "string", "description": description});
    let histogram = |description: &str| {
        json!({
            "type": "object",
            "description": description,
            "properties": {
                "referenceTimestamp": time("The time at which a sample has its own weight."),
                "bucketWeights": {
                    "type": "object",
                    "description": "Weights by the index of the bucket, relative to the largest one, which is 10000.",
                    "x-kubernetes-preserve-unknown-fields": true,
                },
                "totalWeight": {"type": "number", "description": "What the weights add up to."},
            },
        })
    };
    let spec = json!({
        "type": "object",
        "description": "Whose histograms they are.",
        "properties": {
            "vpaObjectName": text("Name of the VerticalPodAutoscaler."),
            "containerName": text("Name of the container."),
        },
    });
    let status = json!({
        "type": "object",
        "description": "The histograms.",
        "properties": {
            "lastUpdateTime": time("When it was written."),
            "version": text("The format of the data, `v3`."),
            "cpuHistogram": histogram("CPU usage."),
            "memoryHistogram": histogram("Peaks of memory usage."),
            "firstSampleStart": time("Time of the first CPU sample."),
            "lastSampleStart": time("Time of the last CPU sample."),
            "totalSamplesCount": {"type": "integer", "description": "How many CPU samples were added."},
        },
    });
    object("The stored histograms of one container.", spec, status)
}

fn columns() -> Value {
    let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let wide = |name: &str, path: &str| json!({"name": name, "type": "integer", "jsonPath": path, "priority": 1});
    json!([
        column("Mode", "string", ".spec.updatePolicy.updateMode"),
        column("CPU", "string", ".status.recommendation.containerRecommendations[0].target.cpu"),
        column("Mem", "string", ".status.recommendation.containerRecommendations[0].target.memory"),
        column("Provided", "string", ".status.conditions[?(@.type=='RecommendationProvided')].status"),
        column("Age", "date", ".metadata.creationTimestamp"),
        wide("MinReplicas", ".spec.updatePolicy.minReplicas"),
        wide("OOMSeconds", ".spec.updatePolicy.evictAfterOOMSeconds"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Value {
        autoscaler_schema()["properties"]["spec"].clone()
    }

    /// `vpa-v1-crd-gen.yaml` in upstream's `deploy`.
    #[test]
    fn required_fields_are_those_of_upstream() {
        let policy = &spec()["properties"]["updatePolicy"]["properties"];
        assert_eq!(spec()["required"], json!(["targetRef"]));
        assert_eq!(spec()["properties"]["targetRef"]["required"], json!(["kind", "name"]));
        assert_eq!(policy["evictionRequirements"]["items"]["required"], json!(["resources", "changeRequirement"]));
        assert_eq!(policy["evictAfterOOMSeconds"]["minimum"], 1);
        assert_eq!(spec()["properties"]["recommenders"]["items"]["required"], json!(["name"]));
        assert_eq!(spec()["properties"]["startupBoost"]["properties"]["cpu"]["required"], json!(["type"]));
        let container = &spec()["properties"]["resourcePolicy"]["properties"]["containerPolicies"]["items"];
        assert_eq!(container.get("required"), None);
        let status = autoscaler_schema()["properties"]["status"].clone();
        assert_eq!(status["properties"]["conditions"]["items"]["required"], json!(["type", "status"]));
        let recommended = &status["properties"]["recommendation"]["properties"]["containerRecommendations"]["items"];
        assert_eq!(recommended["required"], json!(["target"]));
    }

    #[test]
    fn enumerations_list_the_values_and_conditions_any_type() {
        let policy = &spec()["properties"]["updatePolicy"]["properties"];
        assert_eq!(
            policy["updateMode"]["enum"],
            json!(["Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto"])
        );
        let status = autoscaler_schema()["properties"]["status"].clone();
        assert_eq!(status["properties"]["conditions"]["items"]["properties"]["type"].get("enum"), None);
    }

    #[test]
    fn a_boost_has_the_field_of_its_type_and_only_that() {
        let boost = &spec()["properties"]["startupBoost"]["properties"]["cpu"];
        insta::assert_json_snapshot!(boost["x-kubernetes-validations"], @r#"
        [
          {
            "rule": "(self.type == 'Factor') == has(self.factor)",
            "message": "factor is required when type is Factor and forbidden otherwise"
          },
          {
            "rule": "(self.type == 'Quantity') == has(self.quantity)",
            "message": "quantity is required when type is Quantity and forbidden otherwise"
          }
        ]
        "#);
        assert_eq!(boost["properties"]["quantity"]["x-kubernetes-int-or-string"], true);
        assert!(boost["properties"]["quantity"]["pattern"].is_string());
    }

    #[test]
    fn only_v1_is_served() {
        for definition in [vertical_pod_autoscaler(), checkpoint()] {
            let versions = definition["spec"]["versions"].as_array().unwrap();
            let served: Vec<_> = versions.iter().filter(|version| version["served"] == true).collect();
            assert_eq!(served.len(), 1);
            assert_eq!(served[0]["name"], "v1");
        }
    }
}
