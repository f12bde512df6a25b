//! Keeps the view: SidecarSets, Namespaces and ControllerRevisions are watched, and what they tell is taken in batches.

use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use pillion_api::names;
use tokio::sync::watch;

use crate::cluster::{Change, Objects, View};

/// So many changes at most make one view. All that wait are taken at once, so that a flood of them is not one view each.
const LARGEST_BATCH: usize = 10_000;

/// SidecarSet, in the version that is stored.
pub(crate) fn sidecarsets() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(names::GROUP, "v1beta1", names::SIDECARSET_KIND),
        "sidecarsets",
    )
}

/// Keeps `views` as the API server has it, for ever.
pub(crate) async fn keep(client: Client, revisions_namespace: String, views: watch::Sender<Arc<View>>) {
    let revisions = ApiResource::erase::<k8s_openapi::api::apps::v1::ControllerRevision>(&());
    let owned = watcher::Config::default().labels(names::REVISION_OWNER);
    let changes: [BoxStream<'static, Change>; 3] = [
        told(watcher(Api::all_with(client.clone(), &sidecarsets()), watcher::Config::default()))
            .map(Change::SidecarSet)
            .boxed(),
        told(watcher(Api::all(client.clone()), watcher::Config::default())).map(Change::Namespace).boxed(),
        told(watcher(Api::<DynamicObject>::namespaced_with(client, &revisions_namespace, &revisions), owned))
            .map(Change::Revision)
            .boxed(),
    ];
    let mut batches = stream::select_all(changes).ready_chunks(LARGEST_BATCH);
    let mut objects = Objects::default();
    while let Some(batch) = batches.next().await {
        let mut is_different = false;
        for change in batch {
            is_different |= objects.take(change);
        }
        if is_different && objects.is_filled() {
            views.send_replace(Arc::new(objects.view()));
        }
    }
}

/// What a watch tells. After an error it is begun again, later and later.
fn told<K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
) -> impl Stream<Item = watcher::Event<K>> + Send + 'static
where
    K: kube::Resource + Clone + Send + 'static,
{
    events.default_backoff().filter_map(|event| async move {
        event.inspect_err(|error| tracing::warn!(%error, "a watch was interrupted and is begun again")).ok()
    })
}
