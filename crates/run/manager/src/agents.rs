//! Keeps what in-pod agents need in the namespaces of their pods, and takes away what they leave behind.
//!
//! ```text
//!  ConfigMaps with our labels, pods with agents ─▶ assist::keep ─▶ mirrors, parameters of policies
//!                                                 assist::prunable ─▶ pods that are gone ─▶ entries removed from sidecar-result
//!  PodProbeMarkers, pods with agents ─▶ assist::marks ─▶ annotations that agents read, marks of what they found
//! ```
//!
//! The rights for this reach every namespace, and an admission policy of the installation bounds them to these objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use pillion_api::names::agent::{CONFIG, CONFIG_KEY, LABEL, MIRROR, MIRROR_OF, NAME, RESULTS};
use pillion_assist::{AgentNamespace, Keep, Mirrored, excess, keep, not_mirrored, prunable};
use pillion_events::{Recorder, reference};
use pillion_informer::Cache;
use serde_json::{Value, json};

use self::probe_markers::{AgentPod, MarkerView};
use crate::state::Inner;

mod probe_markers;

/// Changes are collected for this time.
const PAUSE: Duration = Duration::from_secs(1);
/// What could not be written is tried again, and results are looked at, this often.
const AGAIN: Duration = Duration::from_mins(1);
/// So many results of one namespace are removed at once; each costs a look at its pod.
const LARGEST_PRUNE: usize = 100;
/// So many results are removed at once because there are too many.
const LARGEST_EXCESS: usize = 1000;

/// Who writes.
fn parameters() -> PatchParams {
    PatchParams { field_manager: Some("pillion-agents".to_owned()), ..PatchParams::default() }
}

/// Runs until dropped.
pub(crate) async fn run(inner: &Inner) {
    let client = &inner.config.client;
    let caches = Caches::default();
    let labelled = |label: &str| watcher::Config::default().labels(label);
    let now = inner.config.now.clone();
    let recorder = Recorder::new(client.clone(), move || now(), "pillion");
    let agents = Agents { inner, recorder, refused: BTreeMap::new() };
    tokio::join!(
        caches.sources.clone().run(Api::all(client.clone()), labelled(MIRROR)),
        caches.maps.clone().run(Api::all(client.clone()), labelled(LABEL)),
        caches.pods.clone().run(probe_markers::pods(client), labelled(LABEL)),
        caches.markers.clone().run(probe_markers::all(client), watcher::Config::default()),
        agents.run(&caches),
    );
}

/// What is watched: by labels, so that no other ConfigMap and no other pod is ever held.
#[derive(Default)]
struct Caches {
    sources: Cache<ConfigMap>,
    maps: Cache<ConfigMap>,
    pods: Cache<AgentPod>,
    markers: Cache<MarkerView>,
}

struct Agents<'a> {
    inner: &'a Inner,
    recorder: Recorder,
    /// Why a source is not mirrored, by its version: it is reported once.
    refused: BTreeMap<String, String>,
}

impl Agents<'_> {
    async fn run(mut self, caches: &Caches) {
        let markers = probe_markers::until_known(&self.inner.config.client, &caches.markers);
        tokio::join!(caches.sources.synced(), caches.maps.synced(), caches.pods.synced(), markers);
        let (sources, maps, pods) = (caches.sources.updates(), caches.maps.updates(), caches.pods.updates());
        let markers = caches.markers.updates();
        let changes =
            [sources.map(drop).boxed(), maps.map(drop).boxed(), pods.map(drop).boxed(), markers.map(drop).boxed()];
        let mut changes = stream::select_all(changes).ready_chunks(1024);
        loop {
            self.look(caches).await;
            tokio::time::sleep(PAUSE).await;
            // What came meanwhile is looked at once.
            if changes.next().now_or_never().is_none() {
                tokio::select! {
                    _ = changes.next() => {}
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        }
    }

    async fn look(&mut self, caches: &Caches) {
        let (source, is_refused) = self.source(&caches.sources);
        for (name, namespace) in namespaces(caches) {
            for plan in keep(&namespace, source.as_ref(), is_refused) {
                let old = caches.maps.get(&name, CONFIG);
                report("written", &name, self.write(&name, &plan, old.as_deref()).await);
            }
        }
        // An OpenKruise serves its PodProbeMarkers itself.
        if self.inner.is_alone() {
            for (namespace, error) in
                probe_markers::look(&self.inner.config.client, &caches.markers, &caches.pods).await
            {
                report("marked", &namespace, Err(error));
            }
        }
        for results in caches.maps.list().iter().filter(|map| map.name_any() == RESULTS) {
            let namespace = results.namespace().unwrap_or_default();
            report("pruned", &namespace, self.prune(&namespace, results, &caches.pods).await);
        }
    }

    /// What is mirrored: of several the first by name. The others, and one that must not be mirrored, are reported on the object.
    fn source(&mut self, sources: &Cache<ConfigMap>) -> (Option<Mirrored>, bool) {
        let mut all = sources.list();
        all.sort_by_key(|map| (map.namespace(), map.name_any()));
        let mut source = None;
        let mut is_refused = false;
        let mut seen = BTreeSet::new();
        for map in all {
            let name = format!("{}/{}", map.namespace().unwrap_or_default(), map.name_any());
            let text = map.data.as_ref().and_then(|data| data.get(CONFIG_KEY)).cloned().unwrap_or_default();
            let reason = match &source {
                Some(Mirrored { name, .. }) => Some(format!("{name} is mirrored, and one configuration at a time")),
                None => not_mirrored(&text).inspect(|_| is_refused = true),
            };
            if source.is_none() {
                source = Some(Mirrored { name: name.clone(), text });
            }
            let Some(reason) = reason else { continue };
            let version = map.resource_version().unwrap_or_default();
            if self.refused.insert(name.clone(), version.clone()).as_ref() != Some(&version) {
                self.recorder.warning(&reference(&*map), "NotMirrored", reason);
            }
            seen.insert(name);
        }
        self.refused.retain(|name, _| seen.contains(name));
        (source, is_refused)
    }

    async fn write(&self, namespace: &str, plan: &Keep, old: Option<&ConfigMap>) -> kube::Result<()> {
        let client: Client = self.inner.config.client.clone();
        let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
        match plan {
            Keep::Mirror(Mirrored { name, text }) => {
                let metadata = json!({"name": CONFIG, "labels": {LABEL: "config"}, "annotations": {MIRROR_OF: name}});
                let object =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CONFIG_KEY: text}});
                // One that is not known to be a mirror is never overwritten.
                if let Some(old) = old {
                    return maps.patch(CONFIG, &parameters(), &Patch::Merge(at(old, object))).await.map(drop);
                }
                let object = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
                maps.create(&PostParams::default(), &object).await.map(drop)
            }
            Keep::Unmirror => {
                let preconditions = Preconditions { uid: old.and_then(kube::ResourceExt::uid), resource_version: None };
                let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                maps.delete(CONFIG, &parameters).await.map(drop)
            }
            Keep::Parameters(data) => {
                maps.patch(NAME, &parameters(), &Patch::Merge(json!({"data": data}))).await.map(drop)
            }
        }
    }

    /// Removes the results of pods that are gone. Each is removed only as it was read: a new pod of the same name may write at any time.
    async fn prune(&self, namespace: &str, results: &ConfigMap, living: &Cache<AgentPod>) -> kube::Result<()> {
        let Some(data) = &results.data else { return Ok(()) };
        let pods: Api<Pod> = Api::namespaced(self.inner.config.client.clone(), namespace);
        let mut operations = Vec::new();
        let mut remove = |pod: &str| {
            let path = format!("/data/{pod}");
            operations.push(json!({"op": "test", "path": path, "value": data.get(pod)}));
            operations.push(json!({"op": "remove", "path": path}));
        };
        let now = (self.inner.config.now)();
        let excess: BTreeSet<String> = excess(data, now).into_iter().take(LARGEST_EXCESS).collect();
        for pod in &excess {
            remove(pod);
        }
        // Those that the watch shows are there; of the others each is looked at, since the watch may be late.
        let unseen = |pod: &String| !excess.contains(pod) && living.get(namespace, pod).is_none();
        for pod in prunable(data, now).into_iter().filter(unseen).take(LARGEST_PRUNE) {
            if pods.get_metadata_opt(&pod).await?.is_none() {
                remove(&pod);
            }
        }
        if operations.is_empty() {
            return Ok(());
        }
        let patch = serde_json::from_value(Value::Array(operations)).map_err(kube::Error::SerdeError)?;
        let maps: Api<ConfigMap> = Api::namespaced(self.inner.config.client.clone(), namespace);
        maps.patch(RESULTS, &parameters(), &Patch::Json::<()>(patch)).await.map(drop)
    }
}

fn report(what: &str, namespace: &str, result: kube::Result<()>) {
    match result {
        Ok(()) => {}
        // Somebody else was faster: the watch reports what is there now.
        Err(kube::Error::Api(answer)) if answer.is_conflict() || answer.is_not_found() => {}
        Err(error) => {
            tracing::warn!(namespace, %error, "what agents need could not be {what}; trying again");
        }
    }
}

/// A patch of an object as it was read.
fn at(old: &ConfigMap, mut patch: Value) -> Value {
    patch["metadata"]["resourceVersion"] = json!(old.metadata.resource_version);
    patch
}

/// The namespaces that have agents or something of theirs.
fn namespaces(caches: &Caches) -> BTreeMap<String, AgentNamespace> {
    let mut namespaces: BTreeMap<String, AgentNamespace> = BTreeMap::new();
    let mut pods: BTreeMap<String, Vec<Arc<AgentPod>>> = BTreeMap::new();
    for pod in caches.pods.list() {
        namespaces.entry(pod.namespace().to_owned()).or_default().has_agents = true;
        pods.entry(pod.namespace().to_owned()).or_default().push(pod);
    }
    for map in caches.maps.list() {
        let namespace = namespaces.entry(map.namespace().unwrap_or_default()).or_default();
        match map.name_any().as_str() {
            CONFIG => {
                let text = map.data.as_ref().and_then(|data| data.get(CONFIG_KEY)).cloned().unwrap_or_default();
                namespace.config = Some((text, map.annotations().get(MIRROR_OF).cloned()));
            }
            NAME => namespace.parameters = Some(map.data.clone().unwrap_or_default()),
            _ => {}
        }
    }
    for (name, pods) in &pods {
        if let Some(namespace) = namespaces.get_mut(name)
            && let Some(parameters) = &namespace.parameters
        {
            namespace.in_use = in_use(parameters, pods);
        }
    }
    for marker in caches.markers.list() {
        // Only where there is something of agents: markers alone are Kruise's.
        if let Some(namespace) = namespaces.get_mut(marker.namespace()) {
            namespace.conditions.extend(marker.marker.conditions().map(str::to_owned));
        }
    }
    namespaces
}

/// What the agent pods of a namespace have of what its parameters allow.
fn in_use(parameters: &BTreeMap<String, String>, pods: &[Arc<AgentPod>]) -> BTreeMap<&'static str, BTreeSet<String>> {
    let used = |field: &'static str| {
        let allowed = parameters.get(field).map(String::as_str).unwrap_or_default().split(',');
        let used = allowed.filter(|key| pods.iter().any(|pod| pod.has(field, key)));
        (field, used.map(str::to_owned).collect())
    };
    ["annotations", "labels", "conditions"].map(used).into()
}
