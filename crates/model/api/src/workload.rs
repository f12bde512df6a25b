//! Where an object keeps the template of its pods.
//!
//! ```
//! use pillion_api::workload::pod_template;
//! let deployment = serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {}}});
//! assert_eq!(pod_template(&deployment), Some("/spec/template"));
//! ```

use serde_json::Value;

/// The JSON pointer to what becomes a pod: the object itself for a Pod, the template of a workload, `None` otherwise.
///
/// The built-in workloads have one, well-formed or not. Any other object has one if there are containers in the usual
/// place, as in Kruise's CloneSet.
pub fn pod_template(object: &Value) -> Option<&'static str> {
    let group =
        object["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group);
    match (group, object["kind"].as_str()?) {
        ("", "Pod") => Some(""),
        ("", "PodTemplate") => Some("/template"),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch", "Job") => Some("/spec/template"),
        ("batch", "CronJob") => Some("/spec/jobTemplate/spec/template"),
        _ => ["/spec/template", "/spec/template/jobTemplate/spec/template"]
            .into_iter()
            .find(|path| object.pointer(path).is_some_and(|template| template["spec"]["containers"].is_array())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_built_in_workload_has_its_template_in_its_place_even_if_it_is_malformed() {
        for (version, kind, path) in [
            ("v1", "Pod", ""),
            ("v1", "ReplicationController", "/spec/template"),
            ("apps/v1", "Deployment", "/spec/template"),
            ("apps/v1", "StatefulSet", "/spec/template"),
            ("apps/v1", "DaemonSet", "/spec/template"),
            ("apps/v1", "ReplicaSet", "/spec/template"),
            ("batch/v1", "Job", "/spec/template"),
            ("batch/v1", "CronJob", "/spec/jobTemplate/spec/template"),
        ] {
            let malformed =
                json!({"apiVersion": version, "kind": kind, "spec": {"template": {"spec": {"containers": {}}}}});
            assert_eq!(pod_template(&malformed), Some(path), "{kind}");
        }
    }

    #[test]
    fn any_other_object_has_one_if_there_are_containers_in_it() {
        let clone_set = json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "spec": {"template": {"spec": {"containers": []}}}});
        assert_eq!(pod_template(&clone_set), Some("/spec/template"));
        assert_eq!(pod_template(&json!({"apiVersion": "v1", "kind": "Service", "spec": {}})), None);
        assert_eq!(pod_template(&json!({"apiVersion": "example.com/v1", "kind": "Pod", "spec": {}})), None);
        assert_eq!(pod_template(&json!({"kind": "Certificate", "spec": {"template": {"spec": {}}}})), None);
        assert_eq!(pod_template(&json!("Pod")), None);
    }
}
