//! A simulated node for tests: it carries out plans in no time, and its containers behave as the test says.

pub(crate) mod by_mode;

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pillion_api::record::sidecars::SidecarRecord;
use serde_json::{Value, json};

use crate::{
    Action, ContainerFacts, Held, Hook, Marked, NodeFacts, Note, Plan, Snapshot, Stage, State, StopOrder, Unhealthy,
    plan, record,
};

/// How one attempt of a container goes; all times in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour {
    /// The start is refused, for this reason.
    pub(crate) refused: Option<&'static str>,
    /// It exits by itself, after so long and with this code.
    pub(crate) exits: Option<(i64, i32)>,
    /// It exits on the stop signal, after so long and with this code.
    pub(crate) exits_on_term: Option<(i64, i32)>,
    /// The startup probe succeeds.
    pub(crate) starts: Option<i64>,
    /// A probe gives it up.
    pub(crate) sickens: Option<(i64, Unhealthy)>,
    /// The hook takes so long, and succeeds or not.
    pub(crate) post_start: (i64, bool),
    pub(crate) pre_stop: i64,
}

pub(crate) fn exits(after: i64, code: i32) -> Behaviour {
    Behaviour { exits: Some((after, code)), ..serves() }
}

/// Runs for ever, and ends at once when asked to.
pub(crate) fn serves() -> Behaviour {
    Behaviour { exits_on_term: Some((0, 0)), starts: Some(0), post_start: (0, true), ..Behaviour::default() }
}

/// Runs for ever, and does not care for signals.
pub(crate) fn stubborn() -> Behaviour {
    Behaviour { exits_on_term: None, ..serves() }
}

#[derive(Clone, Debug)]
enum Event {
    Exit(i32),
    Started,
    Sick(Unhealthy),
    PostStart(bool),
    PreStop,
    KilledByWrapper,
}

pub(crate) struct Simulation {
    pub(crate) pod: Pod,
    pub(crate) marked: Marked,
    pub(crate) facts: BTreeMap<String, ContainerFacts>,
    pub(crate) node: NodeFacts,
    pub(crate) stop: Option<StopOrder>,
    pub(crate) now: Timestamp,
    pub(crate) behaviours: BTreeMap<String, Vec<Behaviour>>,
    events: Vec<(Timestamp, String, u32, Event)>,
    /// The record of the pod, if a manager looks after it.
    record: Option<SidecarRecord>,
    wrappers_know: bool,
    /// What was done and what happened, each with the second.
    pub(crate) log: Vec<String>,
    pub(crate) notes: Vec<Note>,
    /// The phases that were reported, each with the second.
    pub(crate) phases: Vec<String>,
    /// The state that was reported of each container, as it changed.
    pub(crate) reported: Vec<String>,
}

pub(crate) fn pod(spec: Value) -> Pod {
    let metadata = json!({"name": "web", "namespace": "default", "uid": "u", "generation": 1});
    let mut pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    let spec = pod.spec.as_mut().unwrap();
    spec.termination_grace_period_seconds.get_or_insert(30);
    spec.restart_policy.get_or_insert("Always".to_owned());
    pod
}

pub(crate) fn sidecar(name: &str) -> Value {
    json!({"name": name, "image": "i", "restartPolicy": "Always", "startupProbe": {}})
}

pub(crate) fn container(name: &str) -> Value {
    json!({"name": name, "image": "i"})
}

/// The facts of a container that has come so far: `-` not yet started, `u` running but not started up, `r` running,
/// `b` exited with 1 and waiting for its next start, or exited with a code.
pub(crate) fn facts(sign: char) -> Option<ContainerFacts> {
    let now = Timestamp::UNIX_EPOCH;
    let running =
        |started| State::Running { since: now, post_start: Hook::NotBegun, started, ready: true, unhealthy: None };
    let exited = |code| State::Exited {
        since: Some(now),
        at: Some(now),
        code,
        signal: None,
        reason: String::new(),
        message: String::new(),
    };
    let state = match sign {
        '-' => return None,
        'u' => running(false),
        'r' => running(true),
        'b' => exited(1),
        code => exited(code.to_digit(10).and_then(|code| i32::try_from(code).ok()).unwrap()),
    };
    let mut all = BTreeMap::new();
    let start = Action::Start { container: String::new(), attempt: 0, image: "i".to_owned(), back_off: None };
    record(&mut all, &[start], now);
    let mut facts = all.remove("").unwrap();
    let attempt = facts.current.as_mut().unwrap();
    attempt.state = state;
    attempt.held = (sign == 'b').then(|| Held { since: now - SignedDuration::from_secs(5), seconds: 10 });
    Some(facts)
}

impl Simulation {
    pub(crate) fn new<const N: usize>(spec: Value, behaviours: [(&str, Vec<Behaviour>); N]) -> Self {
        let node = NodeFacts {
            host_ips: vec!["192.0.2.1".to_owned()],
            pod_ips: vec!["10.0.0.2".to_owned()],
            sandbox: true,
            accepted_at: Some(Timestamp::UNIX_EPOCH),
        };
        Self {
            marked: Marked::of(&json!({"spec": spec})),
            pod: pod(spec),
            facts: BTreeMap::new(),
            node,
            stop: None,
            now: Timestamp::UNIX_EPOCH,
            behaviours: behaviours.into_iter().map(|(name, list)| (name.to_owned(), list)).collect(),
            events: Vec::new(),
            record: None,
            wrappers_know: false,
            log: Vec::new(),
            notes: Vec::new(),
            phases: Vec::new(),
            reported: Vec::new(),
        }
    }

    pub(crate) fn look(&self) -> Plan {
        plan(&Snapshot {
            pod: &self.pod,
            marked: &self.marked,
            containers: &self.facts,
            node: &self.node,
            stop: self.stop.as_ref(),
            now: self.now,
        })
    }

    pub(crate) fn second(&self) -> i64 {
        self.now.as_second()
    }

    pub(crate) fn delete(&mut self, grace: i64) {
        self.pod.metadata.deletion_timestamp = Some(Time(self.now));
        self.pod.metadata.deletion_grace_period_seconds = Some(grace);
    }

    /// The machine starts again: nothing runs any more, and the sandbox is another one.
    pub(crate) fn reboot(&mut self) {
        self.log.push(format!("{} reboot", self.second()));
        self.events.clear();
        for facts in self.facts.values_mut() {
            facts.back_off = None;
            // A start that was under way has left no trace.
            if facts.current.as_ref().is_some_and(|attempt| matches!(attempt.state, State::Starting)) {
                facts.current = facts.previous.take();
            }
            let Some(attempt) = &mut facts.current else { continue };
            attempt.in_earlier_sandbox = true;
            (attempt.stopping, attempt.held) = (None, None);
            if let State::Running { since, .. } = attempt.state {
                let (since, at) = (Some(since), Some(self.now));
                let (reason, message) = ("ContainerStatusUnknown".to_owned(), String::new());
                attempt.state = State::Exited { since, at, code: 137, signal: None, reason, message };
            }
        }
    }

    /// Lets things go on until there is nothing more to do at this moment.
    pub(crate) fn settle(&mut self) -> Plan {
        loop {
            self.happen();
            let plan = self.look();
            self.report(&plan);
            record(&mut self.facts, &plan.actions, self.now);
            let again = self.look();
            assert_eq!(again.actions, [], "asked for twice at {}", self.second());
            assert_eq!(again.notes, [], "reported twice at {}", self.second());
            if plan.actions.is_empty() && !self.manage() && !self.is_due() {
                assert!(plan.wake_at.is_none_or(|at| at > self.now), "woken for nothing at {}", self.second());
                return plan;
            }
            for action in &plan.actions {
                self.execute(action);
            }
        }
    }

    /// Runs on to a moment, or until the pod has ended.
    pub(crate) fn run_to(&mut self, second: i64) -> Plan {
        loop {
            let plan = self.settle();
            let end = Timestamp::from_second(second).unwrap();
            let next = self.events.iter().map(|event| event.0).chain(plan.wake_at).min();
            let next = next.filter(|_| plan.stage != Stage::Ended).filter(|next| *next <= end);
            let Some(next) = next else {
                self.now = end.max(self.now);
                return if plan.stage == Stage::Ended { plan } else { self.settle() };
            };
            self.now = next;
        }
    }

    fn report(&mut self, plan: &Plan) {
        self.notes.extend(plan.notes.iter().cloned());
        let second = self.second();
        let phase = plan.status.phase.clone().unwrap();
        if self.phases.last().is_none_or(|last| !last.ends_with(&phase)) {
            self.phases.push(format!("{second} {phase}"));
        }
        let statuses = plan.status.init_container_statuses.iter().chain(&plan.status.container_statuses).flatten();
        for status in statuses {
            let state = status.state.clone().unwrap_or_default();
            let word = match (state.running, state.waiting, state.terminated) {
                (Some(_), ..) => "Running".to_owned(),
                (_, Some(waiting), _) => waiting.reason.unwrap_or_default(),
                (.., Some(exit)) => format!("{} {}", exit.reason.unwrap_or_default(), exit.exit_code),
                _ => "-".to_owned(),
            };
            let line = format!("{} {word} {}", status.name, status.restart_count);
            let before = self.reported.iter().rev().find(|reported| reported.contains(&format!(" {} ", status.name)));
            if before.is_none_or(|before| !before.ends_with(&line)) {
                self.reported.push(format!("{second} {line}"));
            }
        }
        self.pod.status = Some(plan.status.clone());
    }

    fn behaviour(&self, name: &str) -> Behaviour {
        let attempt = self.facts[name].current.as_ref().unwrap();
        let list = &self.behaviours[name];
        let turn = usize::try_from(attempt.number + attempt.tries - 1).unwrap();
        list[turn.min(list.len() - 1)].clone()
    }

    fn schedule(&mut self, name: &str, after: i64, event: Event) {
        let number = self.facts[name].current.as_ref().unwrap().number;
        let at = self.now + SignedDuration::from_secs(after);
        self.events.push((at, name.to_owned(), number, event));
    }

    fn execute(&mut self, action: &Action) {
        let name = action.container().to_owned();
        let second = self.second();
        let behaviour = self.behaviour(&name);
        let now = self.now;
        let attempt = self.facts.get_mut(&name).unwrap().current.as_mut().unwrap();
        match action {
            Action::Start { attempt: number, .. } => {
                assert_eq!(attempt.number, *number);
                if let Some(reason) = behaviour.refused {
                    self.log.push(format!("{second} {name} refused"));
                    attempt.state = State::Refused { reason: reason.into(), message: "no".into(), at: now };
                    return;
                }
                self.log.push(format!("{second} {name} starts {number}"));
                attempt.id = format!("test://{name}-{number}");
                attempt.state = State::Running {
                    since: now,
                    post_start: Hook::NotBegun,
                    started: false,
                    ready: true,
                    unhealthy: None,
                };
                if let Some((after, code)) = behaviour.exits {
                    self.schedule(&name, after, Event::Exit(code));
                }
                if let Some(after) = behaviour.starts {
                    self.schedule(&name, after, Event::Started);
                }
                if let Some((after, probe)) = behaviour.sickens {
                    self.schedule(&name, after, Event::Sick(probe));
                }
            }
            Action::PostStart { .. } => {
                self.schedule(&name, behaviour.post_start.0, Event::PostStart(behaviour.post_start.1));
            }
            Action::PreStop { .. } => {
                self.log.push(format!("{second} {name} preStop"));
                self.schedule(&name, behaviour.pre_stop, Event::PreStop);
            }
            Action::Terminate { kill_at, .. } => {
                let left = kill_at.as_second() - second;
                self.log.push(format!("{second} {name} TERM, {left} s left"));
                if let Some((after, code)) = behaviour.exits_on_term {
                    self.schedule(&name, after, Event::Exit(code));
                }
            }
            Action::Kill { .. } => {
                self.log.push(format!("{second} {name} KILL"));
                self.schedule(&name, 0, Event::Exit(137));
            }
            Action::Resize { .. } => self.log.push(format!("{second} {name} resized")),
            Action::Hold { .. } | Action::Stop { .. } | Action::Cancel { .. } => {}
        }
    }

    fn is_due(&self) -> bool {
        self.events.iter().any(|event| event.0 <= self.now)
    }

    fn happen(&mut self) {
        let now = self.now;
        let (due, later): (Vec<_>, _) = self.events.drain(..).partition(|event| event.0 <= now);
        self.events = later;
        for (at, name, number, event) in due {
            let current = self.facts.get_mut(&name).unwrap().current.as_mut().filter(|now| now.number == number);
            let Some(attempt) = current else { continue };
            let event = match event {
                Event::KilledByWrapper => {
                    self.log.push(format!("{} {name} KILL", now.as_second()));
                    Event::Exit(0)
                }
                event => event,
            };
            match (event, &mut attempt.state) {
                (Event::Exit(code), State::Running { since, .. }) => {
                    let reason = if code == 0 { "Completed" } else { "Error" };
                    let (since, at) = (Some(*since), Some(at));
                    let (reason, message) = (reason.to_owned(), String::new());
                    attempt.state = State::Exited { since, at, code, signal: None, reason, message };
                    self.log.push(format!("{} {name} exits {code}", now.as_second()));
                }
                (Event::Started, State::Running { started, .. }) => *started = true,
                (Event::Sick(probe), State::Running { unhealthy, .. }) => *unhealthy = Some(probe),
                (Event::PostStart(true), State::Running { post_start, .. }) => *post_start = Hook::Done { at },
                (Event::PostStart(false), State::Running { post_start, .. }) => {
                    *post_start = Hook::Failed { at, message: "hook".to_owned() };
                }
                (Event::PreStop, _) => {
                    if let Some(stopping) = &mut attempt.stopping {
                        stopping.pre_stop = Hook::Done { at };
                    }
                }
                _ => {}
            }
        }
    }
}
