//! The one loop that takes pods through their lives: facts, a plan, its execution, new facts.

mod act;
mod sync;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use pillion_lifecycle::{Marked, NodeFacts};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

use crate::facts::{self, Fact};
use crate::news::{News, Unprepared};
use crate::pods::{Ending, Record, Sandbox};
use crate::ports;
use crate::probe::{self, Kind};
use crate::resize;
use crate::runtime::{ContainerId, Exit, Runtime};
use crate::state::Inner;
use crate::volumes::{self, Mounted};
use crate::watch::slim;

/// What could not be written is tried again after this.
const RETRY: SignedDuration = SignedDuration::from_secs(1);

/// A sandbox that the runtime could not make is tried again after this.
const SANDBOX_RETRY: SignedDuration = SignedDuration::from_secs(10);

/// So much news is taken at once, before the pods that it is about are looked at.
const BATCH: usize = 1024;

struct Worker<R> {
    inner: Arc<Inner<R>>,
    news: UnboundedSender<News>,
    /// Everything under way; it ends with the worker.
    tasks: JoinSet<()>,
    /// Bounds the writes to the API server that are under way at once.
    writes: Arc<tokio::sync::Semaphore>,
    /// Pods to look at.
    dirty: BTreeSet<String>,
    /// The node goes away: pods end, and what is left of them on the disk stays.
    leaving: bool,
    /// What an earlier run has left of pods that are gone is removed.
    is_clean: bool,
}

/// Takes care of pods, for ever.
pub(crate) async fn run<R: Runtime>(
    inner: Arc<Inner<R>>,
    news: UnboundedSender<News>,
    mut received: UnboundedReceiver<News>,
) {
    let mut exits = inner.exits.lock().await;
    let mut worker = Worker::new(&inner, news);
    loop {
        worker.step(&mut received, &mut exits).await;
    }
}

/// Ends pods as if they were deleted: hooks, then the app, then its native sidecars. Returns when they have ended. Nothing is reported to
/// the API server.
pub(crate) async fn end_all<R: Runtime>(inner: &Arc<Inner<R>>, within: Duration) {
    let mut exits = inner.exits.lock().await;
    let (news, mut received) = mpsc::unbounded_channel();
    let mut worker = Worker::new(inner, news);
    worker.leaving = true;
    worker.leave(within);
    worker.look();
    while !worker.tasks.is_empty() || inner.pods().iter().any(|(_, record)| record.gone) {
        worker.step(&mut received, &mut exits).await;
    }
}

async fn sleep_until<R: Runtime>(inner: &Inner<R>, at: Option<Timestamp>) {
    let Some(at) = at else { return };
    let left = at.duration_since(inner.config.clock.now());
    tokio::time::sleep(left.try_into().unwrap_or_default()).await;
}

impl<R: Runtime> Worker<R> {
    fn new(inner: &Arc<Inner<R>>, news: UnboundedSender<News>) -> Worker<R> {
        Worker {
            inner: Arc::clone(inner),
            news,
            tasks: JoinSet::new(),
            writes: Arc::new(tokio::sync::Semaphore::new(act::WRITES)),
            dirty: BTreeSet::new(),
            leaving: false,
            is_clean: false,
        }
    }

    /// Waits for something to happen, and does what it asks for.
    async fn step(&mut self, received: &mut UnboundedReceiver<News>, exits: &mut UnboundedReceiver<Exit>) {
        let mut batch = Vec::new();
        let mut ended = Vec::new();
        let wake = self.inner.pods().next_wake();
        tokio::select! {
            _ = received.recv_many(&mut batch, BATCH) => {}
            _ = exits.recv_many(&mut ended, BATCH) => {}
            () = sleep_until(&self.inner, wake), if wake.is_some() => {}
            Some(done) = self.tasks.join_next() => {
                if let Err(error) = done {
                    tracing::error!(%error, "a task of the node failed");
                }
                return;
            }
        }
        for exit in ended {
            self.exited(exit);
        }
        for news in batch {
            self.on_news(news);
        }
        self.look();
    }

    /// Looks at the pods that something has happened to, or whose moment has come.
    fn look(&mut self) {
        let due = self.inner.pods().take_due(self.inner.config.clock.now());
        self.dirty.extend(due);
        while let Some(uid) = self.dirty.pop_first() {
            let is_left_alone = self.leaving && self.inner.pods().get(&uid).is_some_and(|record| !record.gone);
            if !is_left_alone {
                self.sync(&uid);
            }
        }
    }

    /// Begins to end all pods, but those in which something is half made: nobody knows how that went on.
    fn leave(&mut self, within: Duration) {
        let now = self.inner.config.clock.now();
        let mut pods = self.inner.pods();
        for uid in pods.uids() {
            let Some(record) = pods.get_mut(&uid) else { continue };
            if record.is_half_made() {
                continue;
            }
            record.gone = true;
            let pod = Arc::make_mut(&mut record.pod);
            let own = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
            let longest = i64::try_from(within.as_secs()).unwrap_or(i64::MAX);
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(own).min(longest);
            pod.metadata.deletion_grace_period_seconds = Some(grace);
            pod.metadata.deletion_timestamp.get_or_insert(Time(now));
            self.dirty.insert(uid);
        }
    }

    fn on_news(&mut self, news: News) {
        let now = self.inner.config.clock.now();
        match news {
            News::Pod(pod, marked) => self.changed(*pod, Some(marked), now),
            News::Gone(uid) => self.gone(&uid, now),
            News::Listed(uids) => {
                let known = self.inner.pods().uids();
                for uid in known.iter().filter(|uid| !uids.contains(*uid)) {
                    self.gone(uid, now);
                }
                if !std::mem::replace(&mut self.is_clean, true) {
                    self.keep_only(uids);
                }
            }
            News::Sandbox(uid, outcome) => self.prepared(&uid, outcome, now),
            News::Container(id, fact) => self.happened(&id, fact, now),
            News::Probed(id, kind, passed) => self.probed(&id, kind, passed, now),
            News::Written(uid, outcome) => self.written(&uid, *outcome, now),
            News::Deleted(uid, done) => {
                let mut pods = self.inner.pods();
                if let Some(record) = pods.get_mut(&uid) {
                    record.ending = if done { Ending::Deleted } else { Ending::NotYet };
                }
                if !done {
                    pods.wake(&uid, now.checked_add(RETRY).ok());
                }
            }
        }
    }

    fn exited(&mut self, exit: Exit) {
        let (id, now) = (exit.id.clone(), self.inner.config.clock.now());
        if exit.code != 0 && !R::SIMULATED {
            let (inner, id) = (Arc::clone(&self.inner), id.clone());
            self.tasks.spawn(async move { ports::report_clash(&inner, &id).await });
        }
        self.happened(&id, Fact::Ended(exit), now);
    }

    /// Takes a pod as the API server has it now. Its marks never change; only the watch knows those of a new pod.
    fn changed(&mut self, mut pod: Pod, marked: Option<Marked>, now: Timestamp) {
        let Some(uid) = pod.uid() else { return };
        let mut pods = self.inner.pods();
        if let Some(record) = pods.get_mut(&uid) {
            if record.gone || version(&pod) <= version(&record.pod) {
                return;
            }
            if !record.writing && is_ended_from_outside(&record.pod, &pod) {
                record.overwritten = true;
                pod.status.get_or_insert_default().phase = phase(&record.pod).map(str::to_owned);
            }
            let wanted = resize::keep_granted(&record.pod, &mut pod);
            if wanted.is_none() {
                record.allocation.pending = None;
            }
            record.allocation.wanted = wanted;
            record.pod = Arc::new(pod);
        } else {
            let started = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
            let place = NodeFacts {
                host_ips: vec![self.inner.config.address.to_string()],
                accepted_at: Some(started.unwrap_or(now)),
                ..NodeFacts::default()
            };
            let facts = facts::recovered(&pod, now);
            let wanted = resize::keep_granted(&resize::reported(&pod), &mut pod);
            let mut record = Record::new(Arc::new(pod), marked.unwrap_or_default(), facts, place);
            record.allocation.wanted = wanted;
            pods.insert(uid.clone(), record);
        }
        drop(pods);
        self.dirty.insert(uid);
    }

    /// A pod that the API server has no more ends as one that is deleted; nothing is reported about it.
    fn gone(&mut self, uid: &str, now: Timestamp) {
        let mut pods = self.inner.pods();
        let Some(record) = pods.get_mut(uid) else { return };
        record.gone = true;
        if !record.is_deleted() {
            let pod = Arc::make_mut(&mut record.pod);
            pod.metadata.deletion_timestamp = Some(Time(now));
        }
        drop(pods);
        self.dirty.insert(uid.to_owned());
    }

    fn prepared(&mut self, uid: &str, outcome: Result<(IpAddr, Mounted), Unprepared>, now: Timestamp) {
        let mut pods = self.inner.pods();
        let Some(record) = pods.get_mut(uid) else { return };
        let Sandbox::Preparing { tries } = record.sandbox else { return };
        match outcome {
            Ok((address, mounted)) => {
                record.sandbox = Sandbox::Ready;
                record.place.sandbox = true;
                let shares = record.pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
                record.place.pod_ips = if shares { Vec::new() } else { vec![address.to_string()] };
                record.mounted = (!R::SIMULATED).then(|| Arc::new(mounted));
            }
            Err(why) => {
                let pause = self.inner.report_unprepared(&record.pod, &why, tries);
                let until = now.checked_add(pause).unwrap_or(Timestamp::MAX);
                record.sandbox = Sandbox::Waiting { tries, until };
            }
        }
        drop(pods);
        self.dirty.insert(uid.to_owned());
    }

    fn happened(&mut self, id: &ContainerId, fact: Fact, now: Timestamp) {
        let mut pods = self.inner.pods();
        let known = pods.get_mut(&id.pod_uid).and_then(|record| record.facts.get_mut(&id.container));
        if let Some(container) = known {
            facts::record(container, id.attempt, fact, now);
            drop(pods);
            self.dirty.insert(id.pod_uid.clone());
        }
    }

    fn probed(&mut self, id: &ContainerId, kind: Kind, passed: Option<bool>, now: Timestamp) {
        let mut pods = self.inner.pods();
        let Some(record) = pods.get_mut(&id.pod_uid) else { return };
        let pod = Arc::clone(&record.pod);
        let is_it = |probe: &&mut probe::Probe| {
            probe.kind == kind && probe.attempt == id.attempt && probe.container == id.container
        };
        let Some(probe) = record.probes.iter_mut().find(is_it) else { return };
        let spec = crate::container::find(&pod, &id.container).and_then(|container| kind.spec(container));
        let verdict = spec.and_then(|spec| probe::finish(probe, spec, passed, R::SIMULATED, now));
        if let Some((facts, verdict)) = record.facts.get_mut(&id.container).zip(verdict) {
            facts::record(facts, id.attempt, Fact::Probed(verdict), now);
        }
        drop(pods);
        self.dirty.insert(id.pod_uid.clone());
    }

    fn written(&mut self, uid: &str, outcome: kube::Result<Pod>, now: Timestamp) {
        let failed = match outcome {
            Ok(pod) => {
                // What comes back is the node's own, so it is taken while the node still writes.
                self.changed(*slim(pod), None, now);
                self.dirty.insert(uid.to_owned());
                None
            }
            // The rest comes with the watch.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => None,
            Err(error) => Some(error),
        };
        let mut pods = self.inner.pods();
        let Some(record) = pods.get_mut(uid) else { return };
        record.writing = false;
        if let Some(error) = failed {
            tracing::debug!(%error, "the status of a pod was not written");
            pods.wake(uid, now.checked_add(RETRY).ok());
        }
    }
}

/// Whether somebody else has written that the pod has ended, and nothing besides. As the kubelet, the node looks at what others
/// write into a status only when something else has changed with it.
fn is_ended_from_outside(old: &Pod, new: &Pod) -> bool {
    let is_terminal = |pod: &Pod| matches!(phase(pod), Some("Succeeded" | "Failed"));
    let rest = |pod: &Pod| {
        let meta = &pod.metadata;
        (meta.labels.clone(), meta.annotations.clone(), meta.deletion_timestamp.clone(), meta.generation)
    };
    is_terminal(new) && !is_terminal(old) && rest(old) == rest(new)
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn version(pod: &Pod) -> u64 {
    pod.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

impl<R: Runtime> Inner<R> {
    /// Records why a pod has no sandbox, and returns how long to wait before the next attempt.
    fn report_unprepared(&self, pod: &Pod, why: &Unprepared, tries: u32) -> SignedDuration {
        let about = crate::events::pod(pod);
        match why {
            Unprepared::Volumes(failures) => {
                for failure in failures {
                    self.config.recorder.warning(&about, "FailedMount", volumes::message(failure));
                }
                volumes::pause(tries)
            }
            Unprepared::Runtime(refusal) => {
                if refusal.reason == "FailedMount" {
                    self.config.recorder.warning(&about, "FailedMount", refusal.message.as_str());
                } else {
                    let message = format!("Failed to create pod sandbox: {}", refusal.message);
                    self.config.recorder.warning(&about, "FailedCreatePodSandBox", message);
                }
                SANDBOX_RETRY
            }
        }
    }
}
