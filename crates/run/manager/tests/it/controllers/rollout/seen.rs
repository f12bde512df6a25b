//! Every state that the pods of a namespace go through, as the API server reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::TryStreamExt as _;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use serde::Deserialize;
use tokio::task::JoinHandle;

/// What is looked at of a pod.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SeenPod {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    containers: Vec<Container>,
    #[serde(default)]
    init_containers: Vec<Container>,
}

#[derive(Clone, Debug, Deserialize)]
struct Container {
    image: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default)]
    container_statuses: Vec<ContainerStatus>,
    #[serde(default)]
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    restart_count: u64,
}

impl SeenPod {
    pub(crate) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.r#type == "Ready" && condition.status == "True")
    }

    pub(crate) fn has_image(&self, image: &str) -> bool {
        self.spec.containers.iter().chain(&self.spec.init_containers).any(|container| container.image == image)
    }

    /// How often a container was restarted.
    pub(crate) fn restarts(&self, container: &str) -> u64 {
        let statuses = self.status.container_statuses.iter().chain(&self.status.init_container_statuses);
        statuses.filter(|status| status.name == container).map(|status| status.restart_count).sum()
    }
}

/// The pods of a namespace.
pub(crate) struct SeenPods {
    pub(crate) client: Client,
    pub(crate) url: String,
}

#[derive(Deserialize)]
struct Listed {
    metadata: ListMetadata,
    items: Vec<SeenPod>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
}

impl SeenPods {
    async fn listed(&self) -> Listed {
        let request = Request::new(&self.url).list(&ListParams::default()).unwrap();
        self.client.request(request).await.unwrap()
    }

    /// The pods that there are and that are not on their way out.
    pub(crate) async fn list(&self) -> Vec<SeenPod> {
        let mut pods = self.listed().await.items;
        pods.retain(|pod| !pod.is_leaving());
        pods
    }

    /// Looks at all pods now and after each change of one of them, until the task is aborted. What `find` returns is kept.
    pub(crate) async fn follow(self, find: impl Fn(&[&SeenPod]) -> Vec<String> + Send + 'static) -> Follower {
        let Listed { metadata, items } = self.listed().await;
        let mut pods: BTreeMap<String, SeenPod> =
            items.into_iter().map(|pod| (pod.metadata.uid.clone(), pod)).collect();
        let found: Found = Arc::default();
        let keep = Arc::clone(&found);
        let task = tokio::spawn(async move {
            let mut version = metadata.resource_version;
            loop {
                // A watch is ended after some time, and the next one goes on where it was.
                let request = Request::new(&self.url).watch(&WatchParams::default().timeout(290), &version).unwrap();
                let events = self.client.request_events::<SeenPod>(request).await.unwrap();
                let mut events = std::pin::pin!(events);
                while let Some(event) = events.try_next().await.unwrap() {
                    match event {
                        WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                            version.clone_from(&pod.metadata.resource_version);
                            pods.insert(pod.metadata.uid.clone(), pod);
                        }
                        WatchEvent::Deleted(pod) => {
                            version.clone_from(&pod.metadata.resource_version);
                            pods.remove(&pod.metadata.uid);
                        }
                        WatchEvent::Bookmark(_) => {}
                        WatchEvent::Error(error) => panic!("the watch of pods ended: {error}"),
                    }
                    keep.lock().unwrap().extend(find(&pods.values().collect::<Vec<_>>()));
                }
            }
        });
        Follower { found, task }
    }
}

type Found = Arc<Mutex<BTreeSet<String>>>;

/// Looks at pods.
pub(crate) struct Follower {
    found: Found,
    task: JoinHandle<()>,
}

impl Follower {
    /// Ends it, and says what it has found. It must not have ended by itself.
    pub(crate) fn end(self) -> BTreeSet<String> {
        assert!(!self.task.is_finished(), "nobody looked at the pods any more");
        self.task.abort();
        self.found.lock().unwrap().clone()
    }
}
