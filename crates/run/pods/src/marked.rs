//! What is kept of a pod whose sidecars the manager ends.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::core::DynamicObject;
use pillion_api::names;
use pillion_api::record::sidecars::SidecarRecord;
use pillion_lifecycle::marks::record_of_kruise;

/// A pod whose sidecars the manager ends.
#[derive(Debug)]
pub struct MarkedPod {
    /// The pod, without its `managedFields`.
    pub pod: Pod,
    /// Which of its containers are sidecars.
    pub record: SidecarRecord,
}

impl MarkedPod {
    /// Reads a pod. Returns `None` for a pod without marked sidecars.
    pub(crate) fn read(text: &str) -> Option<MarkedPod> {
        let object: DynamicObject = serde_json::from_str(text).ok()?;
        let record = record_of(&object)?;
        let mut pod: Pod = object.try_parse().ok()?;
        pod.metadata.managed_fields = None;
        Some(MarkedPod { pod, record })
    }
}

/// What admission recorded, or what OpenKruise's variables say about a pod that was created while no webhook was called.
fn record_of(object: &DynamicObject) -> Option<SidecarRecord> {
    let Some(text) = object.annotations().get(names::SIDECAR_RECORD) else {
        return record_of_kruise(&object.data);
    };
    match text.parse::<SidecarRecord>() {
        Ok(record) => Some(record),
        Err(error) => {
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            tracing::warn!(namespace, name, %error, "cannot read annotation {}; the sidecars of the pod are not ended", names::SIDECAR_RECORD);
            None
        }
    }
}
