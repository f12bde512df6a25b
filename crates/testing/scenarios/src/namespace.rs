//! The namespace that a scenario has for itself.

use anyhow::Context as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, ServiceAccount};
use kube::api::{Api, ListParams, LogParams, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Story, TestCluster, wait};

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

    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn cluster(&self) -> &TestCluster {
        &self.cluster
    }

    /// The client, for what is not in the namespace.
    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// Whether the cluster runs containers of images, and not programs of this machine.
    pub(crate) fn is_real(&self) -> bool {
        self.cluster.server().is_none()
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

    /// Begins to write down what happens in the namespace.
    pub async fn story(&self) -> anyhow::Result<Story> {
        Story::begin(self).await
    }

    /// Waits until there is no such object any more.
    pub async fn is_gone<K>(&self, name: &str) -> anyhow::Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
        K::DynamicType: Default,
    {
        let objects = self.api::<K>();
        wait::until(&format!("the end of {name}"), async || Ok(objects.get_opt(name).await?.is_none().then_some(())))
            .await
    }

    /// Waits until a container has written this, and nothing else.
    pub async fn log_is(&self, pod: &str, container: &str, expected: &str) -> anyhow::Result<()> {
        self.log_becomes(pod, container, expected, |log| log == expected).await
    }

    /// Waits until what a container has written ends with this.
    pub async fn log_ends_with(&self, pod: &str, container: &str, expected: &str) -> anyhow::Result<()> {
        self.log_becomes(pod, container, expected, |log| log.ends_with(expected)).await
    }

    async fn log_becomes(
        &self,
        pod: &str,
        container: &str,
        expected: &str,
        is_it: impl Fn(&str) -> bool,
    ) -> anyhow::Result<()> {
        let parameters = LogParams { container: Some(container.to_owned()), ..LogParams::default() };
        let mut log = String::new();
        let found = wait::until("the log", async || {
            match self.api::<Pod>().logs(pod, &parameters).await {
                Ok(written) => log = written,
                // The container has not begun, or the node has not seen the pod.
                Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            Ok(is_it(&log).then_some(()))
        })
        .await;
        found.with_context(|| format!("{container} was to write {expected:?} and wrote {log:?}"))
    }

    /// Waits for an event on an object with this reason whose message begins like this.
    pub async fn has_event(&self, object: &str, reason: &str, beginning: &str) -> anyhow::Result<()> {
        let is_it = |event: &Event| {
            event.involved_object.name.as_deref() == Some(object)
                && event.reason.as_deref() == Some(reason)
                && event.message.as_deref().is_some_and(|message| message.starts_with(beginning))
        };
        let found =
            async || Ok(self.api::<Event>().list(&ListParams::default()).await?.iter().any(is_it).then_some(()));
        wait::until(&format!("an event {reason} of {object}: {beginning}…"), found).await
    }

    /// A pod is refused while its service account is missing, and its first start fails while the certificate of the API server is.
    /// Controllers create both, where there are any.
    pub(crate) async fn is_ready_for_pods(&self) -> anyhow::Result<()> {
        if !self.cluster.has_controllers() {
            return self.create::<ServiceAccount>(json!({"metadata": {"name": "default"}})).await.map(drop);
        }
        wait::for_object(self.api::<ServiceAccount>(), "default", "there", |_| true).await?;
        if self.cluster.has_certificate() {
            wait::for_object(self.api::<ConfigMap>(), "kube-root-ca.crt", "there", |_| true).await?;
        }
        Ok(())
    }
}
