//! Keeps the view: SidecarSets, Namespaces and ControllerRevisions are watched, and their changes are applied in batches.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_api::names;
use pillion_informer::{Cache, State};
use pillion_lifecycle::marks::Means;
use tokio::sync::watch;

use crate::cluster::{AnyChange, NamespaceView, Objects, RevisionView, SetView, View};
use crate::metrics::Metrics;

/// How many changes make one view at most. All that wait are applied at once, so that a flood of them is not one view each.
const LARGEST_BATCH: usize = 10_000;

/// SidecarSet, in the version that is stored.
pub(crate) fn sidecarsets() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(names::GROUP, "v1beta1", names::SIDECARSET_KIND),
        "sidecarsets",
    )
}

/// The caches that the view is made of.
#[derive(Clone, Default)]
pub(crate) struct Caches {
    pub(crate) sets: Cache<SetView>,
    pub(crate) namespaces: Cache<NamespaceView>,
    pub(crate) revisions: Cache<RevisionView>,
}

impl Caches {
    /// How far the view can be relied on.
    pub(crate) fn state(&self) -> State {
        self.sets.state().min(self.namespaces.state()).min(self.revisions.state())
    }

    /// Returns when a watch has ended.
    pub(crate) async fn stopped(&self) {
        tokio::select! {
            () = self.sets.stopped() => {}
            () = self.namespaces.stopped() => {}
            () = self.revisions.stopped() => {}
        }
    }

    /// Reports sizes and ages.
    pub(crate) fn measure(&self, metrics: &Metrics) {
        metrics.cache("SidecarSet", self.sets.len(), self.sets.age());
        metrics.cache("Namespace", self.namespaces.len(), self.namespaces.age());
        metrics.cache("ControllerRevision", self.revisions.len(), self.revisions.age());
    }

    /// Watches, and keeps the views as the API server has the objects, until dropped. The first view is sent when all caches are synced.
    ///
    /// It is one future: whichever part of it ends or panics, no cache is synced any more.
    pub(crate) async fn run(
        self,
        client: Client,
        revisions_namespace: String,
        means: Means,
        views: watch::Sender<Arc<View>>,
    ) {
        let resource = ApiResource::erase::<k8s_openapi::api::apps::v1::ControllerRevision>(&());
        let sets: Api<DynamicObject> = Api::all_with(client.clone(), &sidecarsets());
        let revisions: Api<DynamicObject> = Api::namespaced_with(client.clone(), &revisions_namespace, &resource);
        tokio::join!(
            self.sets.clone().run(sets, watcher::Config::default()),
            self.namespaces.clone().run(Api::all(client), watcher::Config::default()),
            self.revisions.clone().run(revisions, watcher::Config::default()),
            publish(&self, means, views),
        );
    }
}

/// Sends a view of the caches whenever they change.
async fn publish(caches: &Caches, means: Means, views: watch::Sender<Arc<View>>) {
    tokio::join!(caches.sets.synced(), caches.namespaces.synced(), caches.revisions.synced());
    let (sets, more_sets) = caches.sets.subscribe();
    let (namespaces, more_namespaces) = caches.namespaces.subscribe();
    let (revisions, more_revisions) = caches.revisions.subscribe();
    let mut objects = Objects::new(means);
    let mut held: Vec<AnyChange> = revisions.into_iter().map(AnyChange::Revision).collect();
    held.extend(namespaces.into_iter().map(AnyChange::Namespace));
    held.extend(sets.into_iter().map(AnyChange::SidecarSet));
    objects.apply(held);
    views.send_replace(Arc::new(objects.view()));
    let changes = [
        more_sets.map(AnyChange::SidecarSet).boxed(),
        more_namespaces.map(AnyChange::Namespace).boxed(),
        more_revisions.map(AnyChange::Revision).boxed(),
    ];
    let mut batches = stream::select_all(changes).ready_chunks(LARGEST_BATCH);
    while let Some(batch) = batches.next().await {
        if objects.apply(batch) {
            views.send_replace(Arc::new(objects.view()));
        }
    }
}

#[cfg(test)]
mod tests {
    use pillion_apiserver::{ApiServer, Config};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn views_cannot_be_relied_on_once_what_makes_them_has_ended() {
        let server = ApiServer::new(Config::in_memory());
        server.bootstrap().await.unwrap();
        let client = Client::new(server.router(), "default");
        let caches = Caches::default();
        let running =
            tokio::spawn(caches.clone().run(client, "default".to_owned(), Means::default(), watch::Sender::default()));
        caches.namespaces.synced().await;
        assert_eq!(caches.state(), State::Syncing, "SidecarSets are not served");
        running.abort();
        caches.stopped().await;
        assert_eq!(caches.state(), State::Stopped);
    }
}
