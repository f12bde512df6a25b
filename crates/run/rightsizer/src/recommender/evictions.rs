//! Pods that kubelets evicted because a node ran out of memory: the containers that used too much needed more than they requested.

use futures::stream::BoxStream;
use futures::{StreamExt as _, future};
use k8s_openapi::api::core::v1::Event;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use pillion_rightsize::{MemoryEviction, memory_evictions};

/// Every eviction that is reported from now on.
pub(super) fn evictions(client: &Client) -> BoxStream<'static, Vec<MemoryEviction>> {
    let events: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<Event>(&()));
    let watched = watcher(events, watcher::Config::default().fields("reason=Evicted")).default_backoff();
    let found = watched.filter_map(|event| {
        // What is listed first was there before, and has been counted if it was seen.
        let found = match event {
            Ok(watcher::Event::Apply(event)) => serde_json::to_value(event).map(|it| memory_evictions(&it)),
            Ok(_) => Ok(Vec::new()),
            Err(error) => {
                tracing::debug!(%error, "evictions cannot be watched");
                Ok(Vec::new())
            }
        };
        future::ready(found.ok().filter(|found| !found.is_empty()))
    });
    found.boxed()
}
