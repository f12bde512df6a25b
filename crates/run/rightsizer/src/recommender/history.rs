//! The history of usage, and the pods that it follows.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use pillion_api::vpa::{Gates, VerticalPodAutoscalerCheckpoint};
use pillion_pods::SizedPod;
use pillion_rightsize::{
    CheckpointError, ContainerKind, MemoryEviction, NewOom, Stored, Usage, Workload, amount, controlling, new_ooms,
};

use super::samples::{Sample, pod_key, write_pod_key};
use crate::cluster::{Followed, Targets};
use crate::config::Config;

pub(crate) struct History {
    pub(crate) usage: Usage,
    gates: Gates,
    /// The pods that are followed, and those that have ended and still exist: their OOM kills are not counted again.
    pods: HashMap<String, Bound>,
    /// How many of them each workload has.
    counts: HashMap<Workload, usize>,
    /// The further keys of pods that SidecarSets with an autoscaler are injected into.
    parts: HashMap<String, Vec<String>>,
    /// Up to when the OOM kills of a container are in its checkpoint.
    known: HashMap<(Workload, String), Timestamp>,
    key: String,
    /// How often pods were bound.
    pass: u64,
}

struct Bound {
    followed: Followed,
    pass: u64,
}

/// One container of a pod, and what was measured of it before this start.
pub(crate) struct PastPod<'a> {
    pub(crate) place: Place<'a>,
    pub(crate) workload: Workload,
    pub(crate) container: &'a str,
    pub(crate) kind: ContainerKind,
    /// In cores.
    pub(crate) cpu: &'a [(Timestamp, f64)],
    /// In bytes.
    pub(crate) memory: &'a [(Timestamp, f64)],
}

/// Whether a pod of the past still runs.
pub(crate) enum Place<'a> {
    Running(&'a Followed),
    Gone { name: &'a str },
}

/// Before the keys of pods that are gone. No namespace begins with it.
const GONE: &str = "/";

/// A part of a pod has a key of its own. No pod has this character in its name.
fn key_of(followed: &Followed) -> String {
    let mut key = String::new();
    write_key(&mut key, followed);
    key
}

/// As [`key_of`], in the place of what is in `key`.
fn write_key(key: &mut String, followed: &Followed) {
    let view = &followed.pod.view;
    write_pod_key(key, &view.namespace, &view.name);
    if let Some(set) = &followed.set {
        key.extend(["@", set]);
    }
}

fn containers(followed: &Followed) -> impl Iterator<Item = (&str, ContainerKind)> {
    let all = followed.pod.view.containers.iter().filter(|container| followed.has(&container.name));
    all.map(|container| (container.name.as_str(), container.kind))
}

fn add(usage: &mut Usage, key: &str, sample: &Sample<'_>) -> bool {
    let (container, at) = (&sample.container, sample.at);
    let added = match (sample.millicores, sample.bytes) {
        (Some(millicores), Some(bytes)) => usage.add_sample(key, container, millicores, bytes, at),
        (Some(millicores), None) => usage.add_cpu(key, container, millicores, at),
        (None, Some(bytes)) => usage.add_memory(key, container, bytes, at),
        (None, None) => return false,
    };
    added.is_ok()
}

impl History {
    pub(crate) fn new(config: &Config) -> History {
        History {
            usage: Usage::new(config.samples, config.gates),
            gates: config.gates,
            pods: HashMap::new(),
            counts: HashMap::new(),
            parts: HashMap::new(),
            known: HashMap::new(),
            key: String::new(),
            pass: 0,
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
        let stored = self.usage.find(workload, container).map(|usage| Stored::of(usage, at));
        Ok(stored.unwrap_or(Stored { at, samples: checkpoint.status.total_samples_count, last_change: None }))
    }

    /// Sets the policies that decide on memory windows and OOM kills from now on.
    pub(crate) fn set_policies(&mut self, targets: &Targets) {
        for (workload, autoscalers) in targets {
            let autoscaler = controlling(autoscalers.iter().map(AsRef::as_ref));
            self.usage.set_policy(workload, autoscaler.and_then(|it| it.spec.resource_policy.as_ref()));
        }
    }

    /// Follows exactly these pods from now on. Returns the OOM kills that are new.
    pub(crate) fn bind(&mut self, pods: Vec<Followed>, now: Timestamp) -> Vec<(Arc<Workload>, NewOom)> {
        self.pass += 1;
        let pass = self.pass;
        let mut kills = Vec::new();
        for followed in pods.into_iter().filter(|it| it.pod.is_bound) {
            write_key(&mut self.key, &followed);
            if let Some(bound) = self.pods.get_mut(self.key.as_str()) {
                bound.pass = pass;
                let is_same = Arc::ptr_eq(&bound.followed.pod, &followed.pod)
                    && bound.followed.workload == followed.workload
                    && bound.followed.has_same_parts(&followed);
                if is_same {
                    continue;
                }
            }
            kills.extend(self.bind_one(self.key.clone(), followed, pass, now));
        }
        let gone: Vec<String> =
            self.pods.iter().filter(|(_, bound)| bound.pass != pass).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.usage.remove_pod(&key);
            if let Some(bound) = self.pods.remove(&key) {
                self.count(&bound.followed.workload, false);
            }
        }
        self.parts.clear();
        for (key, bound) in self.pods.iter().filter(|(_, bound)| bound.followed.set.is_some()) {
            let view = &bound.followed.pod.view;
            self.parts.entry(pod_key(&view.namespace, &view.name)).or_default().push(key.clone());
        }
        kills
    }

    /// Looks at a pod that is followed already, again. Returns its workload for each OOM kill that is new.
    pub(crate) fn rebind(&mut self, pod: &Arc<SizedPod>, now: Timestamp) -> Vec<Workload> {
        let mut kills = Vec::new();
        for key in self.keys(&pod.view.namespace, &pod.view.name) {
            let Some(bound) = self.pods.get(&key) else { continue };
            let (followed, pass) = (bound.followed.with(Arc::clone(pod)), bound.pass);
            kills.extend(self.bind_one(key, followed, pass, now));
        }
        kills.into_iter().map(|(workload, _)| (*workload).clone()).collect()
    }

    /// The kubelet evicted a pod because this container used so much memory. Returns the workloads that learn from it.
    pub(crate) fn evicted(&mut self, eviction: &MemoryEviction) -> Vec<Workload> {
        let mut learned = Vec::new();
        for key in self.keys(&eviction.namespace, &eviction.pod) {
            let counted = self.usage.record_oom(&key, &eviction.container, eviction.used, eviction.at);
            if let (Ok(()), Some(bound)) = (counted, self.pods.get(&key)) {
                learned.push((*bound.followed.workload).clone());
            }
        }
        learned
    }

    /// The keys of a pod: that of its workload, and those of SidecarSets.
    fn keys(&self, namespace: &str, pod: &str) -> Vec<String> {
        let key = pod_key(namespace, pod);
        let parts = self.parts.get(&key).into_iter().flatten().cloned();
        parts.chain([key.clone()]).collect()
    }

    fn bind_one(&mut self, key: String, followed: Followed, pass: u64, now: Timestamp) -> Vec<(Arc<Workload>, NewOom)> {
        let before = self.pods.get(&key).map(|bound| &bound.followed);
        let old = before.map(|followed| &followed.pod.view);
        let is_another = old.is_some_and(|old| old.uid != followed.pod.view.uid);
        if is_another || before.is_some_and(|before| !before.has_same_parts(&followed)) {
            // Another pod of the same name: a new container begins a new memory window.
            self.usage.remove_pod(&key);
        }
        let (pod, workload) = (&followed.pod, Arc::clone(&followed.workload));
        let known = |container: &str| self.known.get(&((*workload).clone(), container.to_owned())).copied();
        let mut kills = new_ooms(old, &pod.view, self.gates, known);
        kills.retain(|kill| followed.has(&kill.container));
        // One that has ended is sampled no more, and may be of an older template: it only matters for what it was killed for.
        if !pod.has_ended || !kills.is_empty() {
            self.usage.add_pod(&key, &workload, containers(&followed), now);
        }
        for kill in &kills {
            if let Err(reason) = self.usage.record_oom(&key, &kill.container, kill.requested, kill.at) {
                tracing::debug!(pod = key, container = kill.container, %reason, "an OOM kill does not count");
            }
        }
        if pod.has_ended {
            self.usage.remove_pod(&key);
        }
        if let Some(old) = self.pods.insert(key, Bound { followed, pass }) {
            self.count(&old.followed.workload, false);
        }
        self.count(&workload, true);
        kills.into_iter().map(|kill| (Arc::clone(&workload), kill)).collect()
    }

    /// Adds what was measured of a pod before this start. A pod that runs is bound later, and goes on from here.
    pub(crate) fn add_past(&mut self, pod: &PastPod<'_>, now: Timestamp) -> u64 {
        let (key, is_gone) = match &pod.place {
            Place::Running(followed) => (key_of(followed), false),
            Place::Gone { name } => (format!("{GONE}{name}"), true),
        };
        self.usage.add_pod(&key, &pod.workload, [(pod.container, pod.kind)], now);
        let mut counted = 0;
        for (at, cores) in pod.cpu {
            counted += u64::from(self.usage.add_cpu(&key, pod.container, amount(cores * 1000.0), *at).is_ok());
        }
        for (at, bytes) in pod.memory {
            counted += u64::from(self.usage.add_memory(&key, pod.container, amount(*bytes), *at).is_ok());
        }
        if is_gone {
            self.usage.remove_pod(&key);
        }
        counted
    }

    /// Adds a sample. Returns whether it counted.
    pub(crate) fn add(&mut self, sample: &Sample<'_>) -> bool {
        write_pod_key(&mut self.key, &sample.namespace, &sample.pod);
        let mut counted = add(&mut self.usage, &self.key, sample);
        if !self.parts.is_empty() {
            for part in self.parts.get(&self.key).into_iter().flatten() {
                counted |= add(&mut self.usage, part, sample);
            }
        }
        counted
    }

    fn count(&mut self, workload: &Workload, more: bool) {
        match self.counts.get_mut(workload) {
            Some(count) if more => *count += 1,
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => drop(self.counts.remove(workload)),
            None if more => drop(self.counts.insert(workload.clone(), 1)),
            None => {}
        }
    }
}
