//! `VerticalPodAutoscalerCheckpoint`: the histograms of one container, so that a restart forgets nothing.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

/// The only format of checkpoints that is read and written.
pub const CHECKPOINT_VERSION: &str = "v3";

/// The name of the checkpoint of a container: `<autoscaler>-<container>`.
pub fn checkpoint_name(autoscaler: &str, container: &str) -> String {
    format!("{autoscaler}-{container}")
}

/// The stored histograms of one container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VerticalPodAutoscalerCheckpoint {
    /// `autoscaling.k8s.io/v1`.
    pub api_version: String,
    /// `VerticalPodAutoscalerCheckpoint`.
    pub kind: String,
    /// Name, namespace.
    pub metadata: ObjectMeta,
    /// Whose histograms they are.
    pub spec: VerticalPodAutoscalerCheckpointSpec,
    /// The histograms.
    pub status: VerticalPodAutoscalerCheckpointStatus,
}

/// Whose histograms they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VerticalPodAutoscalerCheckpointSpec {
    /// Name of the autoscaler.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub vpa_object_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub container_name: String,
}

/// The histograms. Times have whole seconds, and a time that is not set is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VerticalPodAutoscalerCheckpointStatus {
    /// When it was written.
    pub last_update_time: Option<Time>,
    /// The format of the data, `v3`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// CPU usage.
    pub cpu_histogram: HistogramCheckpoint,
    /// Peaks of memory usage.
    pub memory_histogram: HistogramCheckpoint,
    /// Time of the first CPU sample.
    pub first_sample_start: Option<Time>,
    /// Time of the last CPU sample.
    pub last_sample_start: Option<Time>,
    /// How many CPU samples were added.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_samples_count: i64,
}

/// One histogram. Each weight is relative to the largest one, which is 10000.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistogramCheckpoint {
    /// The time at which a sample has its own weight; a sample that is a half-life older has half of it.
    pub reference_timestamp: Option<Time>,
    /// Weights by the index of the bucket.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", with = "bucket_weights")]
    pub bucket_weights: BTreeMap<i32, u32>,
    /// What the weights add up to.
    #[serde(skip_serializing_if = "is_zero_weight")]
    pub total_weight: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero_weight(value: &f64) -> bool {
    *value == 0.0
}

/// Keys are decimal numbers in strings, and one that is not is an error that names it.
mod bucket_weights {
    use std::collections::BTreeMap;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(weights: &BTreeMap<i32, u32>, serializer: S) -> Result<S::Ok, S::Error> {
        weights.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<i32, u32>, D::Error> {
        let weights: BTreeMap<String, u32> = BTreeMap::deserialize(deserializer)?;
        let parse = |(bucket, weight): (String, u32)| match bucket.parse() {
            Ok(bucket) => Ok((bucket, weight)),
            Err(_) => Err(D::Error::custom(format!("bucket {bucket:?} is not a whole number"))),
        };
        weights.into_iter().map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::decode_checkpoint;
    use super::*;
    use crate::names;

    /// The shape that upstream's recommender 1.7 writes.
    fn upstream() -> serde_json::Value {
        json!({
            "apiVersion": names::AUTOSCALING_V1,
            "kind": names::VPA_CHECKPOINT_KIND,
            "metadata": {"name": "web-app", "namespace": "shop"},
            "spec": {"vpaObjectName": "web", "containerName": "app"},
            "status": {
                "lastUpdateTime": "2026-05-29T10:00:01Z",
                "version": "v3",
                "cpuHistogram": {
                    "referenceTimestamp": "2026-05-29T00:00:00Z",
                    "bucketWeights": {"0": 10000, "3": 17, "12": 1},
                    "totalWeight": 4.125
                },
                "memoryHistogram": {"referenceTimestamp": null},
                "firstSampleStart": "2026-05-29T09:30:00Z",
                "lastSampleStart": "2026-05-29T10:00:00Z",
                "totalSamplesCount": 31
            }
        })
    }

    #[test]
    fn a_checkpoint_of_upstream_reads_and_writes_the_same() {
        let checkpoint = decode_checkpoint(upstream()).unwrap();
        assert_eq!(checkpoint.status.cpu_histogram.bucket_weights[&12], 1);
        assert_eq!(checkpoint.status.total_samples_count, 31);
        let mut written = serde_json::to_value(&checkpoint).unwrap();
        // Go keeps the order of its fields; ours is the same but for weights, which are sorted as numbers here.
        assert_eq!(written, upstream());
        written["status"]["firstSampleStart"] = serde_json::Value::Null;
        assert_eq!(decode_checkpoint(written).unwrap().status.first_sample_start, None);
    }

    #[test]
    fn times_that_are_not_set_are_null_and_zero_numbers_are_left_out() {
        let empty = serde_json::to_string(&VerticalPodAutoscalerCheckpointStatus::default()).unwrap();
        assert_eq!(
            empty,
            r#"{"lastUpdateTime":null,"cpuHistogram":{"referenceTimestamp":null},"memoryHistogram":{"referenceTimestamp":null},"firstSampleStart":null,"lastSampleStart":null}"#
        );
    }

    #[test]
    fn a_bucket_that_is_not_a_number_is_an_error_with_its_path() {
        let mut bad = upstream();
        bad["status"]["cpuHistogram"]["bucketWeights"] = json!({"x": 1});
        assert_eq!(
            decode_checkpoint(bad).unwrap_err().to_string(),
            r#"status.cpuHistogram.bucketWeights: Invalid value: bucket "x" is not a whole number"#
        );
    }

    #[test]
    fn the_name_is_that_of_the_autoscaler_and_the_container() {
        assert_eq!(checkpoint_name("web", "app"), "web-app");
    }
}
