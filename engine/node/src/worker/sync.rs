//! One look at one pod: what it needs now.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pillion_lifecycle::{self as lifecycle, Plan, Snapshot, Stage};
use serde_json::json;

use super::Worker;
use crate::admission::{self, Demand, Rejection};
use crate::pods::{Admission, Ending, Pods, Record, Sandbox};
use crate::runtime::Runtime;
use crate::{events, probe, resize, status};

impl<R: Runtime> Worker<R> {
    /// Brings one pod a step further.
    pub(super) fn sync(&mut self, uid: &str) {
        let now = self.inner.config.clock.now();
        let inner = Arc::clone(&self.inner);
        let mut pods = inner.pods();
        self.admit(&mut pods, uid);
        self.grow(&mut pods, uid);
        let Some(record) = pods.get_mut(uid) else { return };
        if let Admission::Rejected(rejection) = &record.admission {
            let status = rejected(record, rejection, now);
            self.finish(&mut pods, uid, &status);
            return;
        }
        let Plan { actions, mut status, wake_at, notes, stage } = lifecycle::plan(&Snapshot {
            pod: &record.pod,
            marked: &record.marked,
            containers: &record.facts,
            node: &record.place,
            stop: None,
            now,
        });
        record.stage = stage;
        lifecycle::record(&mut record.facts, &actions, now);
        let about = events::pod(&record.pod);
        for note in notes {
            let about = k8s_openapi::api::core::v1::ObjectReference { field_path: note.field_path, ..about.clone() };
            if note.warning {
                inner.config.recorder.warning(&about, note.reason, note.message);
            } else {
                inner.config.recorder.normal(&about, note.reason, note.message);
            }
        }
        for action in actions {
            self.act(uid, record, action);
        }
        let sandbox_at = self.sandbox(uid, record, now);
        let due = probe::schedule(&mut record.probes, &record.pod, &record.facts, now);
        for (container, attempt, kind) in due.now {
            self.probe(uid, record, container, attempt, kind);
        }
        self.settle_resize(record);
        resize::conditions(&mut status, record.pod.status.as_ref(), &record.allocation, now);
        let wake = [wake_at, due.next, sandbox_at].into_iter().flatten().min();
        pods.wake(uid, wake);
        if stage == Stage::Ended {
            pods.settle(uid);
            self.dirty.extend(std::mem::take(&mut pods.deferred));
        }
        self.finish(&mut pods, uid, &status);
    }

    /// Sets aside what a new pod needs, or rejects it. One that has ended or is to end needs nothing.
    fn admit(&mut self, pods: &mut Pods, uid: &str) {
        let used = pods.used;
        let Some(record) = pods.get_mut(uid) else { return };
        let phase = record.pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if record.admission != Admission::Open {
            return;
        }
        if matches!(phase, Some("Succeeded" | "Failed")) || record.is_deleted() {
            record.admission = Admission::Over;
            return;
        }
        let demand = Demand::of(&record.pod);
        match admission::admit(demand, used, &self.inner.config.capacity) {
            Ok(()) => {
                record.admission = Admission::Admitted(demand);
                pods.used = used.with(demand);
            }
            Err(rejection) => {
                let about = events::pod(&record.pod);
                self.inner.config.recorder.warning(&about, rejection.reason, rejection.message.clone());
                record.admission = Admission::Rejected(rejection);
            }
        }
    }

    /// Grants a pod other resources if there is room for them.
    fn grow(&mut self, pods: &mut Pods, uid: &str) {
        let used = pods.used;
        let Some(record) = pods.get_mut(uid) else { return };
        let (Some(wanted), Admission::Admitted(own)) = (&record.allocation.wanted, &record.admission) else { return };
        let (own, others) = (*own, used.without(*own));
        let pod = resize::with(&record.pod, wanted);
        let demand = Demand::of(&pod);
        let generation = pod.metadata.generation.unwrap_or_default();
        let recorder = &self.inner.config.recorder;
        let about = events::pod(&pod);
        match resize::decide(demand, others, &self.inner.config.capacity, generation) {
            Ok(()) => {
                recorder.normal(&about, "ResizeStarted", resize::message("Pod resize started", &pod, generation, None));
                record.pod = Arc::new(pod);
                record.allocation =
                    resize::Allocation { in_progress: Some(generation), ..resize::Allocation::default() };
                record.admission = Admission::Admitted(demand);
                pods.used = used.without(own).with(demand);
                pods.deferred.remove(uid);
            }
            Err(pending) => {
                if record.allocation.pending.as_ref() != Some(&pending) {
                    let what = format!("Pod resize {}", pending.reason);
                    let message = resize::message(&what, &pod, generation, Some(&pending.message));
                    recorder.warning(
                        &about,
                        if pending.reason == "Deferred" { "ResizeDeferred" } else { "ResizeInfeasible" },
                        message,
                    );
                }
                let deferred = pending.reason == "Deferred";
                record.allocation.pending = Some(pending);
                if deferred {
                    pods.deferred.insert(uid.to_owned());
                }
            }
        }
    }

    /// A resize that is in force is over.
    fn settle_resize(&self, record: &mut Record) {
        let Some(generation) = record.allocation.in_progress else { return };
        if resize::is_in_force(&record.pod, &record.facts) {
            record.allocation.in_progress = None;
            let message = resize::message("Pod resize completed", &record.pod, generation, None);
            self.inner.config.recorder.normal(&events::pod(&record.pod), "ResizeCompleted", message);
        }
    }

    /// Makes what containers share, and takes it away when all have ended. The answer is when to try again.
    fn sandbox(&mut self, uid: &str, record: &mut Record, now: Timestamp) -> Option<Timestamp> {
        match (record.sandbox, record.stage) {
            (Sandbox::Absent, Stage::Active) => self.prepare(uid, record, 1),
            (Sandbox::Waiting { tries, until }, Stage::Active) if until <= now => self.prepare(uid, record, tries + 1),
            (Sandbox::Waiting { until, .. }, Stage::Active) => return Some(until),
            (Sandbox::Ready, Stage::Ended) => {
                record.sandbox = Sandbox::Released;
                record.place.sandbox = false;
                record.mounted = None;
                self.release(uid);
            }
            _ => {}
        }
        None
    }

    /// Tells the API server what is new, and deletes a pod that has ended when it is to be deleted.
    fn finish(&mut self, pods: &mut Pods, uid: &str, status: &PodStatus) {
        let Some(record) = pods.get_mut(uid) else { return };
        let ended = record.stage == Stage::Ended || matches!(record.admission, Admission::Rejected(_));
        let preparing = matches!(record.sandbox, Sandbox::Preparing { .. });
        if record.gone {
            if ended && !preparing {
                pods.remove(uid);
                if !self.leaving {
                    self.tear_down(uid);
                }
            }
            return;
        }
        if record.writing {
            return;
        }
        let now = self.inner.config.clock.now();
        if let Some(settled) = record.settles_at(now).filter(|_| !R::SIMULATED) {
            let wake = record.wake_at.map_or(settled, |wake| wake.min(settled));
            pods.wake(uid, Some(wake));
            return;
        }
        let mut change = status::patch(record.pod.status.as_ref(), status);
        if std::mem::take(&mut record.overwritten) {
            change.get_or_insert_with(|| json!({}))["phase"] = json!(status.phase);
        }
        if let Some(change) = change {
            record.writing = true;
            self.write(uid, Arc::clone(&record.pod), change);
        } else if ended && !preparing && record.is_deleted() && record.ending == Ending::NotYet {
            record.ending = Ending::Deleting;
            self.delete(uid, Arc::clone(&record.pod));
        }
    }
}

/// The status of a pod that the node has no room for.
fn rejected(record: &Record, rejection: &Rejection, now: Timestamp) -> PodStatus {
    let old = record.pod.status.clone().unwrap_or_default();
    PodStatus {
        phase: Some("Failed".into()),
        reason: Some(rejection.reason.to_owned()),
        message: Some(format!("Pod was rejected: {}", rejection.message)),
        start_time: old.start_time.clone().or(Some(Time(now))),
        observed_generation: record.pod.metadata.generation,
        ..old
    }
}
