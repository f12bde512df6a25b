//! Pods in each mode on the simulated node: with the manager beside it, and `pillion-wrap` in its containers.

use pillion_api::record::sidecars::{Method, SidecarRecord};
use serde_json::{Value, json};

use super::{Behaviour, Event, Simulation, container};
use crate::{State, Verdict, verdict};

/// The modes, in the order of [`MODES`](crate::modes::MODES).
pub(crate) const FIELD: usize = 0;
pub(crate) const NATIVE: usize = 1;
pub(crate) const WRAPPED: usize = 2;
pub(crate) const BY_PHASE: usize = 3;

impl Simulation {
    /// A pod whose first container works and whose others are sidecars, as admission leaves it in a mode.
    pub(crate) fn in_mode<const N: usize>(
        mode: usize,
        policy: &str,
        grace: i64,
        behaviours: [(&str, Vec<Behaviour>); N],
    ) -> Simulation {
        let names: Vec<String> = behaviours.iter().map(|(name, _)| (*name).to_owned()).collect();
        let (main, sidecars) = names.split_first().unwrap();
        let of_sidecars = |more: Value| -> Vec<Value> {
            let one = |name: &String| {
                let mut one = container(name);
                one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
                one
            };
            sidecars.iter().map(one).collect()
        };
        let (init, more) = match mode {
            FIELD => (Vec::new(), of_sidecars(json!({"sidecar": true}))),
            NATIVE => (of_sidecars(json!({"restartPolicy": "Always"})), Vec::new()),
            _ => (Vec::new(), of_sidecars(json!({}))),
        };
        let containers: Vec<Value> = std::iter::once(container(main)).chain(more).collect();
        let spec = json!({
            "restartPolicy": policy, "terminationGracePeriodSeconds": grace, "initContainers": init, "containers": containers,
        });
        let mut simulation = Simulation::new(spec, behaviours);
        let method = match mode {
            WRAPPED => Some(Method::Wrap),
            BY_PHASE => Some(Method::Phase),
            _ => None,
        };
        let record = |method| SidecarRecord {
            method,
            sidecars: sidecars.to_vec(),
            fail_pod: Vec::new(),
            ignore_errors: Vec::new(),
        };
        simulation.record = method.map(record);
        simulation
    }

    /// What the manager and the wrappers do at this moment; whether that is anything.
    pub(super) fn manage(&mut self) -> bool {
        let Some(record) = self.record.clone() else { return false };
        let mut does = false;
        if record.method == Method::Wrap && !self.wrappers_know && self.wrapped_work_is_done(&record) {
            self.wrappers_know = true;
            does = true;
            for name in &record.sidecars {
                self.end_wrapped(name);
            }
        }
        if let Verdict::End { phase, .. } = verdict(&self.pod, &record) {
            self.pod.status.get_or_insert_default().phase = Some(phase.to_owned());
            does = true;
        }
        does
    }

    /// As the wrappers see it by locks and recorded exit codes.
    fn wrapped_work_is_done(&self, record: &SidecarRecord) -> bool {
        let spec = self.pod.spec.as_ref().unwrap();
        let policy = spec.restart_policy.as_deref();
        let mut work = spec.containers.iter().filter(|container| !record.sidecars.contains(&container.name));
        work.all(|container| {
            let attempt = self.facts.get(&container.name).and_then(|facts| facts.current.as_ref());
            match attempt.map(|attempt| &attempt.state) {
                Some(State::Exited { code, .. }) => policy == Some("Never") || *code == 0,
                _ => false,
            }
        })
    }

    /// TERM, the grace period, KILL; and 0 in any case.
    fn end_wrapped(&mut self, name: &str) {
        let attempt = self.facts.get(name).and_then(|facts| facts.current.as_ref());
        if !attempt.is_some_and(|attempt| matches!(attempt.state, State::Running { .. })) {
            return;
        }
        self.log.push(format!("{} {name} TERM", self.second()));
        let grace = self.pod.spec.as_ref().unwrap().termination_grace_period_seconds.unwrap();
        match self.behaviour(name).exits_on_term {
            Some((after, _)) => self.schedule(name, after, Event::Exit(0)),
            None => self.schedule(name, grace, Event::KilledByWrapper),
        }
    }
}
