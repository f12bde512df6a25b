//! What a node remembers of its pods: a hundred thousand of them are held, so little of each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use pillion_lifecycle::{ContainerFacts, Marked, NodeFacts, Stage, State};

use crate::admission::{Demand, Rejection};
use crate::probe::Probe;
use crate::resize::Allocation;
use crate::runtime::ContainerId;
use crate::volumes::Mounted;

/// All pods of the node, by uid.
#[derive(Default)]
pub(crate) struct Pods {
    records: HashMap<String, Record>,
    /// When time alone changes a pod.
    wakes: BTreeSet<(Timestamp, String)>,
    /// What all pods that have not ended need together.
    pub(crate) used: Demand,
    /// Pods that wait for room to grow.
    pub(crate) deferred: BTreeSet<String>,
}

/// A container that ends at once is never reported as running: without a probe it would count as ready, and a rollout would go on over it. A
/// kubelet looks but once a second.
const SETTLING: SignedDuration = SignedDuration::from_millis(200);

/// One pod.
pub(crate) struct Record {
    /// As the API server has it, with the resources that the node has granted.
    pub(crate) pod: Arc<Pod>,
    /// Its containers with `sidecar: true`.
    pub(crate) marked: Marked,
    pub(crate) facts: BTreeMap<String, ContainerFacts>,
    pub(crate) place: NodeFacts,
    pub(crate) sandbox: Sandbox,
    pub(crate) admission: Admission,
    pub(crate) allocation: Allocation,
    pub(crate) probes: Vec<Probe>,
    pub(crate) mounted: Option<Arc<Mounted>>,
    pub(crate) stage: Stage,
    /// A status is on its way to the API server.
    pub(crate) writing: bool,
    /// Somebody else has written a phase that is to be taken back.
    pub(crate) overwritten: bool,
    /// The API server has it no more; only its containers are left.
    pub(crate) gone: bool,
    pub(crate) ending: Ending,
    pub(crate) wake_at: Option<Timestamp>,
}

/// How far the things are that containers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandbox {
    Absent,
    Preparing { tries: u32 },
    Waiting { tries: u32, until: Timestamp },
    Ready,
    Released,
}

/// Whether the node has room for a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Admission {
    Open,
    /// What it needs is set aside.
    Admitted(Demand),
    Rejected(Rejection),
    /// It has ended: it needs nothing any more.
    Over,
}

/// How far a pod is on its way out of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    NotYet,
    Deleting,
    Deleted,
}

impl Record {
    pub(crate) fn new(
        pod: Arc<Pod>,
        marked: Marked,
        facts: BTreeMap<String, ContainerFacts>,
        place: NodeFacts,
    ) -> Record {
        Record {
            pod,
            marked,
            facts,
            place,
            sandbox: Sandbox::Absent,
            admission: Admission::Open,
            allocation: Allocation::default(),
            probes: Vec::new(),
            mounted: None,
            stage: Stage::Active,
            writing: false,
            overwritten: false,
            gone: false,
            ending: Ending::NotYet,
            wake_at: None,
        }
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    /// When the youngest of its running containers has lived long enough to be reported, if that is still to come. One that began in the
    /// future, by a clock that was set back since, is reported at once.
    pub(crate) fn settles_at(&self, now: Timestamp) -> Option<Timestamp> {
        let attempts = self.facts.values().filter_map(|facts| facts.current.as_ref());
        let since = attempts.filter_map(|attempt| match attempt.state {
            State::Running { since, .. } => Some(since),
            _ => None,
        });
        let settled = since.filter(|since| *since <= now).max()?.checked_add(SETTLING).ok()?;
        (settled > now).then_some(settled)
    }

    /// Whether a container or what containers share is just being made.
    pub(crate) fn is_half_made(&self) -> bool {
        let mut attempts = self.facts.values().filter_map(|facts| facts.current.as_ref());
        matches!(self.sandbox, Sandbox::Preparing { .. })
            || attempts.any(|attempt| matches!(attempt.state, State::Starting))
    }

    /// The attempts whose process runs.
    pub(crate) fn running<'a>(&'a self, uid: &'a str) -> impl Iterator<Item = ContainerId> + use<'a> {
        self.facts.iter().filter_map(move |(name, facts)| {
            let attempt = facts.current.as_ref()?;
            let runs = matches!(attempt.state, State::Running { .. });
            runs.then(|| ContainerId { pod_uid: uid.to_owned(), container: name.clone(), attempt: attempt.number })
        })
    }
}

impl Pods {
    pub(crate) fn get(&self, uid: &str) -> Option<&Record> {
        self.records.get(uid)
    }

    pub(crate) fn get_mut(&mut self, uid: &str) -> Option<&mut Record> {
        self.records.get_mut(uid)
    }

    pub(crate) fn insert(&mut self, uid: String, record: Record) {
        self.records.insert(uid, record);
    }

    pub(crate) fn remove(&mut self, uid: &str) -> Option<Record> {
        self.wake(uid, None);
        self.settle(uid);
        self.records.remove(uid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Record)> {
        self.records.iter()
    }

    pub(crate) fn uids(&self) -> Vec<String> {
        self.records.keys().cloned().collect()
    }

    /// The pod of a name: the youngest, when an older one of that name still ends.
    pub(crate) fn named(&self, namespace: &str, name: &str) -> Option<(&String, &Record)> {
        self.records
            .iter()
            .filter(|(_, record)| {
                record.pod.metadata.name.as_deref() == Some(name)
                    && record.pod.namespace().as_deref() == Some(namespace)
            })
            .max_by_key(|(_, record)| (!record.gone, record.pod.metadata.creation_timestamp.clone()))
    }

    /// Sets when the pod is looked at again though nothing happened.
    pub(crate) fn wake(&mut self, uid: &str, at: Option<Timestamp>) {
        let Some(record) = self.records.get_mut(uid) else { return };
        if record.wake_at == at {
            return;
        }
        if let Some(before) = std::mem::replace(&mut record.wake_at, at) {
            self.wakes.remove(&(before, uid.to_owned()));
        }
        if let Some(at) = at {
            self.wakes.insert((at, uid.to_owned()));
        }
    }

    /// The next moment at which a pod is to be looked at.
    pub(crate) fn next_wake(&self) -> Option<Timestamp> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// The pods whose moment has come.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Vec<String> {
        let mut due = Vec::new();
        while let Some((at, _)) = self.wakes.first()
            && *at <= now
        {
            let Some((_, uid)) = self.wakes.pop_first() else { break };
            if let Some(record) = self.records.get_mut(&uid) {
                record.wake_at = None;
            }
            due.push(uid);
        }
        due
    }

    /// Gives back what a pod had set aside, once it has ended.
    pub(crate) fn settle(&mut self, uid: &str) {
        self.deferred.remove(uid);
        let Some(record) = self.records.get_mut(uid) else { return };
        if let Admission::Admitted(demand) = record.admission {
            record.admission = Admission::Over;
            self.used = self.used.without(demand);
        }
    }
}
