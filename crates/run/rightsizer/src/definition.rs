//! Whether there are VerticalPodAutoscalers at all.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::ApiResource;
use kube::runtime::wait::{Condition as _, await_condition, conditions};
use kube::{Api, Client};

use crate::resources::{autoscalers, checkpoints};

/// If the definitions cannot be watched, they are tried again after this time.
const RETRY: Duration = Duration::from_secs(30);

/// Returns when VerticalPodAutoscalers and their checkpoints are served. A cluster without them is nothing to complain about.
pub async fn defined(client: &Client) {
    for resource in [autoscalers(), checkpoints()] {
        until(client, &resource, true).await;
    }
}

/// Returns when VerticalPodAutoscalers are not served any more: all of them have been deleted with their definition.
pub(crate) async fn undefined(client: &Client) {
    until(client, &autoscalers(), false).await;
}

async fn until(client: &Client, resource: &ApiResource, is_served: bool) {
    let name = format!("{}.{}", resource.plural, resource.group);
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let is_reached = move |definition: Option<&CustomResourceDefinition>| {
        conditions::is_crd_established().matches_object(definition) == is_served
    };
    while let Err(error) = await_condition(definitions.clone(), &name, is_reached).await {
        tracing::debug!(definition = name, %error, "cannot read whether VerticalPodAutoscalers are served");
        tokio::time::sleep(RETRY).await;
    }
}
