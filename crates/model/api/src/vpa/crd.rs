//! The `CustomResourceDefinition`s of VerticalPodAutoscaler and `VerticalPodAutoscalerCheckpoint`.

use serde_json::Value;

#[cfg(feature = "schemas")]
mod generate;

#[cfg(feature = "schemas")]
pub use generate::{checkpoint, vertical_pod_autoscaler};

/// The definition of VerticalPodAutoscaler, as it is generated from the types.
#[cfg(not(feature = "schemas"))]
pub fn vertical_pod_autoscaler() -> Value {
    definitions().as_array_mut().and_then(|list| list.first_mut()).map(Value::take).unwrap_or_default()
}

/// The definition of `VerticalPodAutoscalerCheckpoint`.
#[cfg(not(feature = "schemas"))]
pub fn checkpoint() -> Value {
    definitions().as_array_mut().and_then(|list| list.last_mut()).map(Value::take).unwrap_or_default()
}

/// Both definitions: what programs carry.
#[cfg(not(feature = "schemas"))]
fn definitions() -> Value {
    serde_json::from_str(include_str!("crd/definitions.json")).unwrap_or_default()
}

/// Both definitions, for `cargo xtask gen`.
#[cfg(feature = "schemas")]
pub fn definitions() -> Value {
    Value::Array(vec![vertical_pod_autoscaler(), checkpoint()])
}
