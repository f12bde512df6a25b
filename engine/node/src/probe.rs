//! When a container is probed, and what its probes have to say.

pub(crate) mod check;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod, Probe as Spec};
use pillion_lifecycle::{ContainerFacts, State};
use pillion_probe::{FirstLook, Results, Timing};

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Startup,
    Readiness,
    Liveness,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Readiness => "Readiness",
            Kind::Liveness => "Liveness",
        }
    }

    /// The kubelet probes startup and readiness at once; its ticker for liveness begins with the container.
    fn first_look(self) -> FirstLook {
        match self {
            Kind::Startup | Kind::Readiness => FirstLook::AtOnce,
            Kind::Liveness => FirstLook::AfterPeriod,
        }
    }

    pub(crate) fn spec(self, container: &Container) -> Option<&Spec> {
        match self {
            Kind::Startup => container.startup_probe.as_ref(),
            Kind::Readiness => container.readiness_probe.as_ref(),
            Kind::Liveness => container.liveness_probe.as_ref(),
        }
    }
}

/// What probes have found out about a container, after as many results as their thresholds want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Started,
    NotStarted,
    Ready(bool),
    NotAlive,
}

/// One probe of one attempt of a container.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    pub(crate) container: String,
    pub(crate) attempt: u32,
    pub(crate) kind: Kind,
    /// When it is run next, or was run last if it is under way. `None` until the container has started.
    next: Option<Timestamp>,
    state: Progress,
    results: Results,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Scheduled,
    UnderWay,
    /// It has said all that it has to say about this attempt.
    Over,
}

/// What to do about the probes of a pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Containers, attempts and kinds to be probed now; they count as under way.
    pub(crate) now: Vec<(String, u32, Kind)>,
    /// When the next one comes.
    pub(crate) next: Option<Timestamp>,
}

/// Brings the probes of a pod in line with its containers, and returns those that are due.
pub(crate) fn schedule(
    probes: &mut Vec<Probe>,
    pod: &Pod,
    facts: &BTreeMap<String, ContainerFacts>,
    now: Timestamp,
) -> Due {
    probes.retain(|probe| {
        let current = facts.get(&probe.container).and_then(|facts| facts.current.as_ref());
        current.is_some_and(|attempt| attempt.number == probe.attempt && matches!(attempt.state, State::Running { .. }))
    });
    let mut due = Due::default();
    let deleted = pod.metadata.deletion_timestamp.is_some();
    for container in probed(pod) {
        let Some(attempt) = facts.get(&container.name).and_then(|facts| facts.current.as_ref()) else { continue };
        let State::Running { since, started, .. } = attempt.state else { continue };
        let stopping = deleted || attempt.stopping.is_some();
        let started = started || container.startup_probe.is_none();
        for kind in [Kind::Startup, Kind::Readiness, Kind::Liveness] {
            let Some(spec) = kind.spec(container) else { continue };
            let probe = entry(probes, &container.name, attempt.number, kind);
            let silent = match kind {
                Kind::Startup => stopping || started,
                Kind::Liveness => stopping,
                Kind::Readiness => false,
            };
            if silent {
                probe.state = Progress::Over;
            }
            let waits = kind != Kind::Startup && !started;
            if probe.state != Progress::Scheduled || waits {
                continue;
            }
            let next = *probe.next.get_or_insert_with(|| timing(spec).first_look(kind.first_look(), since, now));
            if next <= now {
                probe.state = Progress::UnderWay;
                due.now.push((container.name.clone(), attempt.number, kind));
            } else {
                due.next = Some(due.next.map_or(next, |at| at.min(next)));
            }
        }
    }
    due
}

/// Containers that can have probes: regular ones and native sidecars.
fn probed(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.as_ref();
    let sidecars = spec
        .into_iter()
        .flat_map(|spec| spec.init_containers.iter().flatten())
        .filter(|container| container.restart_policy.as_deref() == Some("Always"));
    sidecars.chain(spec.into_iter().flat_map(|spec| &spec.containers))
}

fn entry<'a>(probes: &'a mut Vec<Probe>, container: &str, attempt: u32, kind: Kind) -> &'a mut Probe {
    let found = probes.iter().position(|probe| probe.kind == kind && probe.container == container);
    let index = found.unwrap_or_else(|| {
        let (next, state, results) = (None, Progress::Scheduled, Results::default());
        probes.push(Probe { container: container.to_owned(), attempt, kind, next, state, results });
        probes.len() - 1
    });
    &mut probes[index]
}

/// What the spec says of time, with Kubernetes' defaults.
fn timing(spec: &Spec) -> Timing {
    let default = Timing::default();
    let seconds =
        |number: Option<i32>, default| number.map_or(default, |number| SignedDuration::from_secs(number.into()));
    let threshold = |number: Option<i32>, default| number.map_or(default, |number| u32::try_from(number).unwrap_or(1));
    Timing {
        initial_delay: seconds(spec.initial_delay_seconds, default.initial_delay),
        period: seconds(spec.period_seconds, default.period),
        success_threshold: threshold(spec.success_threshold, default.success_threshold),
        failure_threshold: threshold(spec.failure_threshold, default.failure_threshold),
    }
}

/// Takes the result of a probe that was under way; `None` is a probe that could not be made, and counts for nothing.
///
/// `steady` probes are not repeated once they have passed.
pub(crate) fn finish(
    probe: &mut Probe,
    spec: &Spec,
    passed: Option<bool>,
    steady: bool,
    now: Timestamp,
) -> Option<Verdict> {
    let timing = timing(spec);
    if probe.state == Progress::UnderWay {
        probe.state = Progress::Scheduled;
        probe.next = probe.next.map(|ran| timing.next_look(ran, now));
    }
    let passed = probe.results.add(passed?, &timing)?;
    let over = probe.kind == Kind::Startup || (probe.kind == Kind::Liveness && !passed) || (steady && passed);
    if over {
        probe.state = Progress::Over;
    }
    match (probe.kind, passed) {
        (Kind::Startup, true) => Some(Verdict::Started),
        (Kind::Startup, false) => Some(Verdict::NotStarted),
        (Kind::Readiness, ready) => Some(Verdict::Ready(ready)),
        (Kind::Liveness, false) => Some(Verdict::NotAlive),
        (Kind::Liveness, true) => None,
    }
}
