//! Keeps the view: SidecarSets, Namespaces and ControllerRevisions are watched, and their changes are applied in batches.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_api::names;
use pillion_informer::{Cache, State};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cluster::{AnyChange, NamespaceView, Objects, RevisionView, SetView, View};

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
#[derive(Clone)]
struct Caches {
    sets: Cache<SetView>,
    namespaces: Cache<NamespaceView>,
    revisions: Cache<RevisionView>,
}

/// What keeps the view as the API server has it, until dropped.
pub(crate) struct Watches {
    caches: Caches,
    _task: JoinSet<()>,
}

impl Watches {
    /// Begins to watch. The first view is sent when all caches are synced.
    pub(crate) fn start(client: Client, revisions_namespace: &str, views: watch::Sender<Arc<View>>) -> Watches {
        let caches = Caches { sets: Cache::new(), namespaces: Cache::new(), revisions: Cache::new() };
        let resource = ApiResource::erase::<k8s_openapi::api::apps::v1::ControllerRevision>(&());
        let sets: Api<DynamicObject> = Api::all_with(client.clone(), &sidecarsets());
        let revisions: Api<DynamicObject> = Api::namespaced_with(client.clone(), revisions_namespace, &resource);
        let running = caches.clone();
        // All in one task: whichever part of it fails, no cache is synced any more.
        let mut task = JoinSet::new();
        task.spawn(async move {
            tokio::join!(
                running.sets.clone().run(sets, watcher::Config::default()),
                running.namespaces.clone().run(Api::all(client), watcher::Config::default()),
                running.revisions.clone().run(revisions, watcher::Config::default()),
                publish(&running, views),
            );
        });
        Watches { caches, _task: task }
    }

    /// How far the views can be relied on.
    pub(crate) fn state(&self) -> State {
        self.caches.state()
    }
}

impl Caches {
    fn state(&self) -> State {
        self.sets.state().min(self.namespaces.state()).min(self.revisions.state())
    }
}

/// Sends a view of the caches whenever they change.
async fn publish(caches: &Caches, views: watch::Sender<Arc<View>>) {
    tokio::join!(caches.sets.synced(), caches.namespaces.synced(), caches.revisions.synced());
    let (sets, more_sets) = caches.sets.subscribe();
    let (namespaces, more_namespaces) = caches.namespaces.subscribe();
    let (revisions, more_revisions) = caches.revisions.subscribe();
    let mut objects = Objects::default();
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
        objects.apply(batch);
        views.send_replace(Arc::new(objects.view()));
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
        let watches = Watches::start(client, "default", watch::Sender::default());
        let caches = watches.caches.clone();
        caches.namespaces.synced().await;
        assert_eq!(watches.state(), State::Syncing, "SidecarSets are not served");
        drop(watches);
        caches.namespaces.stopped().await;
        assert_eq!(caches.state(), State::Stopped);
    }
}
