//! The one watch of pods.

use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kube::core::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_api::names::agent::LABEL;
use pillion_informer::Cache;
use tokio::sync::watch::Sender;
use tokio::task::JoinSet;

use crate::cached::CachedPod;
use crate::parts::{PodPart, Users};

/// The pods of a cluster. Clones are the same; the watch ends with the last of them.
#[derive(Clone)]
pub struct Pods {
    inner: Arc<Inner>,
}

struct Inner {
    watch: Watch,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Clone)]
struct Watch {
    client: Client,
    cache: Cache<CachedPod>,
    users: Sender<Users>,
    /// The parts that all pods in the cache have.
    listed: Sender<u32>,
    has_ended: Sender<bool>,
}

/// Pods are watched, and have a part, while this is held.
pub struct InUse {
    pods: Pods,
    part: PodPart,
}

impl Pods {
    /// The pods of a cluster, which are not watched yet.
    pub fn new(client: Client) -> Pods {
        let watch = Watch {
            client,
            cache: Cache::new(),
            users: Sender::default(),
            listed: Sender::default(),
            has_ended: Sender::default(),
        };
        Pods { inner: Arc::new(Inner { watch, tasks: Mutex::default() }) }
    }

    /// Has pods watched with a part, and returns when all of them are known.
    pub async fn watched(&self, part: PodPart) -> InUse {
        let watch = &self.inner.watch;
        watch.users.send_modify(|users| users.add(part));
        let in_use = InUse { pods: self.clone(), part };
        self.start();
        // The sender lives as long as `self`: there is no error.
        let _ = watch.listed.subscribe().wait_for(|listed| part.is_in(*listed)).await;
        in_use
    }

    /// Starts the watch, unless it runs already.
    fn start(&self) {
        let mut tasks = self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.is_empty() {
            tasks.spawn(self.inner.watch.clone().run());
        }
    }

    /// The pods that are known.
    pub fn cache(&self) -> &Cache<CachedPod> {
        &self.inner.watch.cache
    }

    /// Whether a controller needs the pods at the moment.
    pub fn is_in_use(&self) -> bool {
        self.inner.watch.users.borrow().parts() != 0
    }

    /// Returns when the watch has ended by a panic.
    pub async fn stopped(&self) {
        let _ = self.inner.watch.has_ended.subscribe().wait_for(|has_ended| *has_ended).await;
    }

    /// Ends the watch as a panic in it would.
    #[doc(hidden)]
    pub fn abort(&self) {
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

impl InUse {
    pub fn cache(&self) -> &Cache<CachedPod> {
        self.pods.cache()
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.pods.inner.watch.users.send_modify(|users| users.remove(self.part));
    }
}

impl Watch {
    /// Watches while a controller needs pods. When one needs a part that no pod in the cache has yet, all pods are listed again.
    async fn run(self) {
        let _ended = Ended(&self.has_ended);
        let mut users = self.users.subscribe();
        loop {
            let Ok(parts) = users.wait_for(|users| users.parts() != 0).await.map(|users| users.parts()) else {
                return;
            };
            self.cache.include(parts);
            let pods = Api::all_with(self.cache.client(&self.client), &ApiResource::erase::<Pod>(&()));
            let config = watcher::Config::default();
            let config = if parts == PodPart::Agent.bit() { config.labels(LABEL) } else { config };
            let listed = async {
                self.cache.synced().await;
                self.listed.send_replace(parts);
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = self.cache.clone().run(pods, config) => {}
                () = listed => {}
                _ = users.wait_for(|users| users.parts() == 0 || users.parts() & !parts != 0) => {}
            }
            self.listed.send_replace(0);
        }
    }
}

/// Makes the end of the watch visible, however it ends.
struct Ended<'a>(&'a Sender<bool>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::api::PostParams;
    use pillion_apiserver::{ApiServer, Config};
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_controller_gets_its_part_of_pods_that_others_know_already() {
        let server = ApiServer::new(Config::in_memory());
        server.bootstrap().await.unwrap();
        let client = Client::new(server.router(), "default");
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true});
        let service_account = json!({"metadata": {"name": "default"}});
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> = Api::namespaced(client.clone(), "default");
        accounts.create(&PostParams::default(), &serde_json::from_value(service_account).unwrap()).await.unwrap();
        let create = async |name: &str, labels: serde_json::Value| {
            let pod = json!({
                "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            });
            let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
            pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        };
        create("plain", json!({})).await;
        create("assisted", json!({(LABEL): "enabled"})).await;

        let pods = Pods::new(client.clone());
        let has = |name: &str| {
            let pod = pods.cache().get("default", name);
            pod.map(|pod| (pod.rollout.is_some(), pod.sized.is_some(), pod.agent.is_some()))
        };
        let agents = pods.watched(PodPart::Agent).await;
        assert_eq!((has("plain"), has("assisted")), (None, Some((false, false, true))));
        let rollout = pods.watched(PodPart::Rollout).await;
        assert_eq!((has("plain"), has("assisted")), (Some((true, false, false)), Some((true, false, true))));
        let _sized = pods.watched(PodPart::Sized).await;
        assert_eq!(has("plain"), Some((true, true, false)));
        drop((agents, rollout));
        create("later", json!({})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(has("later"), Some((true, true, false)), "parts stay while pods are watched");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_has_ended_is_visible() {
        let server = ApiServer::new(Config::in_memory());
        server.bootstrap().await.unwrap();
        let pods = Pods::new(Client::new(server.router(), "default"));
        let _in_use = pods.watched(PodPart::Rollout).await;
        pods.abort();
        pods.stopped().await;
    }
}
