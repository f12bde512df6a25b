//! The namespace that a scenario has for itself.

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{TestCluster, wait};

/// A namespace, and the cluster that it is in.
#[derive(Clone)]
pub struct Namespace {
    cluster: TestCluster,
    name: String,
}

impl Namespace {
    pub(crate) fn new(cluster: TestCluster, name: String) -> Namespace {
        Namespace { cluster, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The client, for what is not in the namespace.
    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Objects of one kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), &self.name)
    }

    /// Creates an object in the namespace from JSON.
    pub async fn create<K>(&self, object: Value) -> anyhow::Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
        K::DynamicType: Default,
    {
        Ok(self.api().create(&PostParams::default(), &serde_json::from_value(object)?).await?)
    }

    /// Waits until a pod is as `condition` wants it, and gives it.
    pub async fn wait_for_pod(&self, name: &str, what: &str, condition: impl Fn(&Pod) -> bool) -> anyhow::Result<Pod> {
        wait::for_object(self.api(), name, what, condition).await
    }

    /// A pod is refused while the account that it runs as is not there. A controller makes it, where there is one.
    pub(crate) async fn ensure_service_account(&self) -> anyhow::Result<()> {
        if self.cluster.server().is_some() {
            return self.create::<ServiceAccount>(json!({"metadata": {"name": "default"}})).await.map(drop);
        }
        wait::for_object(self.api::<ServiceAccount>(), "default", "there", |_| true).await.map(drop)
    }
}
