//! The pods that a Job makes.

use serde_json::{Value, json};

use super::plan::NewPod;
use super::tracked::{FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX};
use crate::job_view::JobView;
use crate::pod_control::from_template;
use crate::write::controller_reference;

const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// What the API server leaves of `generateName` before it adds five letters.
const LONGEST_PREFIX: usize = 58;

/// A pod as the Job's template says, with the marks of the Job.
pub(super) fn pod(job: &JobView, new: &NewPod) -> Value {
    let mut pod = from_template(&job.spec.template, &controller_reference(job));
    let metadata = &mut pod["metadata"];
    let mut finalizers = metadata["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        finalizers.push(FINALIZER.into());
    }
    metadata["finalizers"] = finalizers.into();
    if let Some(index) = new.index {
        metadata["labels"][INDEX] = index.to_string().into();
        metadata["annotations"][INDEX] = index.to_string().into();
        metadata["generateName"] = prefix(job.name(), index).into();
    }
    if let Some((counted, ignored)) = new.failures {
        metadata["annotations"][FAILURE_COUNT] = counted.to_string().into();
        if ignored > 0 {
            metadata["annotations"][IGNORED_FAILURE_COUNT] = ignored.to_string().into();
        }
    }
    if let Some(index) = new.index {
        pod["spec"]["hostname"] = format!("{}-{index}", job.name()).into();
        add_variables(&mut pod["spec"]);
    }
    pod
}

fn prefix(job: &str, index: i32) -> String {
    let end = format!("-{index}-");
    let kept: String = job.chars().take(LONGEST_PREFIX.saturating_sub(end.len())).collect();
    kept + &end
}

fn add_variables(spec: &mut Value) {
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let variables = container.entry("env").or_insert_with(|| json!([]));
            if let Some(variables) = variables.as_array_mut()
                && !variables.iter().any(|variable| variable["name"] == INDEX_VARIABLE)
            {
                let path = format!("metadata.labels['{INDEX}']");
                variables.push(json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> JobView {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": "u"},
            "spec": {"template": {
                "metadata": {"labels": {"app": "a"}, "annotations": {"b": "c"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "sidecar": true}]},
            }},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_is_the_template_with_the_marks_of_the_job() {
        let pod = pod(&job("pi"), &NewPod { index: None, failures: None });
        insta::assert_json_snapshot!(pod, @r#"
        {
          "apiVersion": "v1",
          "kind": "Pod",
          "metadata": {
            "generateName": "pi-",
            "labels": {
              "app": "a"
            },
            "annotations": {
              "b": "c"
            },
            "ownerReferences": [
              {
                "apiVersion": "batch/v1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "Job",
                "name": "pi",
                "uid": "u"
              }
            ],
            "finalizers": [
              "batch.kubernetes.io/job-tracking"
            ]
          },
          "spec": {
            "restartPolicy": "Never",
            "containers": [
              {
                "name": "main",
                "sidecar": true
              }
            ]
          }
        }
        "#);
    }

    #[test]
    fn an_index_is_in_label_annotation_host_name_and_environment() {
        let pod = pod(&job("pi"), &NewPod { index: Some(3), failures: Some((2, 1)) });
        assert_eq!(pod["metadata"]["generateName"], "pi-3-");
        assert_eq!(pod["metadata"]["labels"][INDEX], "3");
        assert_eq!(
            pod["metadata"]["annotations"],
            json!({"b": "c", INDEX: "3", FAILURE_COUNT: "2", IGNORED_FAILURE_COUNT: "1"})
        );
        assert_eq!(pod["spec"]["hostname"], "pi-3");
        let path = json!({"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}});
        assert_eq!(pod["spec"]["containers"][0]["env"], json!([{"name": INDEX_VARIABLE, "valueFrom": path}]));
    }

    #[test]
    fn a_long_name_makes_room_for_the_index() {
        let name = "x".repeat(60);
        assert_eq!(prefix(&name, 12), format!("{}-12-", "x".repeat(54)));
    }
}
