//! Where an object keeps the template of its pods.
//!
//! ```
//! use pillion_api::workload::pod_template;
//! let deployment = serde_json::json!({"kind": "Deployment", "spec": {"template": {"spec": {"containers": []}}}});
//! assert_eq!(pod_template(&deployment), Some("/spec/template"));
//! ```

use serde_json::Value;

/// The JSON pointer to what becomes a pod: the object itself for a Pod, the template of a workload, `None` otherwise.
///
/// Besides the built-in workloads this finds every object that has a pod template in the usual place, such as Kruise's
/// CloneSet.
pub fn pod_template(object: &Value) -> Option<&'static str> {
    let candidates: &[&'static str] = match object["kind"].as_str()? {
        "Pod" => return Some(""),
        "PodTemplate" => &["/template"],
        "CronJob" | "AdvancedCronJob" => {
            &["/spec/jobTemplate/spec/template", "/spec/template/jobTemplate/spec/template"]
        }
        _ => &["/spec/template"],
    };
    candidates
        .iter()
        .copied()
        .find(|path| object.pointer(path).is_some_and(|template| template["spec"]["containers"].is_array()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn templates_are_found_where_each_kind_keeps_them() {
        let template = json!({"spec": {"containers": []}});
        for kind in ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CloneSet"]
        {
            assert_eq!(
                pod_template(&json!({"kind": kind, "spec": {"template": template}})),
                Some("/spec/template"),
                "{kind}"
            );
        }
        let cron_job = json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}});
        assert_eq!(pod_template(&cron_job), Some("/spec/jobTemplate/spec/template"));
        assert_eq!(pod_template(&json!({"kind": "Pod"})), Some(""));
    }

    #[test]
    fn an_object_without_a_pod_template_has_none() {
        assert_eq!(pod_template(&json!({"kind": "Service", "spec": {}})), None);
        assert_eq!(pod_template(&json!({"kind": "Certificate", "spec": {"template": {"spec": {}}}})), None);
        assert_eq!(pod_template(&json!("Pod")), None);
    }
}
