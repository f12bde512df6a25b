//! What makes pods: a workload with its template, or a pod that belongs to none.

use pillion_api::workload::pod_template;
use serde_json::Value;

use crate::original::before_injection;

/// What makes pods, and how many.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Its kind: that of the object, or of whatever controls pods whose workload could not be read.
    pub kind: String,
    /// Its namespace; empty if the object names none.
    pub namespace: String,
    pub name: String,
    /// How many pods it has or wants.
    pub replicas: u64,
    /// The object that has the pod or the template in it.
    pub object: Value,
}

impl Workload {
    /// A workload, or a pod as it was before injection. `None` for an object that makes no pods: it has no template, has ended, or belongs to a
    /// workload that counts itself (a ReplicaSet of a Deployment, a Job of a CronJob, a pod of either).
    ///
    /// ```
    /// use pillion_preview::Workload;
    /// use serde_json::json;
    /// let template = json!({"spec": {"containers": []}});
    /// let job = |spec| Workload::of(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}));
    /// assert_eq!(job(json!({"template": template, "parallelism": 4, "completions": 3})).unwrap().replicas, 3);
    /// assert_eq!(job(json!({"template": template, "suspend": true})).unwrap().replicas, 0);
    /// ```
    pub fn of(object: Value) -> Option<Workload> {
        let path = pod_template(&object)?;
        if is_controlled(&object) || has_ended(&object) || object["kind"] == "PodTemplate" {
            return None;
        }
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let (kind, namespace, name) = (object["kind"].as_str()?.to_owned(), text("namespace"), text("name"));
        let replicas = replicas(&kind, &object);
        let object = if path.is_empty() { before_injection(&object) } else { object };
        Some(Workload { kind, namespace, name, replicas, object })
    }

    /// A workload of a kind that is not read, known by one of its pods.
    pub fn of_pods(kind: &str, name: &str, pod: &Value, replicas: u64) -> Workload {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        Workload { kind: kind.to_owned(), namespace, name: name.to_owned(), replicas, object: before_injection(pod) }
    }
}

/// The owner reference of whatever controls an object.
pub(crate) fn controller(object: &Value) -> Option<&Value> {
    object["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

fn is_controlled(object: &Value) -> bool {
    controller(object).is_some()
}

/// Whether a pod or a Job has ended: no pods come of it any more.
fn has_ended(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut ended = conditions.filter(|condition| condition["status"] == "True").filter_map(|c| c["type"].as_str());
    match object["kind"].as_str() {
        Some("Pod") => matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed")),
        Some("Job") => ended.any(|kind| matches!(kind, "Complete" | "Failed")),
        _ => false,
    }
}

fn replicas(kind: &str, object: &Value) -> u64 {
    let spec = &object["spec"];
    match kind {
        "Pod" => 1,
        // How many nodes it is for is only in its status; a manifest counts for one.
        "DaemonSet" => object["status"]["desiredNumberScheduled"].as_u64().unwrap_or(1),
        "Job" => of_job(spec),
        // What one run takes.
        "CronJob" if spec["suspend"] == true => 0,
        "CronJob" => of_job(&spec["jobTemplate"]["spec"]),
        _ => spec["replicas"].as_u64().unwrap_or(1),
    }
}

fn of_job(spec: &Value) -> u64 {
    if spec["suspend"] == true {
        return 0;
    }
    let parallelism = spec["parallelism"].as_u64().unwrap_or(1);
    spec["completions"].as_u64().map_or(parallelism, |completions| parallelism.min(completions))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replicas_of(kind: &str, version: &str, spec: Value, status: Value) -> Option<u64> {
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec, "status": status});
        Workload::of(object).map(|workload| workload.replicas)
    }

    #[test]
    fn the_number_of_pods_is_that_of_each_kind() {
        let rows = [
            ("Deployment", "apps/v1", json!({}), json!({}), Some(1)),
            ("Deployment", "apps/v1", json!({"replicas": 0}), json!({}), Some(0)),
            ("StatefulSet", "apps/v1", json!({"replicas": 7}), json!({}), Some(7)),
            ("DaemonSet", "apps/v1", json!({}), json!({"desiredNumberScheduled": 12}), Some(12)),
            ("DaemonSet", "apps/v1", json!({}), json!({}), Some(1)),
            ("Job", "batch/v1", json!({"parallelism": 5}), json!({}), Some(5)),
            ("Job", "batch/v1", json!({}), json!({"conditions": [{"type": "Complete", "status": "True"}]}), None),
            ("Job", "batch/v1", json!({}), json!({"conditions": [{"type": "Failed", "status": "False"}]}), Some(1)),
            ("CronJob", "batch/v1", json!({"suspend": true}), json!({}), Some(0)),
            ("CronJob", "batch/v1", json!({"jobTemplate": {"spec": {"parallelism": 2}}}), json!({}), Some(2)),
            ("Pod", "v1", json!({}), json!({"phase": "Running"}), Some(1)),
            ("Pod", "v1", json!({}), json!({"phase": "Succeeded"}), None),
            ("Service", "v1", json!({}), json!({}), None),
        ];
        for (kind, version, spec, status, expected) in rows {
            assert_eq!(replicas_of(kind, version, spec.clone(), status.clone()), expected, "{kind} {spec} {status}");
        }
    }

    #[test]
    fn what_belongs_to_a_workload_does_not_count_itself() {
        let owned = |is_controller: bool| {
            let owner = json!({"kind": "Deployment", "name": "web", "controller": is_controller});
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "ownerReferences": [owner]}})
        };
        assert!(Workload::of(owned(true)).is_none());
        assert!(Workload::of(owned(false)).is_some());
    }
}
