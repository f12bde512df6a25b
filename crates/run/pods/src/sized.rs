//! What is kept of a pod whose containers are sized.

use pillion_api::pod::Pod;
use pillion_partial::{Keep, Partial};
use pillion_rightsize::PodView;
use serde_json::Value;

use crate::shared;

/// A pod whose containers are sized.
#[derive(Debug)]
pub struct SizedPod {
    /// Its containers with their resources, and how it is doing.
    pub view: PodView,
    /// Whether its containers will not run again.
    pub has_ended: bool,
    /// Whether it is being deleted.
    pub is_being_deleted: bool,
    /// Whether it has a node.
    pub is_bound: bool,
}

const POD: Keep = Keep::Fields(&[
    ("metadata", Keep::Without("managedFields")),
    (
        "spec",
        Keep::Fields(&[
            ("nodeName", Keep::All),
            ("resources", Keep::All),
            ("containers", CONTAINER),
            ("initContainers", CONTAINER),
        ]),
    ),
    (
        "status",
        Keep::Fields(&[
            ("phase", Keep::All),
            ("startTime", Keep::All),
            ("conditions", Keep::All),
            ("containerStatuses", STATUS),
            ("initContainerStatuses", STATUS),
        ]),
    ),
]);

const CONTAINER: Keep = Keep::Fields(&[
    ("name", Keep::All),
    ("resources", Keep::All),
    ("resizePolicy", Keep::All),
    ("restartPolicy", Keep::All),
]);

const STATUS: Keep = Keep::Fields(&[
    ("name", Keep::All),
    ("resources", Keep::All),
    ("restartCount", Keep::All),
    ("state", Keep::All),
    ("lastState", Keep::All),
]);

impl SizedPod {
    /// Reads a pod. Returns `None` for a pod without a controller: it belongs to no workload.
    pub(crate) fn read(text: &str) -> Option<SizedPod> {
        SizedPod::of(Partial(POD).parse(text.as_bytes()).ok()?)
    }

    fn of(pod: Value) -> Option<SizedPod> {
        let is_being_deleted = !pod["metadata"]["deletionTimestamp"].is_null();
        let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let is_bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        let mut view = PodView::new(&Pod::new(pod).ok()?);
        shared::share(&mut view);
        view.owner.is_some().then_some(SizedPod { view, has_ended, is_being_deleted, is_bound })
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::names;
    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_counts_is_read_of_a_pod() {
        let resources = json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}});
        let killed = json!({"terminated": {"reason": "OOMKilled", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:02:00Z"}});
        let container = |name: &str| {
            json!({
                "name": name, "image": "a", "restartPolicy": "Always", "resources": resources,
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
            })
        };
        let status = |name: &str| json!({"name": name, "resources": resources, "restartCount": 3, "state": {"running": {}}, "lastState": killed});
        let whole = json!({
            "metadata": {
                "name": "web-0", "namespace": "shop", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"fieldsV1": {"f:metadata": {}}}],
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true}],
                "annotations": {
                    names::VPA_OBSERVED_CONTAINERS: "app", names::HASH: r#"{"mesh": {"sidecarList": ["mesh"]}}"#,
                    (format!("{}app", names::VPA_CPU_STARTUP_BOOST_PREFIX)): "{}",
                },
            },
            "spec": {
                "nodeName": "node-1", "resources": resources, "containers": [container("app")],
                "initContainers": [container("mesh"), {"name": "setup", "resources": resources}],
            },
            "status": {
                "phase": "Running", "startTime": "2026-01-01T00:00:01Z", "containerStatuses": [status("app")],
                "initContainerStatuses": [status("mesh")],
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z"},
                    {"type": "PodResizePending", "status": "True", "reason": "Deferred", "lastTransitionTime": "2026-01-01T00:00:03Z"},
                ],
            },
        });
        let read = SizedPod::read(&whole.to_string()).unwrap();
        let expected = SizedPod::of(whole).unwrap();
        assert_eq!(read.view, expected.view);
        assert!(read.is_being_deleted && read.is_bound && !read.has_ended);
        assert!(
            expected.view.containers.iter().all(|container| container.restarts == 3 && container.last_oom.is_some())
        );
    }

    #[test]
    fn a_pod_without_a_controller_is_not_sized() {
        assert!(SizedPod::read(r#"{"metadata": {"name": "alone"}, "spec": {"containers": []}}"#).is_none());
    }
}
