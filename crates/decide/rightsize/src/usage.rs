//! The history of every container, by workload.
//!
//! A rollout makes new pods and no new history: pods are bound to their workload, whatever their labels are.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use pillion_api::vpa::{Gates, PodResourcePolicy, VerticalPodAutoscalerCheckpointStatus};

use crate::aggregate::Aggregate;
use crate::container::{Container, Rejected};
use crate::histogram::CheckpointError;
use crate::pod::ContainerKind;
use crate::settings::{MemorySettings, SampleSettings};

/// The topmost controller of some pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload {
    /// Its namespace.
    pub namespace: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// The history of every container of every workload.
#[derive(Debug, Default)]
pub struct Usage {
    settings: SampleSettings,
    gates: Gates,
    workloads: HashMap<Arc<Workload>, WorkloadUsage>,
    pods: HashMap<Box<str>, BoundPod>,
    next: u32,
}

#[derive(Debug)]
struct BoundPod {
    id: u32,
    workload: Arc<Workload>,
}

#[derive(Debug, Default)]
struct WorkloadUsage {
    policy: Option<PodResourcePolicy>,
    containers: Vec<ContainerUsage>,
}

/// The history of one container of a workload, and the pods that run it.
#[derive(Debug)]
pub struct ContainerUsage {
    name: Box<str>,
    kind: ContainerKind,
    aggregate: Aggregate,
    live: BTreeMap<u32, Container>,
}

impl ContainerUsage {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is in the newest pod that was added.
    pub fn kind(&self) -> ContainerKind {
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
        let key = match self.workloads.get_key_value(workload) {
            Some((key, _)) => Arc::clone(key),
            None => Arc::new(workload.clone()),
        };
        if self.pods.get(pod).is_some_and(|bound| bound.workload != key) {
            self.remove_pod(pod);
        }
        let id = if let Some(bound) = self.pods.get(pod) {
            bound.id
        } else {
            self.next = self.next.wrapping_add(1);
            self.pods.insert(pod.into(), BoundPod { id: self.next, workload: Arc::clone(&key) });
            self.next
        };
        let settings = self.settings;
        let usage = self.workloads.entry(key).or_default();
        for (name, kind) in containers.into_iter().filter(|(_, kind)| kind.is_sized(self.gates)) {
            let container = usage.find_or_add(name, kind, || Aggregate::new(&settings, now));
            container.kind = kind;
            container.live.entry(id).or_default();
        }
    }

    /// Forgets a pod; its history stays.
    pub fn remove_pod(&mut self, pod: &str) {
        let Some(bound) = self.pods.remove(pod) else { return };
        for container in self.workloads.get_mut(&bound.workload).into_iter().flat_map(|usage| &mut usage.containers) {
            container.live.remove(&bound.id);
        }
    }

    /// Sets the policy that decides on memory windows and OOM kills.
    pub fn set_policy(&mut self, workload: &Workload, policy: Option<&PodResourcePolicy>) {
        if let Some(usage) = self.workloads.get_mut(workload)
            && usage.policy.as_ref() != policy
        {
            usage.policy = policy.cloned();
        }
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

    /// Adds the history that a checkpoint stores, to what was sampled since.
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
        let usage = match self.workloads.get_mut(workload) {
            Some(usage) => usage,
            None => self.workloads.entry(Arc::new(workload.clone())).or_default(),
        };
        match usage.containers.iter_mut().find(|usage| *usage.name == *container) {
            Some(usage) => usage.aggregate.merge(&stored),
            None => drop(usage.find_or_add(container, ContainerKind::Regular, || stored)),
        }
        Ok(())
    }

    /// The containers of a workload that are to be sized. Once any of them runs, those that no pod has any more are left out:
    /// they were removed from the template.
    pub fn containers(&self, workload: &Workload) -> impl Iterator<Item = &ContainerUsage> {
        let containers = self.workloads.get(workload).map_or(&[][..], |usage| &usage.containers);
        let any_live = containers.iter().any(ContainerUsage::is_live);
        let gates = self.gates;
        containers.iter().filter(move |container| container.kind.is_sized(gates) && (container.is_live() || !any_live))
    }

    /// Every workload that has history.
    pub fn workloads(&self) -> impl Iterator<Item = &Workload> {
        self.workloads.keys().map(AsRef::as_ref)
    }

    /// Forgets history that is too old, and workloads that have neither history nor pods.
    pub fn expire(&mut self, now: Timestamp) {
        let (settings, gates) = (self.settings.memory, self.gates);
        self.workloads.retain(|_, usage| {
            let policy = usage.policy.take();
            usage.containers.retain(|container| {
                let policy = policy.as_ref().and_then(|policy| policy.of(&container.name));
                container.is_live() || !container.aggregate.is_expired(&settings.with_policy(policy, gates), now)
            });
            usage.policy = policy;
            !usage.containers.is_empty()
        });
    }

    /// Bytes that the history and the pods take, without what the allocator adds.
    pub fn size(&self) -> usize {
        let workloads: usize = self
            .workloads
            .iter()
            .map(|(workload, usage)| {
                let names = workload.namespace.len() + workload.kind.len() + workload.name.len();
                let containers: usize = usage.containers.iter().map(ContainerUsage::size).sum();
                size_of::<Workload>() + size_of::<WorkloadUsage>() + names + containers
            })
            .sum();
        let pods: usize = self.pods.keys().map(|key| key.len() + size_of::<(Box<str>, BoundPod)>()).sum();
        workloads + pods
    }

    fn with<T>(
        &mut self,
        pod: &str,
        container: &str,
        act: impl FnOnce(&mut Container, &mut Aggregate, &MemorySettings) -> Result<T, Rejected>,
    ) -> Result<T, Rejected> {
        let bound = self.pods.get(pod).ok_or(Rejected::UnknownContainer)?;
        let usage = self.workloads.get_mut(&bound.workload).ok_or(Rejected::UnknownContainer)?;
        let policy = usage.policy.as_ref().and_then(|policy| policy.of(container));
        let memory = self.settings.memory.with_policy(policy, self.gates);
        let found = usage.containers.iter_mut().find(|usage| *usage.name == *container);
        let found = found.ok_or(Rejected::UnknownContainer)?;
        let live = found.live.get_mut(&bound.id).ok_or(Rejected::UnknownContainer)?;
        act(live, &mut found.aggregate, &memory)
    }
}

impl WorkloadUsage {
    fn find_or_add(&mut self, name: &str, kind: ContainerKind, new: impl FnOnce() -> Aggregate) -> &mut ContainerUsage {
        let found = self.containers.iter().position(|container| *container.name == *name);
        let index = found.unwrap_or(self.containers.len());
        if found.is_none() {
            self.containers.reserve_exact(1);
            self.containers.push(ContainerUsage { name: name.into(), kind, aggregate: new(), live: BTreeMap::new() });
        }
        &mut self.containers[index]
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use pillion_expr::Resource;

    use super::*;

    const NATIVE: Gates =
        Gates { native_sidecar: true, cpu_startup_boost: false, in_place: false, per_vpa_config: false };

    fn web() -> Workload {
        Workload { namespace: "shop".into(), kind: "Deployment".into(), name: "web".into() }
    }

    fn days(count: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * count)
    }

    fn usage() -> Usage {
        Usage::new(SampleSettings::default(), NATIVE)
    }

    fn regular<'a>(names: &[&'a str]) -> Vec<(&'a str, ContainerKind)> {
        names.iter().map(|name| (*name, ContainerKind::Regular)).collect()
    }

    fn names(usage: &Usage) -> Vec<&str> {
        usage.containers(&web()).map(ContainerUsage::name).collect()
    }

    /// Upstream's `TestAggregateStateByContainerName`: the samples of all pods of a workload are one history.
    #[test]
    fn samples_of_all_pods_are_one_history() {
        let mut it = usage();
        it.add_pod("pod-1", &web(), regular(&["a", "b"]), days(0));
        it.add_pod("pod-2", &web(), regular(&["a", "c"]), days(0));
        for (pod, container) in [("pod-1", "a"), ("pod-1", "b"), ("pod-2", "a"), ("pod-2", "c")] {
            it.add_cpu(pod, container, 100, days(1)).unwrap();
        }
        let samples: Vec<_> = it.containers(&web()).map(|it| (it.name(), it.aggregate().samples())).collect();
        assert_eq!(samples, [("a", 2), ("b", 1), ("c", 1)]);
        assert_eq!(it.add_cpu("pod-1", "c", 1, days(2)), Err(Rejected::UnknownContainer));
        assert_eq!(it.add_cpu("pod-3", "a", 1, days(2)), Err(Rejected::UnknownContainer));
    }

    #[test]
    fn a_hundred_rollouts_do_not_grow_memory() {
        let mut it = usage();
        let mut rollout = |number: i64| {
            for pod in 0..10 {
                it.remove_pod(&format!("web-{}-{pod}", number - 1));
                let name = format!("web-{number}-{pod}");
                it.add_pod(&name, &web(), regular(&["app"]), days(0));
                it.add_cpu(&name, "app", 100, days(0) + SignedDuration::from_mins(number)).unwrap();
                it.add_memory(&name, "app", 100 << 20, days(0) + SignedDuration::from_mins(number)).unwrap();
            }
            it.size()
        };
        let first = rollout(100);
        let sizes: Vec<usize> = (101..200).map(rollout).collect();
        assert_eq!(sizes.last(), Some(&first));
        assert_eq!(it.containers(&web()).next().unwrap().aggregate().samples(), 1000);
    }

    /// Two containers in a pod, ten pods in a workload, a day of samples that vary by a factor of four.
    #[test]
    fn a_running_container_takes_a_few_hundred_bytes() {
        let mut it = usage();
        let (workloads, pods) = (5, 10);
        for i in 0..workloads * pods {
            let workload = Workload { name: format!("web-{}", i / pods), ..web() };
            let pod = format!("shop/web-{}-{i}", i / pods);
            it.add_pod(
                &pod,
                &workload,
                [("app", ContainerKind::Regular), ("mesh", ContainerKind::NativeSidecar)],
                days(0),
            );
            for minute in 0..24 * 60 / 5 {
                let at = days(0) + SignedDuration::from_mins(minute * 5);
                for container in ["app", "mesh"] {
                    let wave = (minute * 7919 + i * 104_729) % 300;
                    it.add_cpu(&pod, container, 100 + wave, at).unwrap();
                    it.add_memory(&pod, container, (200 + wave) << 20, at).unwrap();
                }
            }
        }
        let each = it.size() / usize::try_from(workloads * pods * 2).unwrap();
        assert!(each < 256, "{each} bytes");
    }

    #[test]
    fn a_container_that_no_pod_has_any_more_is_left_out_unless_nothing_runs() {
        let mut it = usage();
        it.add_pod("old", &web(), regular(&["app", "legacy"]), days(0));
        it.add_pod("new", &web(), regular(&["app"]), days(0));
        assert_eq!(names(&it), ["app", "legacy"]);
        it.remove_pod("old");
        assert_eq!(names(&it), ["app"]);
        it.remove_pod("new");
        assert_eq!(names(&it), ["app", "legacy"]);
    }

    #[test]
    fn native_sidecars_are_sampled_only_with_the_gate_and_init_containers_never() {
        let containers = || {
            [("app", ContainerKind::Regular), ("mesh", ContainerKind::NativeSidecar), ("setup", ContainerKind::Init)]
        };
        let mut on = usage();
        on.add_pod("pod", &web(), containers(), days(0));
        assert_eq!(names(&on), ["app", "mesh"]);
        assert_eq!(on.add_cpu("pod", "setup", 1, days(0)), Err(Rejected::UnknownContainer));

        let mut off = Usage::new(SampleSettings::default(), Gates::default());
        off.add_pod("pod", &web(), containers(), days(0));
        assert_eq!(names(&off), ["app"]);
        assert_eq!(off.add_cpu("pod", "mesh", 1, days(0)), Err(Rejected::UnknownContainer));
    }

    #[test]
    fn a_checkpoint_that_is_loaded_late_is_added_to_what_was_sampled() {
        let mut before = usage();
        before.add_pod("pod", &web(), regular(&["app"]), days(0));
        for minute in 0..5 {
            before.add_cpu("pod", "app", 100, days(0) + SignedDuration::from_mins(minute)).unwrap();
        }
        let stored = before.containers(&web()).next().unwrap().to_checkpoint(days(0));

        let mut after = usage();
        after.add_pod("pod", &web(), regular(&["app"]), days(1));
        after.add_cpu("pod", "app", 100, days(1)).unwrap();
        after.load_checkpoint(&web(), "app", &stored).unwrap();
        let container = after.containers(&web()).next().unwrap();
        assert_eq!(container.aggregate().samples(), 6);
        assert_eq!(container.aggregate().first_sample(), Some(days(0)));
    }

    #[test]
    fn history_expires_when_nothing_runs_for_eight_days() {
        let mut it = usage();
        it.add_pod("pod", &web(), regular(&["app"]), days(0));
        it.add_cpu("pod", "app", 100, days(0)).unwrap();
        it.expire(days(9));
        assert_eq!(names(&it), ["app"], "it still runs");
        it.remove_pod("pod");
        it.expire(days(7));
        assert_eq!(names(&it), ["app"]);
        it.expire(days(8));
        assert_eq!(it.workloads().count(), 0);
    }

    #[test]
    fn an_override_of_the_policy_ends_with_it() {
        let gates = Gates { per_vpa_config: true, ..Gates::default() };
        let mut it = Usage::new(SampleSettings::default(), gates);
        it.add_pod("pod", &web(), regular(&["app"]), days(0));
        let policy: PodResourcePolicy = serde_json::from_value(serde_json::json!({
            "containerPolicies": [{"containerName": "app", "oomBumpUpRatio": "3"}]
        }))
        .unwrap();
        it.set_policy(&web(), Some(&policy));
        it.set_policy(&web(), None);
        it.record_oom("pod", "app", 1 << 30, days(0)).unwrap();
        let memory = it.containers(&web()).next().unwrap().aggregate().percentile(Resource::Memory, 1.0);
        assert!(memory < 2 << 30, "{memory}");
    }
}
