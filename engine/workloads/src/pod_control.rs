//! Creating and deleting pods for a workload, with the events that report it.

use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::Client;
use kube::api::{Api, DeleteParams, Preconditions};
use pillion_clock::Clock;
use pillion_events::Recorder;
use pillion_informer::Cache;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::error::Error;
use crate::pod::PodView;
use crate::write::{self, NAMESPACE_TERMINATING};

/// So many pods at most are created or deleted for one workload before it is looked at again.
pub(crate) const BURST: usize = 500;

/// Creates and deletes pods as one component.
#[derive(Clone)]
pub(crate) struct PodControl {
    client: Client,
    clock: Clock,
    pods: Cache<PodView>,
    pub(crate) recorder: Recorder,
}

impl PodControl {
    pub(crate) fn new(context: &Context, component: &str) -> PodControl {
        PodControl {
            client: context.client.clone(),
            clock: context.clock,
            pods: context.pods.clone(),
            recorder: context.recorder(component),
        }
    }

    /// Creates a pod and records an event. In a namespace that is being deleted nothing can be created, and no event is recorded.
    pub(crate) async fn create(&self, owner: &ObjectReference, pod: &Value) -> Result<(), Error> {
        match self.create_quietly(owner.namespace.as_deref().unwrap_or_default(), pod).await {
            Ok(name) => {
                self.recorder.normal(owner, "SuccessfulCreate", format!("Created pod: {name}"));
                Ok(())
            }
            Err(Error::Api(error)) if write::has_cause(&error, NAMESPACE_TERMINATING) => Ok(()),
            Err(error) => {
                self.recorder.warning(owner, "FailedCreate", format!("Error creating: {}", error.message()));
                Err(error)
            }
        }
    }

    /// Creates a pod and answers with its name.
    pub(crate) async fn create_quietly(&self, namespace: &str, pod: &Value) -> Result<String, Error> {
        let created = write::create::<PodView>(&self.client, namespace, pod).await?;
        let name = created.metadata.name.clone().unwrap_or_default();
        self.pods.written(created);
        Ok(name)
    }

    /// Deletes a pod and records an event; one that is gone already is fine.
    pub(crate) async fn delete(&self, owner: &ObjectReference, pod: &PodView) -> Result<(), Error> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        match self.delete_quietly(pod).await {
            Ok(()) => {
                self.recorder.normal(owner, "SuccessfulDelete", format!("Deleted pod: {name}"));
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => {
                let message = error.message();
                self.recorder.warning(owner, "FailedDelete", format!("Error deleting: {message}"));
                Err(Error::Object(format!("unable to delete pods: {message}")))
            }
        }
    }

    /// Deletes a pod, if it is still this one.
    pub(crate) async fn delete_quietly(&self, pod: &PodView) -> Result<(), Error> {
        let api: Api<PodView> =
            Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default());
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let only_this = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
        if let Some(mut going) = api.delete(name, &params).await?.left() {
            // One that went at once need not say when.
            going.metadata.deletion_timestamp.get_or_insert(Time(self.clock.now()));
            self.pods.written(going);
        }
        Ok(())
    }

    /// Creates pods, as many as one burst allows.
    pub(crate) async fn create_many(&self, owner: &ObjectReference, pods: &[Value]) -> Result<(), Error> {
        slow_start(pods.iter().take(BURST).map(|pod| self.create(owner, pod)).collect()).await
    }

    /// Deletes pods, all at the same time; the answer is the first refusal.
    pub(crate) async fn delete_many<'a>(
        &self,
        owner: &ObjectReference,
        pods: impl IntoIterator<Item = &'a PodView>,
    ) -> Result<(), Error> {
        let outcomes = join_all(pods.into_iter().take(BURST).map(|pod| self.delete(owner, pod))).await;
        outcomes.into_iter().collect()
    }
}

/// Does things in growing batches: 1, 2, 4, …; where one is refused, more would be.
pub(crate) async fn slow_start(attempts: Vec<impl Future<Output = Result<(), Error>>>) -> Result<(), Error> {
    let mut attempts = attempts.into_iter();
    let mut size = 1;
    loop {
        let outcomes = join_all(attempts.by_ref().take(size)).await;
        if outcomes.is_empty() {
            return Ok(());
        }
        outcomes.into_iter().collect::<Result<(), Error>>()?;
        size *= 2;
    }
}

/// A pod of a template, with a name that the API server makes.
pub(crate) fn from_template(template: &Value, owner: &OwnerReference) -> Value {
    let mut metadata = Map::new();
    metadata.insert("generateName".to_owned(), prefix(&owner.name).into());
    for field in ["labels", "annotations", "finalizers"] {
        if let Some(value) = template["metadata"].get(field) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    metadata.insert("ownerReferences".to_owned(), json!([owner]));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
}

/// A dash makes names prettier, where there is room for it.
fn prefix(owner: &str) -> String {
    const LONGEST: usize = 253;
    if owner.len() < LONGEST { format!("{owner}-") } else { owner.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_refusal_ends_the_growing_batches() {
        let tried = Cell::new(0);
        let attempt = async |number: usize| {
            tried.set(tried.get() + 1);
            if number == 4 { Err(Error::Object("no".to_owned())) } else { Ok(()) }
        };
        assert!(slow_start((0..3).map(attempt).collect()).await.is_ok());
        assert_eq!(tried.replace(0), 3);
        assert!(slow_start((0..100).map(attempt).collect()).await.is_err());
        assert_eq!(tried.get(), 7, "1, 2 and the 4 in which it failed");
    }

    #[test]
    fn a_pod_has_all_of_its_template_and_its_owner() {
        let template = json!({
            "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}, "name": "ignored"},
            "spec": {"containers": [{"name": "web", "aFieldOfTomorrow": 1}]},
        });
        let owner = OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web".into(),
            uid: "1".into(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        };
        insta::assert_json_snapshot!(from_template(&template, &owner), @r#"
        {
          "apiVersion": "v1",
          "kind": "Pod",
          "metadata": {
            "generateName": "web-",
            "labels": {
              "app": "web"
            },
            "annotations": {
              "a": "b"
            },
            "ownerReferences": [
              {
                "apiVersion": "apps/v1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "ReplicaSet",
                "name": "web",
                "uid": "1"
              }
            ]
          },
          "spec": {
            "containers": [
              {
                "name": "web",
                "aFieldOfTomorrow": 1
              }
            ]
          }
        }
        "#);
    }
}
