//! The history of usage, and the pods that it follows.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use pillion_api::vpa::{Gates, VerticalPodAutoscalerCheckpoint};
use pillion_rightsize::{CheckpointError, NewOom, Stored, Usage, Workload, controlling, new_ooms};

use super::samples::{Sample, pod_key};
use crate::cluster::{CachedPod, Targets};
use crate::config::Config;

/// The history of usage.
pub(crate) struct History {
    pub(crate) usage: Usage,
    gates: Gates,
    /// The pods that are followed.
    pods: HashMap<String, Bound>,
    /// How many of them each workload has.
    counts: HashMap<Workload, usize>,
    /// Up to when the OOM kills of a container are in its checkpoint.
    known: HashMap<(Workload, String), Timestamp>,
    key: String,
}

struct Bound {
    pod: Arc<CachedPod>,
    workload: Workload,
    pass: u64,
}

impl History {
    pub(crate) fn new(config: &Config) -> History {
        History {
            usage: Usage::new(config.samples, config.gates),
            gates: config.gates,
            pods: HashMap::new(),
            counts: HashMap::new(),
            known: HashMap::new(),
            key: String::new(),
        }
    }

    pub(crate) fn has_pods(&self, workload: &Workload) -> bool {
        self.counts.get(workload).is_some_and(|count| *count > 0)
    }

    pub(crate) fn containers(&self) -> usize {
        self.usage.workloads().map(|workload| self.usage.containers(workload).count()).sum()
    }

    /// Loads a checkpoint. Returns what is in it.
    pub(crate) fn load(
        &mut self,
        workload: &Workload,
        checkpoint: &VerticalPodAutoscalerCheckpoint,
    ) -> Result<Stored, CheckpointError> {
        let container = &checkpoint.spec.container_name;
        self.usage.load_checkpoint(workload, container, &checkpoint.status)?;
        let at = checkpoint.status.last_update_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        self.known.insert((workload.clone(), container.clone()), at);
        let loaded = self.usage.containers(workload).find(|usage| usage.name() == container);
        let stored = loaded.map(|usage| Stored::of(usage, at));
        Ok(stored.unwrap_or(Stored { at, samples: checkpoint.status.total_samples_count, last_change: None }))
    }

    /// Follows exactly these pods from now on. Returns the OOM kills that are new.
    pub(crate) fn bind(
        &mut self,
        pods: Vec<(Arc<CachedPod>, Workload)>,
        targets: &Targets,
        now: Timestamp,
    ) -> Vec<(Workload, NewOom)> {
        let pass = self.pods.values().map(|bound| bound.pass).max().unwrap_or_default() + 1;
        let mut kills = Vec::new();
        for (pod, workload) in pods.into_iter().filter(|(pod, _)| !pod.has_ended && pod.is_bound) {
            let key = pod_key(&pod.view.namespace, &pod.view.name);
            if let Some(bound) = self.pods.get_mut(&key) {
                bound.pass = pass;
                if Arc::ptr_eq(&bound.pod, &pod) && bound.workload == workload {
                    continue;
                }
            }
            kills.extend(self.bind_one(key, pod, workload, pass, now));
        }
        for (workload, autoscalers) in targets {
            let autoscaler = controlling(autoscalers.iter().map(AsRef::as_ref));
            self.usage.set_policy(workload, autoscaler.and_then(|it| it.spec.resource_policy.as_ref()));
        }
        let gone: Vec<String> =
            self.pods.iter().filter(|(_, bound)| bound.pass != pass).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.usage.remove_pod(&key);
            if let Some(bound) = self.pods.remove(&key) {
                self.count(&bound.workload, false);
            }
        }
        kills
    }

    /// Looks at a pod that is followed already, again. Returns its workload for each OOM kill that is new.
    pub(crate) fn rebind(&mut self, pod: &Arc<CachedPod>, now: Timestamp) -> Vec<Workload> {
        let key = pod_key(&pod.view.namespace, &pod.view.name);
        let Some(bound) = self.pods.get(&key) else { return Vec::new() };
        let (workload, pass) = (bound.workload.clone(), bound.pass);
        let kills = self.bind_one(key, Arc::clone(pod), workload, pass, now);
        kills.into_iter().map(|(workload, _)| workload).collect()
    }

    fn bind_one(
        &mut self,
        key: String,
        pod: Arc<CachedPod>,
        workload: Workload,
        pass: u64,
        now: Timestamp,
    ) -> Vec<(Workload, NewOom)> {
        let before = self.pods.get(&key);
        let old = before.map(|bound| &bound.pod.view);
        if old.is_some_and(|old| old.uid != pod.view.uid) {
            // Another pod of the same name: a new container begins a new memory window.
            self.usage.remove_pod(&key);
        }
        let containers = pod.view.containers.iter().map(|container| (container.name.as_str(), container.kind));
        self.usage.add_pod(&key, &workload, containers, now);
        let known = |container: &str| self.known.get(&(workload.clone(), container.to_owned())).copied();
        let kills = new_ooms(old, &pod.view, self.gates, known);
        for kill in &kills {
            if let Err(reason) = self.usage.record_oom(&key, &kill.container, kill.requested, kill.at) {
                tracing::debug!(pod = key, container = kill.container, %reason, "an OOM kill does not count");
            }
        }
        if let Some(old) = self.pods.insert(key, Bound { pod, workload: workload.clone(), pass }) {
            self.count(&old.workload, false);
        }
        self.count(&workload, true);
        kills.into_iter().map(|kill| (workload.clone(), kill)).collect()
    }

    /// Adds a sample. Returns whether it counted.
    pub(crate) fn add(&mut self, sample: &Sample<'_>) -> bool {
        self.key.clear();
        self.key.extend([&sample.namespace, "/", &sample.pod]);
        let (key, container, at) = (&self.key, &sample.container, sample.at);
        let added = match (sample.millicores, sample.bytes) {
            (Some(millicores), Some(bytes)) => self.usage.add_sample(key, container, millicores, bytes, at),
            (Some(millicores), None) => self.usage.add_cpu(key, container, millicores, at),
            (None, Some(bytes)) => self.usage.add_memory(key, container, bytes, at),
            (None, None) => return false,
        };
        added.is_ok()
    }

    fn count(&mut self, workload: &Workload, more: bool) {
        let count = self.counts.entry(workload.clone()).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.counts.remove(workload);
        }
    }
}
