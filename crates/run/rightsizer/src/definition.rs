//! Whether there are VerticalPodAutoscalers at all.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client};

use crate::resources::{autoscalers, checkpoints};

/// If the definitions cannot be watched, they are tried again after this time.
const RETRY: Duration = Duration::from_secs(30);

/// Returns when VerticalPodAutoscalers and their checkpoints are served. A cluster without them is nothing to complain about.
pub async fn defined(client: &Client) {
    for resource in [autoscalers(), checkpoints()] {
        let name = format!("{}.{}", resource.plural, resource.group);
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        while let Err(error) = await_condition(definitions.clone(), &name, conditions::is_crd_established()).await {
            tracing::debug!(definition = name, %error, "cannot read whether VerticalPodAutoscalers are served");
            tokio::time::sleep(RETRY).await;
        }
    }
}
