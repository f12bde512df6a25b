//! Pods as the controllers see them: one watch for all of them.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_api::pod::Pod;
use pillion_informer::Cache;
use pillion_rollout::{PodView, Texts};
use tokio::sync::watch;

/// Texts that pods have in common are in memory once.
static TEXTS: LazyLock<Mutex<Texts>> = LazyLock::new(Mutex::default);

/// What is kept of a pod.
#[derive(Debug)]
pub(crate) struct CachedPod(pub(crate) PodView);

impl pillion_informer::View for CachedPod {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Option<CachedPod> {
        let pod = Pod::new(serde_json::to_value(object).ok()?).ok()?;
        Some(CachedPod(PodView::new(&pod, &mut TEXTS.lock().unwrap_or_else(PoisonError::into_inner))))
    }

    /// The SidecarSets that were injected.
    fn groups(&self) -> Vec<Arc<str>> {
        self.0.injected.iter().map(|injected| Arc::clone(&injected.name)).collect()
    }
}

/// The pods of the cluster. They are watched while a controller of this process needs them, and once for all that do.
#[derive(Default)]
pub(crate) struct Pods {
    cache: Cache<CachedPod>,
    users: watch::Sender<usize>,
}

/// The pods are watched while this is held.
pub(crate) struct InUse<'a> {
    pods: &'a Pods,
}

impl Pods {
    /// Has the pods watched, and returns when all of them are known.
    pub(crate) async fn watched(&self) -> InUse<'_> {
        self.users.send_modify(|users| *users += 1);
        let in_use = InUse { pods: self };
        self.cache.synced().await;
        in_use
    }

    /// Watches while somebody needs it.
    pub(crate) async fn run(&self, client: &Client) {
        let mut users = self.users.subscribe();
        loop {
            // The sender is in `self`: there is no error.
            let _ = users.wait_for(|users| *users > 0).await;
            let watching = self.cache.clone().run(api(client.clone()), watcher::Config::default());
            tokio::select! {
                () = watching => {}
                _ = users.wait_for(|users| *users == 0) => {}
            }
        }
    }
}

impl InUse<'_> {
    /// The pods.
    pub(crate) fn cache(&self) -> &Cache<CachedPod> {
        &self.pods.cache
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.pods.users.send_modify(|users| *users -= 1);
    }
}

/// All pods.
pub(crate) fn api(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::erase::<KubePod>(&()))
}

/// The pods of a namespace.
pub(crate) fn in_namespace(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<KubePod>(&()))
}
