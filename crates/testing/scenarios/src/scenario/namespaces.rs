//! The end of a namespace.

use anyhow::ensure;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace as KubeNamespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::deployments::web;
use super::{UNTIL_TERM, app, is_ready, shell};
use crate::{Namespace, wait};

/// Everything in it goes, running pods included, and then the namespace itself.
pub async fn a_namespace_takes_everything_with_it(namespace: &Namespace) -> anyhow::Result<()> {
    let namespaces: Api<KubeNamespace> = Api::all(namespace.client());
    let inner = format!("{}-inner", namespace.name());
    namespaces.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": inner}}))?).await?;
    let root: Api<ConfigMap> = Api::namespaced(namespace.client(), &inner);
    wait::for_object(root.clone(), "kube-root-ca.crt", "there", |_| true).await?;
    let pods: Api<Pod> = Api::namespaced(namespace.client(), &inner);
    let pod = serde_json::from_value(app(json!({"containers": [shell("main", UNTIL_TERM)]})))?;
    wait::until("a pod is taken", async || match pods.create(&PostParams::default(), &pod).await {
        Ok(_) => Ok(Some(())),
        // Its service account is made a moment later.
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        Err(error) => Err(error.into()),
    })
    .await?;
    let deployments: Api<Deployment> = Api::namespaced(namespace.client(), &inner);
    let deployment = serde_json::from_value(web("one", json!({"replicas": 1})))?;
    deployments.create(&PostParams::default(), &deployment).await?;
    wait::for_object(pods.clone(), "app", "ready", is_ready).await?;

    namespaces.delete(&inner, &DeleteParams::default()).await?;
    let refused =
        root.create(&PostParams::default(), &serde_json::from_value(json!({"metadata": {"name": "late"}}))?).await;
    let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(refused.contains("because it is being terminated"), "a new object is answered with {refused:?}");
    wait::until("the end of the namespace", async || Ok(namespaces.get_opt(&inner).await?.is_none().then_some(())))
        .await?;
    let left = pods.list(&ListParams::default()).await?.items.len();
    ensure!(left == 0, "{left} pods are left");
    Ok(())
}
