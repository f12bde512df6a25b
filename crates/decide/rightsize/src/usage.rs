//! The history of every container, by workload.
//!
//! A rollout makes new pods and no new history: pods are bound to their workload, whatever their labels are.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use pillion_api::vpa::{Gates, PodResourcePolicy, VerticalPodAutoscalerCheckpointStatus};

use crate::aggregate::Aggregate;
use crate::aggregate::container::{Container, Rejected};
use crate::histogram::CheckpointError;
use crate::pod::ContainerKind;
use crate::settings::{MemorySettings, SampleSettings};

/// The topmost controller of some pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload {
    pub namespace: String,
    pub kind: String,
    pub name: String,
}

/// The history of every container of every workload.
#[derive(Debug, Default)]
pub struct Usage {
    settings: SampleSettings,
    gates: Gates,
    /// Where the history of each workload is in `workloads`. A sample finds it by its pod alone.
    slots: HashMap<Workload, usize>,
    workloads: Vec<WorkloadUsage>,
    free: Vec<usize>,
    pods: HashMap<Box<str>, BoundPod>,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct BoundPod {
    id: u32,
    slot: usize,
}

#[derive(Debug, Default)]
struct WorkloadUsage {
    policy: Option<PodResourcePolicy>,
    containers: Vec<ContainerUsage>,
    /// How many pods are bound to it.
    pods: usize,
}

/// The history of one container of a workload, and the pods that run it.
#[derive(Debug)]
pub struct ContainerUsage {
    name: Box<str>,
    /// `None` while it is known only from a checkpoint.
    kind: Option<ContainerKind>,
    aggregate: Aggregate,
    live: BTreeMap<u32, Container>,
}

impl ContainerUsage {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is in the newest pod that was added, or in the template. A checkpoint does not say it.
    pub fn kind(&self) -> Option<ContainerKind> {
        self.kind
    }

    /// Its history.
    pub fn aggregate(&self) -> &Aggregate {
        &self.aggregate
    }

    /// Whether any pod runs it.
    pub fn is_live(&self) -> bool {
        !self.live.is_empty()
    }

    /// What to store of it. Peaks of windows that are still open are left out.
    pub fn to_checkpoint(&self, now: Timestamp) -> VerticalPodAutoscalerCheckpointStatus {
        self.aggregate.to_checkpoint(self.live.values(), now)
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        let live = self.live.len() * (size_of::<Container>() + size_of::<u32>());
        size_of::<Self>() - size_of::<Aggregate>() + self.aggregate.size() + self.name.len() + live
    }
}

impl Usage {
    /// No history.
    pub fn new(settings: SampleSettings, gates: Gates) -> Usage {
        Usage { settings, gates, ..Usage::default() }
    }

    /// Binds a pod, by a key that is unique among running pods, to its workload. Init containers that are not sidecars are
    /// none of its containers, and native sidecars only with the gate `NativeSidecar`. Adding a pod again changes only what
    /// is new about it.
    pub fn add_pod<'a>(
        &mut self,
        pod: &str,
        workload: &Workload,
        containers: impl IntoIterator<Item = (&'a str, ContainerKind)>,
        now: Timestamp,
    ) {
        let slot = self.slot(workload);
        if self.pods.get(pod).is_some_and(|bound| bound.slot != slot) {
            self.remove_pod(pod);
        }
        let id = if let Some(bound) = self.pods.get(pod) {
            bound.id
        } else {
            self.next = self.next.wrapping_add(1);
            self.pods.insert(pod.into(), BoundPod { id: self.next, slot });
            self.workloads[slot].pods += 1;
            self.next
        };
        let settings = self.settings;
        let usage = &mut self.workloads[slot];
        for (name, kind) in containers.into_iter().filter(|(_, kind)| kind.is_sized(self.gates)) {
            let container = usage.find_or_add(name, || Aggregate::new(&settings, now));
            container.kind = Some(kind);
            container.live.entry(id).or_default();
        }
    }

    /// Forgets a pod; its history stays.
    pub fn remove_pod(&mut self, pod: &str) {
        let Some(bound) = self.pods.remove(pod) else { return };
        let usage = &mut self.workloads[bound.slot];
        usage.pods -= 1;
        for container in &mut usage.containers {
            container.live.remove(&bound.id);
        }
    }

    /// Sets the policy that decides on memory windows and OOM kills, from now on: it has to be set before they are added.
    pub fn set_policy(&mut self, workload: &Workload, policy: Option<&PodResourcePolicy>) {
        if policy.is_none() && !self.slots.contains_key(workload) {
            return;
        }
        let slot = self.slot(workload);
        let usage = &mut self.workloads[slot];
        if usage.policy.as_ref() != policy {
            usage.policy = policy.cloned();
        }
    }

    /// Adds CPU and memory usage of a container that were measured together.
    ///
    /// # Errors
    /// The container is not known, or one of the samples does not count; the other is added all the same.
    pub fn add_sample(
        &mut self,
        pod: &str,
        container: &str,
        millicores: i64,
        bytes: i64,
        at: Timestamp,
    ) -> Result<(), Rejected> {
        self.with(pod, container, |live, aggregate, memory| {
            let cpu = live.add_cpu(aggregate, millicores, at);
            cpu.and(live.add_memory(aggregate, memory, bytes, at))
        })
    }

    /// Adds CPU usage of a container.
    ///
    /// # Errors
    /// The container is not known, or the sample does not count.
    pub fn add_cpu(&mut self, pod: &str, container: &str, millicores: i64, at: Timestamp) -> Result<(), Rejected> {
        self.with(pod, container, |live, aggregate, _| live.add_cpu(aggregate, millicores, at))
    }

    /// Adds memory usage of a container.
    ///
    /// # Errors
    /// The container is not known, or the sample does not count.
    pub fn add_memory(&mut self, pod: &str, container: &str, bytes: i64, at: Timestamp) -> Result<(), Rejected> {
        self.with(pod, container, |live, aggregate, memory| live.add_memory(aggregate, memory, bytes, at))
    }

    /// Adds that a container was OOM killed while it requested this much memory.
    ///
    /// # Errors
    /// The container is not known, or the kill is too old.
    pub fn record_oom(&mut self, pod: &str, container: &str, requested: i64, at: Timestamp) -> Result<(), Rejected> {
        self.with(pod, container, |live, aggregate, memory| live.record_oom(aggregate, memory, requested, at))
    }

    /// Adds the history that a checkpoint stores, to what was sampled since. What is only known from checkpoints is not sized until a
    /// pod has it, or [`Usage::set_kinds`] says what it is: it may be a native sidecar, or gone from the template.
    ///
    /// # Errors
    /// The checkpoint cannot be read; nothing is changed.
    pub fn load_checkpoint(
        &mut self,
        workload: &Workload,
        container: &str,
        checkpoint: &VerticalPodAutoscalerCheckpointStatus,
    ) -> Result<(), CheckpointError> {
        let stored = Aggregate::from_checkpoint(checkpoint, &self.settings)?;
        let slot = self.slot(workload);
        let usage = &mut self.workloads[slot];
        match usage.containers.iter_mut().find(|usage| *usage.name == *container) {
            Some(usage) => usage.aggregate.merge(&stored),
            None => drop(usage.find_or_add(container, || stored)),
        }
        Ok(())
    }

    /// The history of one container, whatever it is.
    pub fn find(&self, workload: &Workload, container: &str) -> Option<&ContainerUsage> {
        let slot = self.slots.get(workload)?;
        self.workloads[*slot].containers.iter().find(|usage| *usage.name == *container)
    }

    /// Whether the containers of a workload are known only from checkpoints.
    pub fn is_unseen(&self, workload: &Workload) -> bool {
        let containers = self.slots.get(workload).map_or(&[][..], |slot| &self.workloads[*slot].containers);
        !containers.is_empty() && containers.iter().all(|container| container.kind.is_none())
    }

    /// Sets what the containers of a workload are, where no pod has shown it.
    pub fn set_kinds(&mut self, workload: &Workload, kind: impl Fn(&str) -> Option<ContainerKind>) {
        let Some(slot) = self.slots.get(workload) else { return };
        for container in &mut self.workloads[*slot].containers {
            container.kind = container.kind.or_else(|| kind(&container.name));
        }
    }

    /// The containers of a workload that are to be sized. Once any of them runs, those that no pod has any more are left out:
    /// they were removed from the template.
    pub fn containers(&self, workload: &Workload) -> impl Iterator<Item = &ContainerUsage> {
        let containers = self.slots.get(workload).map_or(&[][..], |slot| &self.workloads[*slot].containers);
        let any_live = containers.iter().any(ContainerUsage::is_live);
        let gates = self.gates;
        let is_sized = move |kind: Option<ContainerKind>| kind.is_some_and(|kind| kind.is_sized(gates));
        containers.iter().filter(move |container| is_sized(container.kind) && (container.is_live() || !any_live))
    }

    /// Every workload that has history.
    pub fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.slots.keys()
    }

    /// Forgets history that is too old, and workloads that have neither history nor pods.
    pub fn expire(&mut self, now: Timestamp) {
        let (settings, gates) = (self.settings.memory, self.gates);
        let (workloads, free) = (&mut self.workloads, &mut self.free);
        self.slots.retain(|_, slot| {
            let usage = &mut workloads[*slot];
            let policy = usage.policy.take();
            usage.containers.retain(|container| {
                let policy = policy.as_ref().and_then(|policy| policy.of(&container.name));
                container.is_live() || !container.aggregate.is_expired(&settings.with_policy(policy, gates), now)
            });
            usage.policy = policy;
            let is_kept = usage.pods > 0 || !usage.containers.is_empty();
            if !is_kept {
                *usage = WorkloadUsage::default();
                free.push(*slot);
            }
            is_kept
        });
    }

    /// Bytes that the history and the pods take, without what the allocator adds.
    pub fn size(&self) -> usize {
        let workloads: usize = self
            .slots
            .iter()
            .map(|(workload, slot)| {
                let usage = &self.workloads[*slot];
                let names = workload.namespace.len() + workload.kind.len() + workload.name.len();
                let containers: usize = usage.containers.iter().map(ContainerUsage::size).sum();
                size_of::<Workload>() + size_of::<WorkloadUsage>() + names + containers
            })
            .sum();
        let pods: usize = self.pods.keys().map(|key| key.len() + size_of::<(Box<str>, BoundPod)>()).sum();
        workloads + pods
    }

    /// Where the history of a workload is, or will be.
    fn slot(&mut self, workload: &Workload) -> usize {
        if let Some(slot) = self.slots.get(workload) {
            return *slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.workloads.push(WorkloadUsage::default());
            self.workloads.len() - 1
        });
        self.slots.insert(workload.clone(), slot);
        slot
    }

    fn with<T>(
        &mut self,
        pod: &str,
        container: &str,
        act: impl FnOnce(&mut Container, &mut Aggregate, &MemorySettings) -> Result<T, Rejected>,
    ) -> Result<T, Rejected> {
        let bound = self.pods.get(pod).ok_or(Rejected::UnknownContainer)?;
        let usage = &mut self.workloads[bound.slot];
        let policy = usage.policy.as_ref().and_then(|policy| policy.of(container));
        let memory = self.settings.memory.with_policy(policy, self.gates);
        let found = usage.containers.iter_mut().find(|usage| *usage.name == *container);
        let found = found.ok_or(Rejected::UnknownContainer)?;
        let live = found.live.get_mut(&bound.id).ok_or(Rejected::UnknownContainer)?;
        act(live, &mut found.aggregate, &memory)
    }
}

impl WorkloadUsage {
    fn find_or_add(&mut self, name: &str, new: impl FnOnce() -> Aggregate) -> &mut ContainerUsage {
        let found = self.containers.iter().position(|container| *container.name == *name);
        let index = found.unwrap_or(self.containers.len());
        if found.is_none() {
            self.containers.reserve_exact(1);
            self.containers.push(ContainerUsage {
                name: name.into(),
                kind: None,
                aggregate: new(),
                live: BTreeMap::new(),
            });
        }
        &mut self.containers[index]
    }
}

#[cfg(test)]
mod tests;
