//! Checkpoints: read before the first one is written, and written when they are due.

use kube::api::{Api, DeleteParams, PostParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt as _};
use pillion_api::names;
use pillion_api::vpa::{
    VerticalPodAutoscalerCheckpoint, VerticalPodAutoscalerCheckpointSpec, VerticalPodAutoscalerCheckpointStatus,
    checkpoint_name, decode_checkpoint,
};
use pillion_informer::NamespacedName;
use serde_json::json;

use crate::requests;
use crate::resources::checkpoints;

/// Reads the checkpoints of a namespace, or of all.
pub(crate) async fn read(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<VerticalPodAutoscalerCheckpoint>, kube::Error> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &checkpoints()),
        None => Api::all_with(client.clone(), &checkpoints()),
    };
    requests::list_in_pages(&api, decode).await
}

pub(crate) fn name_of(checkpoint: &VerticalPodAutoscalerCheckpoint) -> NamespacedName {
    let metadata = &checkpoint.metadata;
    NamespacedName::new(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn decode(object: DynamicObject) -> Option<VerticalPodAutoscalerCheckpoint> {
    let (name, namespace) = (object.name_any(), object.namespace());
    let mut value = serde_json::to_value(object).ok()?;
    value["apiVersion"] = names::AUTOSCALING_V1.into();
    value["kind"] = names::VPA_CHECKPOINT_KIND.into();
    let read = decode_checkpoint(value);
    read.inspect_err(|error| tracing::warn!(checkpoint = name, namespace, %error, "a checkpoint cannot be read")).ok()
}

/// Writes a checkpoint, whether it exists or not.
pub(crate) async fn write(
    client: &Client,
    namespace: &str,
    autoscaler: &str,
    container: &str,
    status: VerticalPodAutoscalerCheckpointStatus,
) -> Result<(), kube::Error> {
    let name = checkpoint_name(autoscaler, container);
    let path = requests::path(&checkpoints(), namespace, &name, None);
    // Upstream's own form. A merge patch would keep buckets that are empty by now.
    let replace = [json!({"op": "replace", "path": "/status", "value": status})];
    match requests::patch(client, &path, &replace).await {
        Err(kube::Error::Api(error)) if error.is_not_found() => {}
        patched => return patched.map(drop),
    }
    let checkpoint = VerticalPodAutoscalerCheckpoint {
        api_version: names::AUTOSCALING_V1.to_owned(),
        kind: names::VPA_CHECKPOINT_KIND.to_owned(),
        metadata: kube::core::ObjectMeta { name: Some(name), ..Default::default() },
        spec: VerticalPodAutoscalerCheckpointSpec {
            vpa_object_name: autoscaler.to_owned(),
            container_name: container.to_owned(),
        },
        status,
    };
    let checkpoint = serde_json::to_value(checkpoint).and_then(serde_json::from_value);
    let checkpoint: DynamicObject = checkpoint.map_err(kube::Error::SerdeError)?;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &checkpoints());
    api.create(&PostParams::default(), &checkpoint).await.map(drop)
}

pub(crate) async fn delete(client: &Client, namespace: &str, name: &str) -> Result<(), kube::Error> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &checkpoints());
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(error)) if error.is_not_found() => Ok(()),
        deleted => deleted.map(drop),
    }
}
