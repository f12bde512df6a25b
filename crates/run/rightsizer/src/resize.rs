//! Patches of a pod and of its subresource `resize`.

use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::Client;
use kube::core::ApiResource;
use pillion_rightsize::{ContainerTarget, PodView, resource_patch};
use serde_json::{Value, json};

use crate::requests;

/// Resizes containers of a pod in place.
///
/// # Errors
/// The API server cannot be reached or refuses; the pod was replaced by another of the same name.
pub async fn resize(client: &Client, pod: &PodView, targets: &[ContainerTarget]) -> Result<(), kube::Error> {
    patch_pod(client, pod, Some("resize"), &resource_patch(pod, targets)).await
}

/// Patches a pod, or a subresource of it.
pub(crate) async fn patch_pod(
    client: &Client,
    pod: &PodView,
    subresource: Option<&str>,
    operations: &[Value],
) -> Result<(), kube::Error> {
    let path = requests::path(&ApiResource::erase::<KubePod>(&()), &pod.namespace, &pod.name, subresource);
    // Another pod of the same name must not get what was meant for this one.
    let this_one = json!({"op": "test", "path": "/metadata/uid", "value": pod.uid});
    let operations: Vec<Value> = std::iter::once(this_one).chain(operations.iter().cloned()).collect();
    requests::patch(client, &path, &operations).await.map(drop)
}
