//! What is kept of a pod whose sidecars the manager ends.

use k8s_openapi::api::core::v1::Pod;
use pillion_api::names;
use pillion_api::record::sidecars::SidecarRecord;
use pillion_lifecycle::marks::record_of_kruise;
use pillion_partial::{Keep, Partial};
use serde_json::Value;

/// A pod whose sidecars the manager ends.
#[derive(Debug)]
pub struct MarkedPod {
    /// The pod, without its `managedFields`.
    pub pod: Pod,
    /// Which of its containers are sidecars.
    pub record: SidecarRecord,
}

/// What says which containers of a pod are sidecars. Most pods have none of it, and are not read any further.
const MARKS: Keep = Keep::Fields(&[
    (
        "metadata",
        Keep::Fields(&[
            ("name", Keep::All),
            ("namespace", Keep::All),
            ("annotations", Keep::Fields(&[(names::SIDECAR_RECORD, Keep::All)])),
        ]),
    ),
    ("spec", Keep::Fields(&[("restartPolicy", Keep::All), ("containers", CONTAINER)])),
]);

const CONTAINER: Keep = Keep::Fields(&[
    ("name", Keep::All),
    ("restartPolicy", Keep::All),
    ("env", Keep::Fields(&[("name", Keep::All), ("value", Keep::All)])),
]);

impl MarkedPod {
    /// Reads a pod. Returns `None` for a pod without marked sidecars.
    pub(crate) fn read(text: &str) -> Option<MarkedPod> {
        let record = record_of(&Partial(MARKS).parse(text.as_bytes()).ok()?)?;
        let mut pod: Pod = serde_json::from_str(text).ok()?;
        pod.metadata.managed_fields = None;
        Some(MarkedPod { pod, record })
    }
}

/// What admission recorded, or what OpenKruise's variables say about a pod that was created while no webhook was called.
fn record_of(pod: &Value) -> Option<SidecarRecord> {
    let metadata = &pod["metadata"];
    let Some(text) = metadata["annotations"][names::SIDECAR_RECORD].as_str() else {
        return record_of_kruise(pod);
    };
    match text.parse::<SidecarRecord>() {
        Ok(record) => Some(record),
        Err(error) => {
            let [namespace, name] = ["namespace", "name"].map(|field| metadata[field].as_str().unwrap_or_default());
            tracing::warn!(namespace, name, %error, "cannot read annotation {}; the sidecars of the pod are not ended", names::SIDECAR_RECORD);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(annotations: Value, policy: &str, variable: Option<&str>) -> Option<Vec<String>> {
        let env: Vec<Value> = variable.map(|name| json!({"name": name, "value": "true"})).into_iter().collect();
        let pod = json!({
            "metadata": {"name": "a", "namespace": "b", "annotations": annotations, "managedFields": [{"manager": "m"}]},
            "spec": {"restartPolicy": policy, "containers": [{"name": "app"}, {"name": "proxy", "env": env}]},
            "status": {"phase": "Running"},
        });
        let read = MarkedPod::read(&pod.to_string())?;
        assert_eq!(read.pod.status.unwrap_or_default().phase.as_deref(), Some("Running"), "a marked pod is read whole");
        assert_eq!(read.pod.metadata.managed_fields, None);
        Some(read.record.sidecars.into_iter().collect())
    }

    #[test]
    fn a_pod_is_read_if_something_says_which_containers_are_sidecars() {
        assert_eq!(read(json!({"other": "x"}), "Never", None), None);
        let variable = Some(names::KRUISE_TERMINATE);
        assert_eq!(read(json!({}), "Never", variable), Some(vec!["proxy".to_owned()]));
        assert_eq!(read(json!({}), "Always", variable), None);
        assert_eq!(read(json!({(names::SIDECAR_RECORD): "no record"}), "Never", variable), None);
    }
}
