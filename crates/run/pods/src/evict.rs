//! Evicts pods.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use kube::{Api, Client};

/// Evicts the pod with this UID. Another pod of the same name is not evicted.
///
/// # Errors
/// The API server cannot be reached or refuses; the pod is gone or was replaced.
pub async fn evict(client: &Client, namespace: &str, name: &str, uid: &str) -> Result<(), kube::Error> {
    let this_one = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
    let delete = DeleteParams { preconditions: Some(this_one), ..DeleteParams::default() };
    let parameters = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
    Api::<Pod>::namespaced(client.clone(), namespace).evict(name, &parameters).await.map(drop)
}
