//! What every namespace has from its beginning: the account `default`, and the certificate by which pods trust the API server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PartialObjectMeta, PostParams};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use pillion_informer::{Controller, NamespacedName, watch};

use crate::context::Context;
use crate::error::Error;
use crate::kinds::Cached;

const ACCOUNT: &str = "default";
const CERTIFICATE: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// Keeps them in every namespace, until dropped.
pub(crate) async fn run(context: Context) {
    let accounts = touched::<ServiceAccount>(&context.client, ACCOUNT);
    let certificates = touched::<ConfigMap>(&context.client, CERTIFICATE);
    let namespaces = context.namespaces.clone();
    let reconcile = move |namespace| reconcile(context.clone(), namespace);
    Controller::new(&namespaces).reconcile_on(stream::select(accounts, certificates)).run(reconcile).await;
}

/// The namespaces in which an object of this name has been changed or deleted.
fn touched<K: Cached>(client: &Client, name: &str) -> impl Stream<Item = NamespacedName> + Send + use<K> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watch(Api::<PartialObjectMeta<K>>::all(client.clone()), config).filter_map(async |event| match event {
        watcher::Event::Apply(object) | watcher::Event::Delete(object) => {
            object.namespace().map(NamespacedName::cluster_scoped)
        }
        _ => None,
    })
}

async fn reconcile(context: Context, namespace: Arc<Namespace>) -> Result<Option<Duration>, Error> {
    if namespace.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let name = namespace.name_any();
    let accounts: Api<ServiceAccount> = Api::namespaced(context.client.clone(), &name);
    if accounts.get_metadata_opt(ACCOUNT).await?.is_none() {
        let metadata = ObjectMeta { name: Some(ACCOUNT.to_owned()), ..ObjectMeta::default() };
        let account = ServiceAccount { metadata, ..ServiceAccount::default() };
        unless_there(accounts.create(&PostParams::default(), &account).await)?;
    }
    if let Some(certificate) = &context.certificate_authority {
        publish(Api::namespaced(context.client.clone(), &name), certificate).await?;
    }
    Ok(None)
}

async fn publish(maps: Api<ConfigMap>, certificate: &str) -> Result<(), Error> {
    let data = BTreeMap::from([("ca.crt".to_owned(), certificate.to_owned())]);
    let annotations = BTreeMap::from([("kubernetes.io/description".to_owned(), DESCRIPTION.to_owned())]);
    let Some(mut map) = maps.get_opt(CERTIFICATE).await? else {
        let metadata =
            ObjectMeta { name: Some(CERTIFICATE.to_owned()), annotations: Some(annotations), ..ObjectMeta::default() };
        let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
        return unless_there(maps.create(&PostParams::default(), &map).await);
    };
    if map.data.as_ref() != Some(&data) {
        map.data = Some(data);
        map.metadata.annotations.get_or_insert_default().extend(annotations);
        maps.replace(CERTIFICATE, &PostParams::default(), &map).await?;
    }
    Ok(())
}

/// Another may have been faster.
fn unless_there<K>(created: kube::Result<K>) -> Result<(), Error> {
    match created {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        other => other.map(drop).map_err(Error::from),
    }
}

#[cfg(test)]
mod tests {
    use kube::api::DeleteParams;
    use serde_json::json;

    use crate::test_cluster::{TestCluster, settle};

    #[tokio::test(start_paused = true)]
    async fn every_namespace_has_an_account_and_the_certificate_and_gets_them_back() {
        let cluster = TestCluster::start().await;
        cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}})).await;
        settle(1).await;
        assert_eq!(cluster.list("v1 ServiceAccount", "new").await[0]["metadata"]["name"], "default");
        assert_eq!(cluster.list("v1 ConfigMap", "new").await[0]["data"], json!({"ca.crt": "PEM"}));

        cluster.delete("v1 ServiceAccount", "default", &DeleteParams::default()).await;
        cluster.patch("v1 ConfigMap", "kube-root-ca.crt", json!({"data": {"ca.crt": "other"}})).await;
        settle(1).await;
        assert_eq!(cluster.get("v1 ServiceAccount", "default").await["metadata"]["name"], "default");
        assert_eq!(cluster.get("v1 ConfigMap", "kube-root-ca.crt").await["data"], json!({"ca.crt": "PEM"}));
    }
}
