//! Keeps the view as the cluster is.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use pillion_api::names;
use serde_json::Value;
use tokio::sync::watch;

use super::view::{Key, View, key};

/// Tells the view every change, until it is dropped.
pub(crate) async fn keep(client: Client, view: &watch::Sender<View>) {
    let kinds = [
        ApiResource::erase::<Pod>(&()),
        ApiResource::erase::<Job>(&()),
        ApiResource::erase::<Deployment>(&()),
        ApiResource::erase::<StatefulSet>(&()),
        ApiResource::erase::<DaemonSet>(&()),
        ApiResource::erase::<Event>(&()),
        sidecar_sets(),
    ];
    let watches = kinds.into_iter().map(|kind| {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let kind = Arc::new(kind);
        watcher(api, watcher::Config::default())
            .default_backoff()
            .map_ok(move |event| (Arc::clone(&kind), event))
            .boxed()
    });
    let mut events = stream::select_all(watches);
    let mut listed: HashMap<String, BTreeSet<Key>> = HashMap::new();
    while let Some(event) = events.next().await {
        // An error has been waited out by the watcher; what it missed comes with the next list.
        if let Ok((kind, event)) = event {
            on_event(view, listed.entry(kind.kind.clone()).or_default(), &kind, event);
        }
    }
}

fn sidecar_sets() -> ApiResource {
    let kind = kube::core::GroupVersionKind::gvk(names::GROUP, "v1beta1", names::SIDECARSET_KIND);
    ApiResource::from_gvk(&kind)
}

/// Takes a change. What a list that was begun again no longer has is gone.
fn on_event(
    view: &watch::Sender<View>,
    listed: &mut BTreeSet<Key>,
    kind: &ApiResource,
    event: watcher::Event<DynamicObject>,
) {
    let value = |object: DynamicObject| {
        let mut value = serde_json::to_value(object).unwrap_or_default();
        // Objects of a list come without their kind.
        value["kind"] = Value::from(kind.kind.as_str());
        value
    };
    match event {
        watcher::Event::Init => listed.clear(),
        watcher::Event::InitApply(object) => {
            let object = value(object);
            listed.insert(key(&object));
            view.send_modify(|view| view.apply(&object, Timestamp::now()));
        }
        watcher::Event::InitDone => view.send_modify(|view| view.retain(&kind.kind, listed)),
        watcher::Event::Apply(object) => view.send_modify(|view| view.apply(&value(object), Timestamp::now())),
        watcher::Event::Delete(object) => view.send_modify(|view| view.remove(&value(object))),
    }
}
