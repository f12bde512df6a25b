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
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use pillion_api::names::agent::{CONFIG, CONFIG_KEY, LABEL, MIRROR, MIRROR_OF, NAME, RESULTS};
use pillion_assist::{AgentNamespace, Keep, Mirrored, excess, keep, not_mirrored, prunable};
use pillion_events::{Recorder, reference};
use pillion_informer::{Backoff, Cache, Change, Outcome};
use pillion_pods::{AgentPod, CachedPod, PodPart};
use serde_json::{Value, json};

use self::probe_markers::MarkerView;
use crate::controllers::registering::changes_of;
use crate::lock::lock;
use crate::state::Inner;

mod probe_markers;

/// The least time between two looks at a namespace.
const PAUSE: Duration = Duration::from_secs(1);
/// Results of a namespace are looked at this often, even if nothing changes.
const AGAIN: Duration = Duration::from_mins(1);
/// How many namespaces are worked on at the same time.
const NAMESPACES: usize = 4;
/// How long a namespace waits in which something could not be written.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_mins(1), is_strict: false };
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
    let recorder = inner.config.recorder();
    let acting = async {
        let markers = probe_markers::until_known(client, &caches.markers);
        let pods = inner.pods.watched(PodPart::Agent);
        let (pods, (), (), ()) = tokio::join!(pods, caches.sources.synced(), caches.maps.synced(), markers);
        let agents = Agents { inner, recorder, caches: &caches, pods: pods.cache(), refused: Mutex::default() };
        agents.run().await;
    };
    tokio::join!(
        caches.sources.clone().run(Api::all(client.clone()), labelled(MIRROR)),
        caches.maps.clone().run(Api::all(client.clone()), labelled(LABEL)),
        caches.markers.clone().run(probe_markers::all(client), watcher::Config::default()),
        acting,
    );
}

/// What is watched besides pods. Labels select the ConfigMaps, so that no other ConfigMap is ever held.
#[derive(Default)]
struct Caches {
    sources: Cache<ConfigMap>,
    maps: Cache<ConfigMap>,
    markers: Cache<MarkerView>,
}

struct Agents<'a> {
    inner: &'a Inner,
    recorder: Recorder,
    caches: &'a Caches,
    pods: &'a Cache<CachedPod>,
    /// The versions of the sources whose refusal has been reported.
    refused: Mutex<BTreeMap<String, String>>,
}

impl Agents<'_> {
    /// Reconciles each namespace that has agents, or something that they use.
    async fn run(&self) {
        let Caches { sources, maps, markers } = self.caches;
        let of_pods =
            self.pods.changes().filter_map(async |change| is_changed(&change).then_some(change.name.namespace));
        let of_maps = maps.changes().map(|change| change.name.namespace);
        let of_markers = markers.changes().map(|change| change.name.namespace);
        self.report_refused();
        let of_sources = sources.updates().flat_map(|_| {
            self.report_refused();
            stream::iter(self.namespaces())
        });
        // Whether PodProbeMarkers are served by OpenKruise has changed.
        let of_others = changes_of(self.inner.waiting.subscribe()).flat_map(|()| stream::iter(self.namespaces()));
        let reconciler = self.inner.config.reconciler("agents").on(of_pods).on(of_maps).on(of_markers).on(of_sources);
        let reconciler = reconciler.on(of_others).concurrency(NAMESPACES).backoff(BACKOFF);
        reconciler.run(|namespace| self.reconcile(namespace).boxed()).await;
    }

    /// The namespaces that have something of agents.
    fn namespaces(&self) -> BTreeSet<Arc<str>> {
        let pods = self.pods.names(|pod| pod.agent.is_some());
        let others = [self.caches.maps.names(|_| true), self.caches.markers.names(|_| true)];
        pods.into_iter().chain(others.into_iter().flatten()).map(|it| it.namespace).collect()
    }

    /// Brings a namespace to what its agents need, and removes what they left. An error in one step does not keep it from the others.
    async fn reconcile(&self, name: Arc<str>) -> Outcome {
        let namespace = self.namespace(&name);
        let selection = select(&self.caches.sources);
        let mut failed = Vec::new();
        for plan in keep(&namespace, selection.source.as_ref(), selection.is_refused) {
            let old = self.caches.maps.get(&name, CONFIG);
            failed.extend(failure(self.write(&name, &plan, old.as_deref()).await));
        }
        // An OpenKruise serves its PodProbeMarkers itself.
        if self.inner.is_alone() {
            failed.extend(self.mark_probed_pods(&name).await);
        }
        let results = self.caches.maps.get(&name, RESULTS);
        if let Some(results) = &results {
            failed.extend(failure(self.prune(&name, results).await));
        }
        match failed.first() {
            Some(error) => Outcome::failed(error),
            None => Outcome::Done(results.map(|_| AGAIN)).and_pause(PAUSE),
        }
    }

    /// Reports the sources that are not mirrored on the objects themselves, once for each version.
    fn report_refused(&self) {
        let refused = select(&self.caches.sources).refused;
        let mut reported = lock(&self.refused);
        reported.retain(|name, _| refused.iter().any(|(map, _)| name_of(map) == *name));
        for (map, reason) in refused {
            let version = map.resource_version().unwrap_or_default();
            if reported.insert(name_of(&map), version.clone()) != Some(version) {
                self.recorder.warning(&reference(&*map), "NotMirrored", reason);
            }
        }
    }

    fn namespace(&self, name: &str) -> AgentNamespace {
        let mut namespace = AgentNamespace::default();
        let pods = self.agents_in(name);
        namespace.has_agents = !pods.is_empty();
        if let Some(map) = self.caches.maps.get(name, CONFIG) {
            let text = map.data.as_ref().and_then(|data| data.get(CONFIG_KEY)).cloned().unwrap_or_default();
            namespace.config = Some((text, map.annotations().get(MIRROR_OF).cloned()));
        }
        if let Some(map) = self.caches.maps.get(name, NAME) {
            let parameters = map.data.clone().unwrap_or_default();
            namespace.in_use = in_use(&parameters, &pods);
            namespace.parameters = Some(parameters);
        }
        for marker in self.caches.markers.in_namespace(name) {
            namespace.conditions.extend(marker.marker.conditions().map(str::to_owned));
        }
        namespace
    }

    /// The pods of a namespace that have an agent, by name.
    fn agents_in(&self, namespace: &str) -> Vec<Arc<AgentPod>> {
        self.pods.in_namespace(namespace).iter().filter_map(|pod| pod.agent.clone()).collect()
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
    async fn prune(&self, namespace: &str, results: &ConfigMap) -> kube::Result<()> {
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
        let is_living = |pod: &str| self.pods.get(namespace, pod).is_some_and(|pod| pod.agent.is_some());
        let unseen = |pod: &String| !excess.contains(pod) && !is_living(pod);
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

/// The error of a write. If another client was faster, the watch reports what is there now.
fn failure(result: kube::Result<()>) -> Option<kube::Error> {
    let is_late = |error: &kube::Error| matches!(error, kube::Error::Api(answer) if answer.is_conflict() || answer.is_not_found());
    result.err().filter(|error| !is_late(error))
}

/// Whether something changed that is read of pods with an agent.
fn is_changed(change: &Change<CachedPod>) -> bool {
    let of = |pod: &Option<Arc<CachedPod>>| pod.as_ref().and_then(|pod| pod.agent.clone());
    match (of(&change.old), of(&change.new)) {
        (None, None) => false,
        (Some(old), Some(new)) => !new.is_same(&old),
        _ => true,
    }
}

/// Which of the sources is mirrored.
#[derive(Default)]
struct Selection {
    source: Option<Mirrored>,
    /// Whether the first source must not be mirrored.
    is_refused: bool,
    /// The sources that are not mirrored, and why.
    refused: Vec<(Arc<ConfigMap>, String)>,
}

/// Selects the source: of several the first by name.
fn select(sources: &Cache<ConfigMap>) -> Selection {
    let mut selection = Selection::default();
    for map in sources.list() {
        let text = map.data.as_ref().and_then(|data| data.get(CONFIG_KEY)).cloned().unwrap_or_default();
        let reason = match &selection.source {
            Some(Mirrored { name, .. }) => Some(format!("{name} is mirrored, and one configuration at a time")),
            None => not_mirrored(&text).inspect(|_| selection.is_refused = true),
        };
        if selection.source.is_none() {
            selection.source = Some(Mirrored { name: name_of(&map), text });
        }
        selection.refused.extend(reason.map(|reason| (map, reason)));
    }
    selection
}

fn name_of(map: &ConfigMap) -> String {
    format!("{}/{}", map.namespace().unwrap_or_default(), map.name_any())
}

/// A patch of an object as it was read.
fn at(old: &ConfigMap, mut patch: Value) -> Value {
    patch["metadata"]["resourceVersion"] = json!(old.metadata.resource_version);
    patch
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
