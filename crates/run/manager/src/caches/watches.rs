//! Keeps the view: SidecarSets, Namespaces, ControllerRevisions and service accounts are watched, and their changes are applied in batches.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_api::names;
use pillion_informer::{Cache, Failure, State};
use pillion_lifecycle::marks::Means;
use tokio::sync::watch;

use crate::caches::cluster::{AccountView, AnyChange, NamespaceView, Objects, View};
use crate::caches::revision_view::RevisionView;
use crate::caches::set_view::SetView;
use crate::metrics::Metrics;

/// How many changes make one view at most. All that wait are applied at once, so that a flood of them is not one view each.
const LARGEST_BATCH: usize = 10_000;

/// How many pinned revisions are read at the same time.
const READS: usize = 16;

/// A pinned revision that could not be read is read again after this time.
const RETRY: Duration = Duration::from_secs(1);

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
    /// Only those that may be injected.
    pub(crate) accounts: Cache<AccountView>,
}

impl Caches {
    /// How far the view can be relied on.
    pub(crate) fn state(&self) -> State {
        let states = [self.sets.state(), self.namespaces.state(), self.revisions.state(), self.accounts.state()];
        states.into_iter().min().unwrap_or(State::Syncing)
    }

    pub(crate) async fn stopped(&self) {
        tokio::select! {
            () = self.sets.stopped() => {}
            () = self.namespaces.stopped() => {}
            () = self.revisions.stopped() => {}
            () = self.accounts.stopped() => {}
        }
    }

    /// Reports sizes, ages and failures.
    pub(crate) fn measure(&self, metrics: &Metrics) {
        metrics.cache("SidecarSet", &self.sets);
        metrics.cache("Namespace", &self.namespaces);
        metrics.cache("ControllerRevision", &self.revisions);
        metrics.cache("ServiceAccount", &self.accounts);
    }

    /// The watches that fail, by what they watch.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&'static str, Failure)> + use<> {
        let all = [
            ("SidecarSets", self.sets.failure()),
            ("Namespaces", self.namespaces.failure()),
            ("ControllerRevisions", self.revisions.failure()),
            ("ServiceAccounts", self.accounts.failure()),
        ];
        all.into_iter().filter_map(|(what, failure)| Some((what, failure?)))
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
        let whole: Api<DynamicObject> = Api::namespaced_with(client.clone(), &revisions_namespace, &resource);
        let revisions = Api::namespaced_with(self.revisions.client(&client), &revisions_namespace, &resource);
        let objects = Objects::new(means, self.revisions.clone(), revisions_namespace);
        tokio::join!(
            self.sets.clone().run(Api::all_with(self.sets.client(&client), &sidecarsets()), watcher::Config::default()),
            self.namespaces.clone().run(Api::all(self.namespaces.client(&client)), watcher::Config::default()),
            self.accounts.clone().run(Api::all(self.accounts.client(&client)), watcher::Config::default()),
            self.revisions.clone().run(revisions, watcher::Config::default()),
            publish(&self, objects, &whole, views),
        );
    }
}

/// Sends a view of the caches whenever they change.
async fn publish(
    caches: &Caches,
    mut objects: Objects,
    revisions: &Api<DynamicObject>,
    views: watch::Sender<Arc<View>>,
) {
    tokio::join!(caches.sets.synced(), caches.namespaces.synced(), caches.revisions.synced(), caches.accounts.synced());
    let (sets, more_sets) = caches.sets.subscribe();
    let (namespaces, more_namespaces) = caches.namespaces.subscribe();
    let (accounts, more_accounts) = caches.accounts.subscribe();
    // The objects look at the revisions in their cache, and have to hear only of what changes there.
    let more_revisions = caches.revisions.updates();
    objects.apply(namespaces.into_iter().map(AnyChange::Namespace));
    objects.apply(accounts.into_iter().map(AnyChange::Account));
    objects.apply(sets.into_iter().map(AnyChange::SidecarSet));
    // Without its pinned revision a set would refuse its pods: nothing is decided before.
    while !read_pinned(&mut objects, revisions).await {
        tokio::time::sleep(RETRY).await;
    }
    views.send_replace(Arc::new(objects.view()));
    let changes = [
        more_sets.map(AnyChange::SidecarSet).boxed(),
        more_namespaces.map(AnyChange::Namespace).boxed(),
        more_revisions.map(AnyChange::Revision).boxed(),
        more_accounts.map(AnyChange::Account).boxed(),
    ];
    let mut batches = stream::select_all(changes).ready_chunks(LARGEST_BATCH);
    let mut is_all_read = true;
    loop {
        let mut is_changed = !is_all_read;
        tokio::select! {
            batch = batches.next() => {
                let Some(batch) = batch else { return };
                is_changed |= objects.apply(batch);
            }
            () = tokio::time::sleep(RETRY), if !is_all_read => {}
        }
        if is_changed {
            is_all_read = read_pinned(&mut objects, revisions).await;
            views.send_replace(Arc::new(objects.view()));
        }
    }
}

/// Reads the revisions that sets pin, unless they have been read. Returns whether all that there are could be read.
async fn read_pinned(objects: &mut Objects, revisions: &Api<DynamicObject>) -> bool {
    let names: BTreeSet<String> = objects.unread();
    if names.is_empty() {
        return true;
    }
    let reads = names.into_iter().map(async |name| (revisions.get_opt(&name).await, name));
    let read: Vec<_> = stream::iter(reads).buffer_unordered(READS).collect().await;
    let (mut is_all, mut found) = (true, Vec::new());
    for (read, name) in read {
        match read {
            Ok(Some(object)) => found.extend(serde_json::to_value(object)),
            // The watch will say the same.
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(revision = name, %error, "a pinned ControllerRevision could not be read; trying again");
                is_all = false;
            }
        }
    }
    objects.supply(found);
    is_all
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
