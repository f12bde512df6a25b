//! PodProbeMarkers without a node daemon: the probes are written on pods with agents, and their results mark the pods.
//!
//! ```text
//!  PodProbeMarkers, pods with agents ─▶ assist::marks ─▶ annotations that the agent reads, labels and annotations of results
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{Api, ListParams, Patch};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use pillion_api::{names, probe_marker};
use pillion_assist::{Marks, ProbeMarker, marks};
use pillion_informer::Cache;
use pillion_selector::Selector;
use serde_json::{Value, json};

use super::{Agents, failure, parameters};

/// So many pods are written at the same time.
const AT_ONCE: usize = 8;

/// A PodProbeMarker that can be used.
#[derive(Debug)]
pub(crate) struct MarkerView {
    name: String,
    selector: Selector,
    pub(crate) marker: ProbeMarker,
    generation: Option<i64>,
    status: Value,
}

impl pillion_informer::View for MarkerView {
    type Object = DynamicObject;

    /// `None` for one whose selector is malformed: it was stored while nobody checked it.
    fn of(object: DynamicObject) -> Option<MarkerView> {
        let spec = &object.data["spec"];
        let selector: LabelSelector = serde_json::from_value(spec["selector"].clone()).ok()?;
        let name = object.name_any();
        Some(MarkerView {
            marker: ProbeMarker::new(&name, &spec["probes"], &probe_marker::CONDITIONS_OF_KUBERNETES),
            name,
            selector: Selector::from_label_selector(&selector).ok()?,
            generation: object.metadata.generation,
            status: object.data["status"].clone(),
        })
    }
}

/// All PodProbeMarkers.
pub(crate) fn all(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource())
}

/// Returns when the cache has the PodProbeMarkers, at once where nobody defines the kind: it may come later.
pub(crate) async fn until_known(client: &Client, markers: &Cache<MarkerView>) {
    match all(client).list_metadata(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() => {}
        _ => markers.synced().await,
    }
}

/// How PodProbeMarkers are reached.
fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(names::GROUP, "v1alpha1", probe_marker::KIND);
    ApiResource::from_gvk_with_plural(&kind, probe_marker::PLURAL)
}

impl Agents<'_> {
    /// Writes probes and marks on the pods of a namespace that have agents, and the statuses of its markers. Returns the errors.
    pub(super) async fn mark_probed_pods(&self, namespace: &str) -> Vec<kube::Error> {
        let client = &self.inner.config.client;
        let markers = self.caches.markers.in_namespace(namespace);
        let pods = self.agents_in(namespace);
        let mut matched: BTreeMap<&str, i64> = BTreeMap::new();
        let mut writes = Vec::new();
        for pod in pods.iter().map(|pod| pod.as_value()) {
            let metadata = &pod["metadata"];
            let selects = |it: &&Arc<MarkerView>| it.selector.matches(|key| metadata["labels"][key].as_str());
            let mut of_pod = Vec::new();
            for it in markers.iter().filter(selects) {
                *matched.entry(&it.name).or_default() += 1;
                of_pod.push(it.marker.clone());
            }
            let changes = marks(pod, &of_pod);
            if metadata["deletionTimestamp"].is_null() && !changes.is_empty() {
                writes.push(async move { failure(write(client, namespace, metadata, &changes).await) });
            }
        }
        let written: Vec<Option<kube::Error>> = stream::iter(writes).buffer_unordered(AT_ONCE).collect().await;
        let mut failed: Vec<kube::Error> = written.into_iter().flatten().collect();
        for it in &markers {
            let pods = matched.get(it.name.as_str()).copied().unwrap_or_default();
            let status = json!({"observedGeneration": it.generation, "matchedPods": pods});
            if it.status != status {
                let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource());
                let patch = Patch::Merge(json!({"status": status}));
                failed.extend(failure(api.patch_status(&it.name, &parameters(), &patch).await.map(drop)));
            }
        }
        failed
    }
}

async fn write(client: &Client, namespace: &str, metadata: &Value, changes: &Marks) -> kube::Result<()> {
    let name = metadata["name"].as_str().unwrap_or_default();
    let Marks { labels, annotations } = changes;
    // Another pod of the same name must not get what was meant for this one.
    let patch = json!({"metadata": {"uid": metadata["uid"], "labels": labels, "annotations": annotations}});
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.patch_metadata(name, &parameters(), &Patch::Merge(patch)).await.map(drop)
}
