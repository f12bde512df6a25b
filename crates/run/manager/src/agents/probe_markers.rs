//! PodProbeMarkers without a node daemon: the probes are written on pods with agents, and their results mark the pods.
//!
//! ```text
//!  PodProbeMarkers, pods with agents ─▶ assist::marks ─▶ annotations that the agent reads, labels and annotations of results
//! ```

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::api::{Api, ListParams, Patch};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use pillion_api::{names, probe_marker};
use pillion_assist::{Marks, ProbeMarker, REMOVED, marks};
use pillion_informer::Cache;
use pillion_patch::selector::Selector;
use serde::Deserializer;
use serde_json::{Value, json};

use crate::watched::{Keep, Kind, Watched, part};

/// So many pods are written at the same time.
const AT_ONCE: usize = 8;

/// What is read of a pod with an agent.
#[derive(Clone, Debug)]
pub(crate) struct OfAgentPod;

impl Kind for OfAgentPod {
    type Read = Value;

    fn read<'de, D: Deserializer<'de>>(text: D) -> Result<(ObjectMeta, Value), D::Error> {
        part(POD, text)
    }
}

const POD: Keep = Keep::Fields(&[
    ("metadata", Keep::Without("managedFields")),
    ("spec", Keep::Fields(&[("containers", CONTAINER), ("initContainers", CONTAINER)])),
    ("status", Keep::Fields(&[("conditions", CONDITION)])),
]);

const CONTAINER: Keep = Keep::Fields(&[("name", Keep::All), ("ports", Keep::All), ("restartPolicy", Keep::All)]);
const CONDITION: Keep = Keep::Fields(&[("type", Keep::All), ("status", Keep::All), ("reason", Keep::All)]);

/// A pod with an agent.
#[derive(Debug)]
pub(crate) struct AgentPod(Value);

impl AgentPod {
    pub(crate) fn namespace(&self) -> &str {
        self.0["metadata"]["namespace"].as_str().unwrap_or_default()
    }

    /// Whether the pod has a label, an annotation, or a condition of its agent. What an agent reports has a reason, and since a condition cannot be
    /// removed, one that it has given up counts as gone.
    pub(crate) fn has(&self, field: &str, key: &str) -> bool {
        if field != "conditions" {
            return !self.0["metadata"][field][key].is_null();
        }
        let conditions = self.0["status"]["conditions"].as_array().into_iter().flatten();
        let mut reasons =
            conditions.filter(|condition| condition["type"] == key).filter_map(|it| it["reason"].as_str());
        reasons.any(|reason| !reason.is_empty() && reason != REMOVED)
    }
}

impl pillion_informer::View for AgentPod {
    type Object = Watched<OfAgentPod>;

    fn of(object: Watched<OfAgentPod>) -> Option<AgentPod> {
        Some(AgentPod(object.into_read()))
    }

    /// Heartbeats of a pod change nothing that is read here.
    fn is_same(&self, old: &AgentPod) -> bool {
        let parts = |pod: &Value| {
            let metadata = &pod["metadata"];
            (metadata["labels"].clone(), metadata["annotations"].clone(), metadata["deletionTimestamp"].clone())
        };
        parts(&self.0) == parts(&old.0) && self.0["status"] == old.0["status"] && self.0["spec"] == old.0["spec"]
    }
}

/// A PodProbeMarker that can be used.
#[derive(Debug)]
pub(crate) struct MarkerView {
    namespace: String,
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
            namespace: object.namespace().unwrap_or_default(),
            marker: ProbeMarker::new(&name, &spec["probes"], &probe_marker::CONDITIONS_OF_KUBERNETES),
            name,
            selector: Selector::from_label_selector(&selector).ok()?,
            generation: object.metadata.generation,
            status: object.data["status"].clone(),
        })
    }
}

impl MarkerView {
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// All pods, with what is read of them.
pub(crate) fn pods(client: &Client) -> Api<Watched<OfAgentPod>> {
    Api::all_with(client.clone(), &ApiResource::erase::<Pod>(&()))
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

/// Brings all pods with agents, and the statuses of markers, to what they should be. Returns what could not be written, by namespace.
pub(crate) async fn look(
    client: &Client,
    markers: &Cache<MarkerView>,
    pods: &Cache<AgentPod>,
) -> Vec<(String, kube::Error)> {
    let mut failed = Vec::new();
    let mut markers = markers.list();
    markers.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let mut matched: BTreeMap<(&str, &str), i64> =
        markers.iter().map(|it| ((it.namespace.as_str(), it.name.as_str()), 0)).collect();
    let pods = pods.list();
    let mut writes = Vec::new();
    for pod in &pods {
        let (metadata, namespace) = (&pod.0["metadata"], pod.namespace());
        let selects = |it: &&std::sync::Arc<MarkerView>| {
            it.namespace == namespace && it.selector.matches(|key| metadata["labels"][key].as_str())
        };
        let mut of_pod = Vec::new();
        for it in markers.iter().filter(selects) {
            *matched.entry((&it.namespace, &it.name)).or_default() += 1;
            of_pod.push(it.marker.clone());
        }
        let changes = marks(&pod.0, &of_pod);
        if metadata["deletionTimestamp"].is_null() && !changes.is_empty() {
            writes.push(async move {
                write(client, namespace, metadata, &changes).await.map_err(|error| (namespace.to_owned(), error))
            });
        }
    }
    let mut written = stream::iter(writes).buffer_unordered(AT_ONCE);
    while let Some(result) = written.next().await {
        failed.extend(result.err());
    }
    for it in &markers {
        let pods = matched.get(&(it.namespace.as_str(), it.name.as_str())).copied().unwrap_or_default();
        let status = json!({"observedGeneration": it.generation, "matchedPods": pods});
        if it.status == status {
            continue;
        }
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &it.namespace, &resource());
        let patch = Patch::Merge(json!({"status": status}));
        if let Err(error) = api.patch_status(&it.name, &super::parameters(), &patch).await {
            failed.push((it.namespace.clone(), error));
        }
    }
    failed
}

async fn write(client: &Client, namespace: &str, metadata: &Value, changes: &Marks) -> kube::Result<()> {
    let name = metadata["name"].as_str().unwrap_or_default();
    let Marks { labels, annotations } = changes;
    // Another pod of the same name must not get what was meant for this one.
    let patch = json!({"metadata": {"uid": metadata["uid"], "labels": labels, "annotations": annotations}});
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    pods.patch_metadata(name, &super::parameters(), &Patch::Merge(patch)).await.map(drop)
}
